"""What the report of crowdmetric fit is told beside the model: what answers can teach, how well they are predicted."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.commands.base import note
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError
from crowdmetric.evaluate import Evaluation, evaluate
from crowdmetric.identifiability import Diagnosis, diagnose
from crowdmetric.progress import show_progress
from crowdmetric.tables import Items
from crowdmetric.users.item_effects import MOST_ITEMS

__all__ = ["diagnosed", "evaluated", "saved_as"]

# More features than this take longer to diagnose than to learn from.
MOST_DIAGNOSED = 60
# What is evaluated for the report, and how many people at most: enough for a verdict, in about the time of a few fits.
EVALUATED = ("bradley-terry", "linear", "quadratic", "identity", "population", "population-free", "symmetric")
MOST_EVALUATED = 2_000
WITH_ROUND_PEOPLE = "population-items-isotropic"


def diagnosed(
    options: Namespace, features: NDArray[np.float64], names: list[str], items: Items, answers: Comparisons
) -> Diagnosis | None:
    """Return what the answers can teach, and say it; None for so many features that it would take too long."""
    if features.shape[1] > MOST_DIAGNOSED:
        note(
            options,
            f"items have {features.shape[1]} features: see crowdmetric diagnose for what these answers can teach",
        )
        return None
    with show_progress("Looking at the answers", quiet=options.quiet):
        found = diagnose(
            features, answers, features=names, item_ids=items.ids, covariance=options.covariance or "isotropic"
        )
    note(options, found.summary().splitlines()[0])
    return found


def evaluated(
    options: Namespace, features: NDArray[np.float64], answers: Comparisons, parameters: Mapping[str, Any]
) -> Evaluation | None:
    """Return how well models predict hidden answers of at most 2,000 of the people; None where that is not asked.

    Among them are all laws of people and items that may be chosen.
    """
    if options.no_report or options.no_evaluate or not answers.is_binary:
        return None
    if features.shape[1] > MOST_DIAGNOSED:
        note(
            options,
            f"items have {features.shape[1]} features: see crowdmetric evaluate for how well answers are predicted",
        )
        return None
    step = -(-answers.n_users // MOST_EVALUATED)
    some = answers if step == 1 else answers.take(np.flatnonzero(answers.user % step == 0))
    subspaces = parameters.get("subspaces")
    labels = subspaces if subspaces is not None and not isinstance(subspaces, str) else None
    names = [*EVALUATED, *(["stitched"] if labels is not None else [])]
    if len(features) <= MOST_ITEMS:
        names += ["linear-items", WITH_ROUND_PEOPLE, "population-items", "symmetric-items"]
    try:
        with show_progress("Predicting hidden answers", quiet=options.quiet) as say:
            return evaluate(features, some, names, repeats=1, subspaces=labels, after_fit=say)
    except DataError as error:
        note(options, f"how well answers are predicted was not measured: {error}")
        return None


def saved_as(parameters: Mapping[str, Any]) -> str | None:
    """Return the name of the evaluated model that an estimator with these parameters is; None: none of them.

    Evaluated are populations of full rank under the logistic loss with ridges from the evidence, and stitched metrics
    where subspaces are given as labels.
    """
    subspaces = parameters.get("subspaces")
    if subspaces is not None:
        return None if isinstance(subspaces, str) else "stitched"
    usual = {"constraint": "psd", "rank": None, "loss": "logistic", "ridge": "evidence"}
    if "covariance" not in parameters or any(parameters.get(name, value) != value for name, value in usual.items()):
        return None
    free = parameters["covariance"] == "free"
    if parameters.get("item_effects"):
        return "population-items" if free else WITH_ROUND_PEOPLE
    return "population-free" if free else "population"
