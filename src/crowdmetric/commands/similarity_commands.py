"""Commands for similarity judgements; the columns of a table show whether it holds judgements or comparisons."""

from __future__ import annotations

import json
from argparse import Namespace
from datetime import date
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from crowdmetric.agreement import likelihood_ratio
from crowdmetric.commands.command import UsageError, note
from crowdmetric.commands.fit_ending import print_ending
from crowdmetric.commands.fit_saving import judged, saved_and_safe
from crowdmetric.commands.item_tables import image_files, read_names
from crowdmetric.commands.preparing import prepared
from crowdmetric.commands.reading import columns_of, items_of, judgements_of, names_of_files
from crowdmetric.commands.writing import write_table
from crowdmetric.comparisons import Comparisons
from crowdmetric.design.judgement_plan import WAYS, JudgementPlan, answers_needed, design_judgements
from crowdmetric.errors import DataError
from crowdmetric.estimators import SimilarityMetric
from crowdmetric.estimators.similarity import LARGEST_NEWTON
from crowdmetric.evaluate import SIMILARITY_MODELS, SIMILARITY_SPLITS, SimilarityEvaluation, evaluate_similarity
from crowdmetric.folders import check_not_input, check_target
from crowdmetric.identifiability.judgement_diagnosis import (
    MOST_DIAGNOSED,
    JudgementDiagnosis,
    diagnose_judgements,
)
from crowdmetric.judgements import KINDS, Judgements
from crowdmetric.persist import SavedModel, is_model, load_model, write_report
from crowdmetric.progress import show_progress
from crowdmetric.report import similarity_page
from crowdmetric.report.similarity_page import cautions_of_similarity, worth_of_similarity
from crowdmetric.symmetric import degrees_of_freedom
from crowdmetric.tables import (
    Columns,
    Items,
    has_answers,
    judgement_kind,
    name_judgements,
)

__all__ = [
    "design_similarity",
    "diagnose_similarity",
    "evaluate_judgements",
    "fit_similarity",
    "judgements_beside",
    "plan_similarity",
    "predict_similarity",
    "whether_one_metric",
]

# Options of fit that a similarity metric takes, with their names there. Options for files and preprocessing are not
# listed.
PASSED = {
    "structure": "structure", "link": "link", "lapse": "lapse", "rank": "rank", "beta": "beta", "tol": "tol",
    "max_iter": "max_iter", "seed": "random_state",
}  # fmt: skip
OTHERS = {"items", "comparisons", "out", "overwrite", "no_report", "no_evaluate", "json", "quiet", "command", "own",
          "for", "standardize", "pca", "whiten", "names", "columns", "categorical", "standard_input"}  # fmt: skip

# What a metric is for, and what the choice of its structure leaves out.
CHOSEN_FOR = {"new-items": "items", "known-items": "questions"}
# Models that a report compares, and groups of items or questions that are hidden in turn.
REPORTED, FOLDS = ("euclid", "diagonal", "full", "chosen", "own"), 5
# Options of design and plan that have no effect for judgements.
OF_PREFERENCES = ("dimension", "doubt", "labels", "rank", "criterion", "covariance", "tolerance", "reach", "items_out")


def fit_similarity(options: Namespace) -> None:
    """Learn a metric from judgements, save it and print it."""
    given = {name for name, value in vars(options).items() if value is not None and value is not False}
    for name in sorted(given - set(PASSED) - OTHERS):
        raise UsageError(f"--{name.replace('_', '-')} has no effect with similarity judgements; leave it out")
    parameters = {PASSED[name]: getattr(options, name) for name in PASSED if name in given}
    if "lapse" in parameters:
        parameters["lapse"] = _lapse(parameters["lapse"])
    question = getattr(options, "for") or "new-items"
    if question not in CHOSEN_FOR:
        raise UsageError(f"--for {question} has no effect with similarity judgements; choose {' or '.join(CHOSEN_FOR)}")
    parameters["left_out"] = CHOSEN_FOR[question]
    if options.own:
        parameters["people"] = "own"
    items = items_of(options)
    judgements = judgements_of(options, items)
    features, names, preprocessing = prepared(options, items)
    note(options, f"using SimilarityMetric, because {options.comparisons} holds similarity judgements")
    for line in judgements.summary().splitlines():
        note(options, line.strip())
    check_target(options.out, options.overwrite, is_model)
    item_names = read_names(options, items)
    estimator = SimilarityMetric(features, **parameters)
    with show_progress("Learning the metric", quiet=options.quiet):
        estimator.fit(judgements)
    if judgements.n_people > 1 and not options.own:
        note(options, f"{judgements.n_people:,} people answered: --own finds out how much their metrics differ")
    counted: Any = judgements  # only its length and the number of dropped rows are kept
    catalogue = {"item_ids": items.ids, "feature_names": items.feature_names, "preprocessing": preprocessing}
    with saved_and_safe(options, estimator, comparisons=counted, **catalogue) as model:
        diagnosis = evaluation = None
        if not options.no_report:
            diagnosis = judged(options, "what judgements can teach", partial(_diagnosed, features, names, judgements))
            measured = partial(_evaluated, options, features, judgements, parameters)
            evaluation = judged(options, "how well hidden judgements are predicted", measured)
            page = similarity_page(
                model, judgements, diagnosis=diagnosis, evaluation=evaluation, item_names=item_names,
                item_images=image_files(options, items), files=names_of_files(options), date=date.today().isoformat(),
            )  # fmt: skip
            write_report(options.out, page)
        worth = None if evaluation is None else worth_of_similarity(model, evaluation)
        print_ending(options, model, worth=worth, careful=cautions_of_similarity(model, judgements, diagnosis))


