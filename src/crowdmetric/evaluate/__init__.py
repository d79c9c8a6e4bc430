"""Which model predicts best, honestly: hidden answers, three ways of hiding them, and baselines.

::

    splits.py       what is hidden
    scores.py       how good probabilities are
    model.py        what an evaluated model is
    popularity.py   one utility for everybody: of the items (Bradley–Terry)
    quadratic.py    one utility for everybody: of features and their products
    estimated.py    the library's estimators
    taste_model.py  smooth tastes
    models.py       all of them by name
    verdict.py      sentences that follow, and the rules behind them
    evaluation.py   the table, differences and their errors
    run.py          fit and score
    similarity_evaluation.py  the same for similarity judgements
"""

from __future__ import annotations

from crowdmetric.evaluate.estimated import EstimatorModel
from crowdmetric.evaluate.evaluation import Evaluation, Result
from crowdmetric.evaluate.model import Fitted, Model
from crowdmetric.evaluate.models import MODELS
from crowdmetric.evaluate.popularity import BradleyTerry
from crowdmetric.evaluate.quadratic import PooledQuadratic
from crowdmetric.evaluate.run import evaluate, plan_evaluation
from crowdmetric.evaluate.similarity_evaluation import (
    SIMILARITY_MODELS,
    SIMILARITY_SPLITS,
    SimilarityEvaluation,
    evaluate_similarity,
)
from crowdmetric.evaluate.splits import SPLITS, Split, SplitPlan, split
from crowdmetric.evaluate.verdict import Difference

__all__ = [
    "MODELS",
    "SIMILARITY_MODELS",
    "SIMILARITY_SPLITS",
    "SPLITS",
    "BradleyTerry",
    "Difference",
    "EstimatorModel",
    "Evaluation",
    "Fitted",
    "Model",
    "PooledQuadratic",
    "Result",
    "SimilarityEvaluation",
    "Split",
    "SplitPlan",
    "evaluate",
    "evaluate_similarity",
    "plan_evaluation",
    "split",
]
