"""The public estimators."""

from crowdmetric.estimators.ideal_point import IdealPointMetric
from crowdmetric.estimators.matched import MatchedMetric
from crowdmetric.estimators.population import PopulationMetric
from crowdmetric.estimators.similarity import SimilarityMetric
from crowdmetric.estimators.smooth import TasteMetric
from crowdmetric.estimators.stitched import StitchedMetric

__all__ = ["IdealPointMetric", "MatchedMetric", "PopulationMetric", "SimilarityMetric", "StitchedMetric", "TasteMetric"]