def _diagnosed(features: Any, names: Any, judgements: Judgements) -> JudgementDiagnosis | None:
    """Return what judgements can teach; None for so many features that it would take too long."""
    if degrees_of_freedom(features.shape[1]) > MOST_DIAGNOSED:
        return None
    return diagnose_judgements(features, judgements, features=names)


def _evaluated(
    options: Namespace, features: Any, judgements: Judgements, parameters: dict[str, Any]
) -> SimilarityEvaluation | None:
    """Return how well models predict hidden judgements; None if that is not asked, or there are too few items."""
    if options.no_evaluate or judgements.n_items < 2 * FOLDS:
        return None
    models = [name for name in REPORTED if name != "own" or parameters.get("people") == "own"]
    if degrees_of_freedom(features.shape[1]) > LARGEST_NEWTON:
        models.remove("full")  # a fit by gradients alone, as 'chosen' is
    kept = {name: value for name, value in parameters.items() if name not in ("structure", "people", "left_out")}
    splits = ["items", "questions"]
    with show_progress("Predicting hidden judgements", quiet=options.quiet) as say:
        found = evaluate_similarity(features, judgements, models, splits=splits, folds=FOLDS, after_fit=say, **kept)
    for text in found.left_out:
        note(options, text)
    return found


def _lapse(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def judgements_beside(options: Namespace, items: Items, estimator: str) -> dict[str, Judgements]:
    """Return the judgements that share the metric of preferences, as an argument of `PopulationMetric.fit`, or none."""
    if options.judgements is None:
        return {}
    if estimator != "population" or options.memory is not None:
        other = f"--estimator {estimator}" if options.memory is None else "--memory"
        raise UsageError(f"--judgements are for a population's metric, with answers in memory; leave out {other}")
    options.estimator = estimator  # no other model learns from both kinds of answers
    return {"judgements": Judgements.read(options.judgements, items=items)}


def whether_one_metric(
    options: Namespace, joint: Any, comparisons: Comparisons, judgements: Judgements | None = None
) -> list[str]:
    """Return whether people compare by the metric by which they choose, in one sentence; none without judgements."""
    if judgements is None:
        return []
    alone = clone(joint).fit(comparisons)
    judged = SimilarityMetric(joint.items, structure="full").fit(judgements)
    found = likelihood_ratio(alone, judged, joint).summary()
    note(options, f"one metric from preferences and judgements: {found}")
    return [f"one metric was learned from preferences and judgements. {found}"]


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
            raise UsageError(f"--{name.replace('_', '-')} has no effect with similarity judgements; leave it out")
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


def design_similarity(options: Namespace) -> None:
    """Write which judgements to ask for, and print the error to expect."""
    arguments, ids = _judgement_arguments(options)
    if options.kind not in WAYS:
        raise UsageError(f"--kind {options.kind} has no effect with --judgements; choose {' or '.join(WAYS)}")
    check_not_input(options.out, options.items)
    with show_progress("Choosing questions", quiet=options.quiet):
        ask = design_judgements(
            answers=options.people * options.answers, people=options.people, way=options.kind, item_ids=ids, **arguments
        )
    ask.write(options.out)
    written = ask.to_dict() | {"written": [options.out]}
    print(json.dumps(written, ensure_ascii=False, allow_nan=False) if options.json else ask.summary())
    note(options, f"wrote {options.out}")


def plan_similarity(options: Namespace) -> None:
    """Print how many answers to judgements give the metric with an error."""
    if options.shape:
        raise UsageError("--shape has no effect with --judgements; leave it out")
    arguments, _ = _judgement_arguments(options)
    ways = options.kind or list(WAYS)
    for way in ways:
        if way not in WAYS:
            raise UsageError(f"--kind {way} has no effect with --judgements; choose {' or '.join(WAYS)}")
    found: dict[str, JudgementPlan] = {}
    with show_progress("Planning", quiet=options.quiet):
        for way in ways:
            found[way] = answers_needed(error=options.error, way=way, **arguments)
    if options.json:
        rows = {way: {"answers": round(plan.answers), "error": plan.error} for way, plan in found.items()}
        print(json.dumps({"judgements": options.judgements, "plans": rows}, ensure_ascii=False, allow_nan=False))
        return
    for way, plan in found.items():
        print(f"{way}: {plan.summary()}")


def _judgement_arguments(options: Namespace) -> tuple[dict[str, Any], Any]:
    """Return the arguments for planning judgements, and the ids of the items."""
    for name in OF_PREFERENCES:
        if getattr(options, name, None) is not None:
            raise UsageError(f"--{name.replace('_', '-')} has no effect with --judgements; leave it out")
    if options.items is None:
        raise UsageError("--judgements are about ITEMS; name their table")
    items = items_of(options)
    metric = None if options.guess is None else load_model(options.guess).metric
    if metric is not None and len(metric) != items.features.shape[1]:
        raise DataError(
            f"the metric of {options.guess} has {len(metric)} features, but items have {items.features.shape[1]}; "
            "use one space"
        )
    arguments = {
        "items": items.features, "metric": metric, "kind": options.judgements, "beta": options.beta,
        "seed": options.seed,
    }  # fmt: skip
    return arguments, items.ids
