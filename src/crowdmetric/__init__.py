"""crowdmetric: learn how a crowd sees similarity from a handful of "this one or that one?" answers per person."""

from crowdmetric._version import __version__
from crowdmetric.comparisons import Comparisons
from crowdmetric.estimators import IdealPointMetric, MatchedMetric, PopulationMetric, SimilarityMetric, StitchedMetric
from crowdmetric.judgements import Judgements

__all__ = [
    "Comparisons",
    "IdealPointMetric",
    "Judgements",
    "MatchedMetric",
    "PopulationMetric",
    "SimilarityMetric",
    "StitchedMetric",
    "__version__",
]
