"""The public estimators: parameters, `fit`, attributes. The fits are in `fits`, `similarity`, `smooth` and `solvers`.

`IdealPointMetric` and `StitchedMetric` have a room of their own, `bounded`.

::

    population.py             `PopulationMetric`
    population_options.py     its options: their values, and which can be combined
    similarity.py             `SimilarityMetric`
    similarity_inputs.py      what its `fit` accepts, turned into Judgements
    smooth.py                 `TasteMetric`
    matched.py                `MatchedMetric`
"""

from crowdmetric.bounded import IdealPointMetric, StitchedMetric
from crowdmetric.estimators.matched import MatchedMetric
from crowdmetric.estimators.population import PopulationMetric
from crowdmetric.estimators.similarity import SimilarityMetric
from crowdmetric.estimators.smooth import TasteMetric

__all__ = ["IdealPointMetric", "MatchedMetric", "PopulationMetric", "SimilarityMetric", "StitchedMetric", "TasteMetric"]
