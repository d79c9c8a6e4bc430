"""The models that are compared, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from crowdmetric.errors import DataError
from crowdmetric.estimators import IdealPointMetric, StitchedMetric
from crowdmetric.evaluate.crowds import CrowdModel
from crowdmetric.evaluate.estimated import EstimatorModel
from crowdmetric.evaluate.model import Model
from crowdmetric.evaluate.popularity import BradleyTerry
from crowdmetric.users.item_effects import MOST_ITEMS

__all__ = ["BASELINES", "DEFAULT", "LEARNT", "MODELS", "WITH_ITEM_EFFECTS", "choose_models"]

# --8<-- [start:models]
# A new model is one line here, and is then tested, documented by its name and offered by the command line.
MODELS: dict[str, Callable[[Any], Model]] = {
    "bradley-terry": lambda subspaces: BradleyTerry(),
    "linear": lambda subspaces: CrowdModel("linear", "none", "free"),
    "identity": lambda subspaces: CrowdModel("identity", "identity", "isotropic"),
    "ideal-point": lambda subspaces: EstimatorModel("ideal-point", IdealPointMetric),
    "stitched": lambda subspaces: EstimatorModel("stitched", StitchedMetric, {"subspaces": subspaces}),
    "population": lambda subspaces: CrowdModel("population", "psd", "isotropic"),
    "population-free": lambda subspaces: CrowdModel("population-free", "psd", "free"),
    "population-items": lambda subspaces: CrowdModel("population-items", "psd", "free", item_effects=True),
    "population-items-isotropic": lambda subspaces: CrowdModel(
        "population-items-isotropic", "psd", "isotropic", item_effects=True
    ),
    "symmetric": lambda subspaces: CrowdModel("symmetric", "symmetric", "free"),
}
# --8<-- [end:models]

DEFAULT = tuple(name for name in MODELS if name != "stitched")
# What a learnt metric has to beat, and what counts as one; those of them that are for few items.
BASELINES = ("bradley-terry", "linear", "identity")
WITH_ITEM_EFFECTS = ("population-items", "population-items-isotropic")
LEARNT = ("population", "population-free", *WITH_ITEM_EFFECTS, "ideal-point", "stitched")


def choose_models(models: Sequence[str | Model] | None, subspaces: Any = None, n_items: int = 0) -> list[Model]:
    """Return the models named, or all: 'stitched' where subspaces are given, item effects for at most 500 items."""
    if models is None:
        models = DEFAULT if subspaces is None else tuple(MODELS)
        models = [name for name in models if name not in WITH_ITEM_EFFECTS or n_items <= MOST_ITEMS]
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
        chosen.append(MODELS[model](subspaces))
    names = [model.name for model in chosen]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated or not names:
        raise DataError(f"models repeats {repeated[0]!r}; name each once" if repeated else "models is empty; name one")
    return chosen
