"""The commands for similarity judgements, which their columns tell from comparisons."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

import numpy as np

from crowdmetric.commands.base import UsageError, note
from crowdmetric.commands.fit_ending import print_ending
from crowdmetric.commands.preparing import prepared
from crowdmetric.commands.reading import columns_of, items_of, judgements_of
from crowdmetric.commands.writing import write_table
from crowdmetric.estimators import SimilarityMetric
from crowdmetric.evaluate import SIMILARITY_MODELS, SIMILARITY_SPLITS, evaluate_similarity
from crowdmetric.identifiability.judgements import diagnose_judgements
from crowdmetric.judgements import KINDS, Judgements
from crowdmetric.persist import SavedModel, save_model
from crowdmetric.progress import show_progress
from crowdmetric.tables import (
    Columns,
    has_answers,
    judgement_kind,
    name_judgements,
)

__all__ = [
    "diagnose_similarity",
    "evaluate_judgements",
    "fit_similarity",
    "predict_similarity",
]

# Options of fit that a similarity metric takes, with their names there. Options for files and preprocessing are not
# listed.
PASSED = {
    "structure": "structure", "link": "link", "lapse": "lapse", "rank": "rank", "beta": "beta", "tol": "tol",
    "max_iter": "max_iter", "seed": "random_state",
}  # fmt: skip
OTHERS = {"items", "comparisons", "out", "overwrite", "no_report", "no_evaluate", "json", "quiet", "command", "own",
          "standardise", "pca", "whiten", "names", "columns", "categorical", "standard_input"}  # fmt: skip


def fit_similarity(options: Namespace) -> None:
    """Learn a metric from judgements, save it and print it."""
    given = {name for name, value in vars(options).items() if value is not None and value is not False}
    for name in sorted(given - set(PASSED) - OTHERS):
        raise UsageError(f"--{name.replace('_', '-')} has no use with similarity judgements; leave it out")
    parameters = {PASSED[name]: getattr(options, name) for name in PASSED if name in given}
    if "lapse" in parameters:
        parameters["lapse"] = _lapse(parameters["lapse"])
    if options.own:
        parameters["people"] = "own"
    items = items_of(options)
    judgements = judgements_of(options, items)
    features, _, preprocessing = prepared(options, items)
    note(options, f"using SimilarityMetric, because {options.comparisons} holds similarity judgements")
    for line in judgements.summary().splitlines():
        note(options, line.strip())
    estimator = SimilarityMetric(features, **parameters)
    with show_progress("Learning the metric", quiet=options.quiet):
        estimator.fit(judgements)
    counted: Any = judgements  # only its length and the number of dropped rows are kept
    model = save_model(
        options.out, estimator, item_ids=items.ids, feature_names=items.feature_names, comparisons=counted,
        preprocessing=preprocessing, overwrite=options.overwrite,
    )  # fmt: skip
    print_ending(options, model)


def _lapse(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def diagnose_similarity(options: Namespace) -> None:
    """Print what judgements can teach."""
    items = items_of(options)
    features, names, _ = prepared(options, items)
    found = diagnose_judgements(features, judgements_of(options, items), features=names)
    print(json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False) if options.json else found.summary())


def evaluate_judgements(options: Namespace) -> None:
    """Print which model predicts hidden judgements best."""
    models = None if options.models is None else [name.strip() for name in options.models.split(",") if name.strip()]
    unknown = [name for name in models or [] if name not in SIMILARITY_MODELS]
    if unknown:
        raise UsageError(f"--models {unknown[0]}: for similarity judgements choose from {', '.join(SIMILARITY_MODELS)}")
    splits = ["questions" if name == "pairs" else name for name in options.split or []]
    for name in ("labels", "train_answers", "memory", "people", "out"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} has no use with similarity judgements; leave it out")
    items = items_of(options)
    judgements = judgements_of(options, items)
    features, _, _ = prepared(options, items)
    wanted = [name for name in splits if name in SIMILARITY_SPLITS] or None
    with show_progress("Evaluating", quiet=options.quiet) as say:
        found = evaluate_similarity(features, judgements, models, splits=wanted, seed=options.seed, after_fit=say)
    print(json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False) if options.json else found.summary())


def predict_similarity(options: Namespace, model: SavedModel) -> None:
    """Print what a saved similarity metric expects people to answer."""
    estimator = model.estimator()
    if not isinstance(estimator, SimilarityMetric):
        raise UsageError(
            f"{options.comparisons} holds similarity judgements, but {options.model} was fitted to comparisons; "
            "predict with a model fitted to judgements"
        )
    columns = name_judgements(columns_of(options))
    answered = has_answers(columns)
    if not answered:
        kind = judgement_kind(columns)
        one = np.ones(len(next(iter(columns.values()))))
        columns |= dict.fromkeys(("n_a", "n_b", "n_c"), one) if kind == "odd_one_out" else {"probability": 0.5 * one}
    questions = Judgements.from_table(columns, item_ids=model.item_ids, merge=False)
    predictions = _predictions(estimator, questions)
    write_table(options, predictions)
    if answered:
        note(options, f"accuracy {estimator.score(questions):.4f} on {questions.n_answers:,g} answers")


def _predictions(estimator: SimilarityMetric, questions: Judgements) -> Columns:
    """Return person, the items, the expected answer and the probability of each alternative."""
    p = estimator.predict_proba(questions)
    named = {name: questions.item_ids[questions.items[:, place]] for place, name in enumerate(KINDS[questions.kind])}
    out: Columns = {"person": questions.person_ids[questions.person], **named}
    best = np.argmax(p, axis=1)
    if questions.kind == "odd_one_out":
        out["odd"] = questions.item_ids[np.take_along_axis(questions.items, best[:, None], axis=1)[:, 0]]
        return out | {f"probability_{name}": p[:, place] for place, name in enumerate("abc")}
    return out | {"choice": np.where(best == 0, "left", "right"), "probability_left": p[:, 0]}
