"""What the report of crowdmetric fit is told beside the model: what answers can teach, how well they are predicted."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.choice import LAWS, QUESTIONS, UNLEARNED, WORTH_MORE
from crowdmetric.commands.command import note
from crowdmetric.commands.fit_choice import kind_is_open
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError
from crowdmetric.evaluate import Evaluation, evaluate
from crowdmetric.evaluate.models import WITHOUT_DISTANCE, not_of_use
from crowdmetric.evaluate.splits import TITLES, possible_splits
from crowdmetric.identifiability import Diagnosis, diagnose
from crowdmetric.identifiability.relations import Relation
from crowdmetric.progress import show_progress
from crowdmetric.symmetric import degrees_of_freedom
from crowdmetric.tables import Items

__all__ = ["diagnosed", "evaluated", "needless", "saved_as", "suggest_tastes"]

# More features than this take longer to diagnose than to learn from.
MOST_DIAGNOSED = 60
# Models evaluated for the report, and the maximum number of people and, while FEWEST_EVALUATED people are left, of
# answers: enough for a verdict in about the time of a few fits. Differences between models are then known to about
# 0.003 nats.
EVALUATED = ("bradley-terry", "linear", "mixed", "quadratic", "identity", "population", "population-free", "symmetric")
MOST_EVALUATED, MOST_ANSWERS, FEWEST_EVALUATED = 2_000, 30_000, 200
WITH_ROUND_PEOPLE = "population-items-isotropic"
# Laws with one freedom more than another, which are only evaluated on while that may be worth something; and laws with
# both freedoms.
FREEDOMS = {"population-free": "population", WITH_ROUND_PEOPLE: "population"}
WITH_BOTH = ("population-items", "symmetric-items")
# For TasteMetric: maximum work of the evaluation (the cube of the items shown, summed over people, and the cube of all
# items, with more of which no free covariance is judged together with item effects), also with as many people at least,
# and the gain in nats per answer from which it is suggested.
SMOOTH, MOST_SMOOTH_WORK, WORTH_SAYING = "smooth", 1.5e8, 0.005
# A gain of smooth tastes, in nats per answer, that no other question is likely to outweigh.
DECIDES = 0.01
# Maximum cost (answers times the square of the metric's parameters) at which laws with a free covariance are compared:
# they have twice the parameters and take most of the time. Below the lower cost all laws are compared on all questions.
MOST_WORK, LITTLE_WORK = 300_000_000, 500_000
WITH_FREE_PEOPLE = ("population-free", "symmetric", "population-items", "symmetric-items")
# Baselines that take seconds per step of their fit with more features than are diagnosed.
BY_SLOW_STEPS = ("linear", "identity", "linear-items", *WITH_FREE_PEOPLE)


def diagnosed(
    options: Namespace, features: NDArray[np.float64], names: list[str], items: Items, answers: Comparisons,
    relations: Sequence[Relation] = (),
) -> Diagnosis | None:  # fmt: skip
    """Return what the answers can teach, and say it; None for so many features that it would take too long."""
    if features.shape[1] > MOST_DIAGNOSED:
        note(
            options,
            f"items have {features.shape[1]} features: see crowdmetric diagnose for what these answers can teach",
        )
        return None
    with show_progress("Looking at the answers", quiet=options.quiet):
        scatter = "isotropic" if options.covariance in (None, "none") else options.covariance
        found = diagnose(features, answers, features=names, item_ids=items.ids, covariance=scatter, relations=relations)
    note(options, found.summary().splitlines()[0])
    return found


def evaluated(
    options: Namespace, features: NDArray[np.float64], answers: Comparisons, parameters: Mapping[str, Any]
) -> Evaluation | None:
    """Return how well models predict hidden answers of at most 2,000 of the people (fewer where each answered a lot).

    None if that is not asked.

    Among them are all laws of people and items that may be chosen, but for free covariances of many features, and for
    what takes long with more than 60 features.
    """
    if options.no_report or options.no_evaluate or not answers.is_binary:
        return None
    few_items = float(len(features)) ** 3 <= MOST_SMOOTH_WORK
    enough = len(answers) / MOST_ANSWERS
    if few_items:
        enough = max(enough, _work_of_tastes(answers) / MOST_SMOOTH_WORK)
    most = max(answers.n_users // FEWEST_EVALUATED, 1)
    step = max(ceil(answers.n_users / MOST_EVALUATED), min(most, ceil(enough)))
    some = answers if step == 1 else answers.take(np.flatnonzero(answers.user % step == 0))
    subspaces = parameters.get("subspaces")
    labels = subspaces if subspaces is not None and not isinstance(subspaces, str) else None
    left_out = not_of_use(features.shape[1])
    names = [*(name for name in EVALUATED if name not in left_out), *(["stitched"] if labels is not None else [])]
    names += [WITH_ROUND_PEOPLE]
    if few_items:
        names += ["linear-items", "population-items", "symmetric-items", SMOOTH]
    p = degrees_of_freedom(features.shape[1])
    if features.shape[1] > MOST_DIAGNOSED:
        dropped = [name for name in names if name in BY_SLOW_STEPS]
        names = [name for name in names if name not in dropped]
        note(
            options,
            f"items have {features.shape[1]} features: {', '.join(dropped)} would take most of the time and "
            "are not compared on hidden answers; crowdmetric evaluate does",
        )
    elif len(some) * p**2 > MOST_WORK:
        names = [name for name in names if name not in WITH_FREE_PEOPLE]
        note(
            options,
            f"metrics have {p:,} parameters: laws with a free covariance were not compared on hidden answers, which "
            "would take most of the time; crowdmetric evaluate does, and --covariance free asks for one",
        )
    try:
        splits = possible_splits(some)
        # what a law is worth mostly shows in known people's answers (`needless`), but a user with another question gets
        # all laws compared on that one, and a user with every question where that takes a second; what the user has
        # fixed is not judged
        question = getattr(options, "for") or "all"
        knows_people = splits[0] == "pairs" and "pairs" in QUESTIONS[question]
        is_quick = question == "all" and len(some) * p**2 < LITTLE_WORK
        may_give_up = knows_people and not is_quick and not {"covariance", "item_effects"} & set(parameters)
        with show_progress("Predicting hidden answers", quiet=options.quiet) as say:
            found = evaluate(
                features,
                some,
                names,
                splits=splits,
                repeats=1,
                subspaces=labels,
                after_fit=say,
                time_limit=options.time_limit,
                on_first_split=tuple(WITHOUT_DISTANCE.values()),
                give_up=partial(needless, tastes=kind_is_open(options, parameters)) if may_give_up else None,
            )
    except DataError as error:
        note(options, f"how well answers are predicted was not measured: {error}")
        return None
    given_up = [name for name in LAWS if name in names and name not in found.models]
    if given_up and may_give_up and not found.unfinished:
        text = "Compared for new questions to known people only, because others predict those as well or better"
        found = replace(found, unfinished=f"{text}: {', '.join(given_up)}.")
    if step > 1:
        found = replace(found, drawn=(np.unique(some.user).size, np.unique(answers.user).size))
    for sentence in found.scope():
        note(options, sentence)
    return found if any(law in found.models for law in LAWS) else None


def needless(seen: Evaluation, *, tastes: bool = True) -> set[str]:
    """Return the laws that need no further fit, after what has been seen of the first split.

    A free covariance, or item effects, must gain 0.001 nats per answer to be chosen (`crowdmetric.choice`). One that
    does not is given up, and so are laws with both. Known people's answers about known items show such freedoms best:
    on new items, item effects are unknown, and of new people only the mean is known. Where smooth tastes may be chosen
    (`tastes`) and predict clearly better, the simplest law is enough to compare them with.
    """
    first = seen.splits[0]
    gone = {
        law
        for law, simpler in FREEDOMS.items()
        if {law, simpler} <= set(seen.models)
        and (seen.difference(first, law, simpler).mean < WORTH_MORE or (tastes and _loses_to_tastes(seen, law)))
    }
    return gone | set(WITH_BOTH) if gone else gone


def _loses_to_tastes(seen: Evaluation, law: str) -> bool:
    """Return whether smooth tastes predict clearly better than a law on the first split, by as much as decides."""
    if SMOOTH not in seen.models:
        return False
    gain = seen.difference(seen.splits[0], SMOOTH, law)
    return gain.is_clear and gain.mean > DECIDES


def _work_of_tastes(answers: Comparisons) -> float:
    """Return the cube of the items shown to a person, added over people."""
    shown = np.unique(np.concatenate([answers.user * answers.n_items + side for side in answers.pairs.T]))
    return float(np.sum(np.bincount(shown // answers.n_items).astype(np.float64) ** 3))


def suggest_tastes(evaluation: Evaluation) -> str:
    """Return that smooth tastes predict clearly better than the saved model, if they do, and for which questions."""
    saved = evaluation.saved
    if saved in (None, SMOOTH) or SMOOTH not in evaluation.models:
        return ""
    gains = {split: evaluation.difference(split, SMOOTH, str(saved)) for split in evaluation.splits}
    clear = [
        f"{TITLES[split].lower()} (+{gain.mean:.3f} ± {gain.error:.3f} nats per answer)"
        for split, gain in gains.items()
        if gain.is_clear and gain.mean > WORTH_SAYING
    ]
    if not clear:
        return ""
    return (
        "smooth tastes (TasteMetric, 'smooth' in the table) predict hidden answers better than this model for "
        f"{' and '.join(clear)}: people here may have tastes rather than ideal points; compare "
        "--estimator taste (pairs made from ratings never contradict each other, which favors it: "
        "docs/explanation/smooth.md)"
    )


def saved_as(name: str, parameters: Mapping[str, Any]) -> str | None:
    """Return the name of the evaluated model that an estimator with these parameters is; None: none of them.

    Evaluated are populations of full rank under the logistic loss with ridges from the evidence, and stitched metrics
    where subspaces are given as labels.
    """
    if name == "taste":
        return SMOOTH if parameters.get("structure", "auto") == "auto" else None
    subspaces = parameters.get("subspaces")
    if subspaces is not None:
        return None if isinstance(subspaces, str) else "stitched"
    for unlearned, law in UNLEARNED.items():
        if all(parameters.get(key) == value for key, value in law.items()):
            return unlearned
    usual = {"constraint": "psd", "rank": None, "loss": "logistic", "ridge": "evidence"}
    if "covariance" not in parameters or any(parameters.get(name, value) != value for name, value in usual.items()):
        return None
    free = parameters["covariance"] == "free"
    if parameters.get("item_effects"):
        return "population-items" if free else WITH_ROUND_PEOPLE
    return "population-free" if free else "population"
