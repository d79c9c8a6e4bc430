"""The models that are compared, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from crowdmetric.errors import DataError
from crowdmetric.estimators import IdealPointMetric, PopulationMetric, StitchedMetric
from crowdmetric.estimators.smooth import MOST_SHOWN
from crowdmetric.evaluate.estimated import EstimatorModel
from crowdmetric.evaluate.model import Model
from crowdmetric.evaluate.popularity import BradleyTerry
from crowdmetric.evaluate.quadratic import PooledQuadratic
from crowdmetric.evaluate.taste_model import TasteModel
from crowdmetric.fits.many_features import LARGEST_SCORING
from crowdmetric.symmetric import degrees_of_freedom

__all__ = [
    "BASELINES",
    "DEFAULT",
    "FOR_FEW_ITEMS",
    "LEARNED",
    "MODELS",
    "POPULATIONS",
    "WITHOUT_DISTANCE",
    "WITHOUT_METRIC",
    "WITH_ITEM_EFFECTS",
    "choose_models",
    "not_of_use",
]

# What predictions do not need is left out of a population that is judged.
TRIAL = {"starts": 1, "uncertainty": False, "integration": "propagation", "jobs": 1}


def _population(name: str, simpler: str = "", **law: Any) -> EstimatorModel:
    """Return a population: people integrated out under a metric of some kind, and a Gaussian law.

    All are one family under one likelihood, so the difference between two of them is the worth of that freedom.
    """
    return EstimatorModel(name, PopulationMetric, law, TRIAL, simpler)


# The populations. A fit begins where that of a special case ended: an isotropic law is one of a free one, and no item
# effects are effects of zero.
_ALL_POPULATIONS = (
    _population("linear", covariance="free", item_effects=False, constraint="zero"),
    _population("linear-items", "linear", covariance="free", item_effects=True, constraint="zero"),
    _population("mixed", covariance="isotropic", item_effects=True, constraint="zero"),
    _population("identity", covariance="isotropic", item_effects=False, constraint="identity"),
    _population("population", "identity", covariance="isotropic", item_effects=False),
    _population("population-free", "population", covariance="free", item_effects=False),
    _population("population-items", "population-free", covariance="free", item_effects=True),
    _population("population-items-isotropic", "population", covariance="isotropic", item_effects=True),
    _population("symmetric", "population-free", covariance="free", item_effects=False, constraint="symmetric"),
    _population("symmetric-items", "population-items", covariance="free", item_effects=True, constraint="symmetric"),
)
POPULATIONS = {model.name: model for model in _ALL_POPULATIONS}

# --8<-- [start:models]
# A new model is one line here, and is then tested, documented by its name and offered by the command line.
_ALL: tuple[Model, ...] = (
    BradleyTerry(),
    POPULATIONS["linear"],
    POPULATIONS["linear-items"],
    POPULATIONS["mixed"],
    PooledQuadratic(),
    POPULATIONS["identity"],
    EstimatorModel("ideal-point", IdealPointMetric),
    EstimatorModel("stitched", StitchedMetric),
    POPULATIONS["population"],
    POPULATIONS["population-free"],
    POPULATIONS["population-items"],
    POPULATIONS["population-items-isotropic"],
    POPULATIONS["symmetric"],
    POPULATIONS["symmetric-items"],
    TasteModel(),
)
# --8<-- [end:models]
MODELS: dict[str, Model] = {model.name: model for model in _ALL}

# The baselines that a learned metric has to beat, and the learned metrics.
BASELINES = ("bradley-terry", "linear", "linear-items", "mixed", "quadratic", "identity")
WITH_ITEM_EFFECTS = ("population-items", "population-items-isotropic")
LEARNED = ("population", "population-free", *WITH_ITEM_EFFECTS, "ideal-point", "stitched")
# Models with an effect for each item that are fitted by outer products of scores alone, which are for few items.
FOR_FEW_ITEMS = ("linear-items", "symmetric-items")
# The same model with M = 0: the difference to it is what the metric alone adds. Isotropic people and people in a ball
# have no law without a metric; they are compared with linear utilities under any Gaussian.
WITHOUT_METRIC = {
    "population": "linear",
    "population-free": "linear",
    "population-items": "linear-items",
    "population-items-isotropic": "linear-items",
    "ideal-point": "linear",
    "stitched": "linear",
    "symmetric": "linear",
    "symmetric-items": "linear-items",
}
# The same model with any symmetric matrix instead of a metric: it does not need ideal points.
WITHOUT_DISTANCE = {"population-free": "symmetric", "population-items": "symmetric-items"}
# All models except those that need labels and those for a closer look at item effects.
DEFAULT = tuple(name for name in MODELS if name not in ("stitched", "symmetric-items"))


def not_of_use(n_features: int) -> tuple[str, ...]:
    """Return the models that are another one under this number of features.

    With one feature a multiple of the identity is any metric: 'identity' is the learned metric, and no baseline.
    """
    return ("identity",) if n_features == 1 else ()


def choose_models(
    models: Sequence[str | Model] | None,
    subspaces: Any = None,
    n_items: int = 0,
    n_features: int = 0,
    n_people: int | None = None,
) -> list[Model]:
    """Return the models named, or the default ones: 'stitched' where subspaces are given.

    Some models are for few items: those and the parameters of a metric are at most 3,000. With two people, one of whom
    may be hidden, 'ideal-point' cannot choose its radii.
    """
    if models is None:
        models = DEFAULT if subspaces is None else (*DEFAULT, "stitched")
        few = degrees_of_freedom(n_features) + n_items <= LARGEST_SCORING
        models = [name for name in models if few or name not in FOR_FEW_ITEMS]
        models = [name for name in models if name != "smooth" or n_items <= MOST_SHOWN]
        models = [name for name in models if name not in not_of_use(n_features)]
        models = [name for name in models if name != "ideal-point" or n_people is None or n_people > 2]
    if isinstance(models, str):
        raise DataError(f"models={models!r} is one name; give a list, such as models=[{models!r}]")
    chosen: list[Model] = []
    for model in models:
        if not isinstance(model, str):
            if not isinstance(model, Model):
                raise DataError(f"{model!r} is no model; give a name, or an object with name and fit(items, train)")
            chosen.append(model)
            continue
        if model not in MODELS:
            raise DataError(f"model {model!r} is unknown; use one of {', '.join(map(repr, MODELS))}")
        if model == "stitched" and subspaces is None:
            raise DataError("model 'stitched' needs to know which subspace an item lies in; give subspaces=labels")
        found = MODELS[model]
        chosen.append(replace(found, options={"subspaces": subspaces}) if model == "stitched" else found)  # type: ignore[type-var]
    names = [model.name for model in chosen]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated or not names:
        raise DataError(f"models repeats {repeated[0]!r}; name each once" if repeated else "models is empty; name one")
    return chosen
