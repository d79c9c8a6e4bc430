"""What crowdmetric fit decides for its user, where the options leave it open, and the sentence that says so."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.choice import (
    CANDIDATES,
    LAWS,
    QUESTIONS,
    UNLEARNED,
    choose_by_hidden_answers,
    matched_share,
)
from crowdmetric.commands.command import note
from crowdmetric.commands.fit_options import ESTIMATORS, refused_by
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError
from crowdmetric.evaluate import Evaluation
from crowdmetric.identifiability import Diagnosis
from crowdmetric.symmetric import degrees_of_freedom

__all__ = [
    "choose_directions",
    "choose_estimator",
    "choose_model",
    "kind_is_open",
    "population_or",
    "suggest_matched",
]

# Fewer people than this are not fitted as one population.
FEWEST_PEOPLE = 5
# With more features than this, a metric would have thousands of parameters and is only learned on request.
MOST_FEATURES = 100
# With more features: the maximum number of principal directions kept, and the answers wanted per parameter of the
# metric.
MOST_DIRECTIONS, ANSWERS_A_PARAMETER = 20, 20
# If at least this share of people were asked parallel questions, the study was designed that way.
MATCHED = 0.5
# Only if the user changed no other parameter than these is the kind of model chosen by `crowdmetric fit`.
OPEN = {"jobs", "random_state", "starts"}
# Descriptions of the models without a learned metric.
WITHOUT_A_METRIC = {
    "linear": "linear utilities",
    "linear-items": "linear utilities and an effect of each item",
    "mixed": "linear utilities and an effect of each item, with three variances",
    "identity": "plain Euclidean distance",
    "bradley-terry": "how popular items are, the same for everybody,",
    "quadratic": "one utility of features for everybody",
}


def choose_estimator(options: Namespace) -> tuple[str, str]:
    """Return an estimator and why it was chosen, as far as the options tell."""
    asked = (
        (options.estimator is not None, options.estimator, "as --estimator asks"),
        (options.labels is not None, "stitched", "because --labels says which subspace an item lies in"),
        (options.discover, "stitched", "because --discover asks for subspaces among the items"),
    )
    for given, name, reason in asked:
        if given:
            return name, reason
    wanted = refused_by(options, "population")
    if not wanted:
        return "population", "because people taken as one population need neither subspaces nor bounds"
    for name in ("ideal", "matched"):
        if not refused_by(options, name):
            return name, f"because {' and '.join(wanted)} {'applies' if len(wanted) == 1 else 'apply'} to it"
    return "population", ""


def choose_directions(options: Namespace, name: str, shape: tuple[int, ...], n_answers: int) -> None:
    """Set --pca for a population of more than 100 features, where the options leave it open, and say so.

    k directions, at most 20, have a metric of k(k+1)/2 parameters: the largest k with 20 answers for each of them.
    """
    N, d = shape
    open_ = options.estimator is None and options.pca is None and options.rank is None and not options.whiten
    if name != "population" or d <= MOST_FEATURES or not open_:
        return
    fitting = [k for k in range(2, MOST_DIRECTIONS + 1) if degrees_of_freedom(k) * ANSWERS_A_PARAMETER <= n_answers]
    options.pca = str(min(max(fitting, default=2), N))
    note(
        options,
        f"items have {d} features, too many for a metric unless it is asked for: {options.pca} principal directions "
        f"are kept, at most {MOST_DIRECTIONS} and {ANSWERS_A_PARAMETER} answers for each parameter of a "
        "metric (--pca keeps another number, --rank keeps all features)",
    )


def kind_is_open(options: Namespace, parameters: Mapping[str, Any]) -> bool:
    """Return whether models of another kind than ideal points may be chosen."""
    return options.estimator is None and set(parameters) <= OPEN


def population_or(name: str, reason: str, options: Namespace, d: int, answers: Comparisons) -> tuple[str, str]:
    """Return what to use where a population is the default, now that the data are known."""
    if d > MOST_FEATURES and options.rank is None:
        raise DataError(
            f"items have {d} features, and a metric of them {degrees_of_freedom(d):,} parameters; keep fewer with "
            "--pca 0.9 (or a number of directions), limit the metric with --rank, or choose an --estimator"
        )
    people = np.unique(answers.user).size
    if people < FEWEST_PEOPLE and not refused_by(options, "ideal"):
        return "ideal", f"because {people} people are too few to be taken as one population"
    return name, reason


def choose_model(
    options: Namespace,
    name: str,
    reason: str,
    parameters: dict[str, Any],
    evaluation: Evaluation | None,
) -> tuple[str, dict[str, Any], list[str]]:
    """Return the estimator and its parameters, and the sentences that say why; a population may become another.

    Hidden answers decide where they were predicted; otherwise defaults are used. Models of another kind than ideal
    points under a learned metric may be chosen where the options leave that open.
    """
    using = f"using {ESTIMATORS[name].__name__}, {reason}"
    if name != "population":
        return _said(options, name, parameters, [using])
    question = getattr(options, "for") or "all"
    judged = evaluation is not None and not set(QUESTIONS[question]).isdisjoint(evaluation.splits)
    if {"item_effects", "covariance"} <= set(parameters):
        return _said(options, name, parameters, [using])
    if evaluation is None or not judged:
        law = LAWS["population"] | parameters
        text = f"{_described(law, parameters)}, the default, because no answers were hidden to choose by"
        return _said(options, name, law, [using, text])
    candidates = tuple(CANDIDATES) if kind_is_open(options, parameters) else tuple(LAWS)
    found = choose_by_hidden_answers(evaluation, parameters, question, candidates)
    model, because = str(found.value), found.reason + (f"; {found.caution}" if found.caution else "")
    name, law = CANDIDATES[model]
    if model in LAWS:
        reasons = [f"{_described(law, parameters)} ({model}), because {because}"] if because else []
        return _said(options, name, {**parameters, **law}, [using, *reasons])
    if model in UNLEARNED:
        text = (
            f"the answers support no learned metric: {WITHOUT_A_METRIC[model]} ({model}) is saved, a PopulationMetric "
            f"with constraint={law['constraint']!r} and covariance={law['covariance']!r}, because {because}"
        )
        return _said(options, name, {**parameters, **law}, [text])
    text = (
        f"using TasteMetric, smooth tastes, rather than ideal points ({model}), because {because} "
        "(--estimator population fits ideal points)"
    )
    return _said(options, name, law, [text])


def _said(
    options: Namespace, name: str, parameters: dict[str, Any], reasons: list[str]
) -> tuple[str, dict[str, Any], list[str]]:
    for reason in reasons:
        note(options, reason)
    return name, parameters, reasons


def _described(law: dict[str, Any], given: dict[str, Any]) -> str:
    """Return what was chosen of a law, in words, beside what was given."""
    some = "per-item effects are used" if law["item_effects"] else "there are no per-item effects"
    what = {
        "covariance": f"the covariance of people is {law['covariance']}",
        "item_effects": some,
    }
    return " and ".join(text for name, text in what.items() if name not in given)


def suggest_matched(name: str, features: NDArray[np.float64], answers: Comparisons, diagnosis: Diagnosis | None) -> str:
    """Return a sentence where matched questions would make up for questions that were chosen for people."""
    if name == "matched" or diagnosis is None or not diagnosis.assignment.suspicious or not answers.is_binary:
        return ""
    share = matched_share(features, answers)
    if share < MATCHED:
        return ""
    return (
        f"questions depend on who was asked, and {share:.0%} of the people were asked parallel questions: "
        "--estimator matched learns from those without assumptions about people"
    )
