"""The public estimators: parameters, `fit`, attributes. The fits are in `fits`, `similarity`, `smooth` and `solvers`.

::

    base.py                   what every fitted metric can do: distances, coordinates, predictions
    population.py             `PopulationMetric`
    population_options.py     its options: their values, and which can be combined
    similarity.py             `SimilarityMetric`
    similarity_inputs.py      what its `fit` accepts, turned into Judgements
    smooth.py                 `TasteMetric`
    matched.py                `MatchedMetric`
    ideal_point.py            `IdealPointMetric`
    stitched.py               `StitchedMetric`
    summary.py                the summary of a fitted model
"""

from crowdmetric.estimators.ideal_point import IdealPointMetric
from crowdmetric.estimators.matched import MatchedMetric
from crowdmetric.estimators.population import PopulationMetric
from crowdmetric.estimators.similarity import SimilarityMetric
from crowdmetric.estimators.smooth import TasteMetric
from crowdmetric.estimators.stitched import StitchedMetric

__all__ = ["IdealPointMetric", "MatchedMetric", "PopulationMetric", "SimilarityMetric", "StitchedMetric", "TasteMetric"]
