"""crowdmetric fit: items and answers -> a saved model and a report."""

from __future__ import annotations

import warnings
from argparse import Namespace
from datetime import date
from functools import partial
from typing import Any

from crowdmetric.commands.command import note
from crowdmetric.commands.engines import open_engine
from crowdmetric.commands.fit_choice import (
    choose_directions,
    choose_estimator,
    choose_model,
    population_or,
    suggest_matched,
)
from crowdmetric.commands.fit_ending import print_ending
from crowdmetric.commands.fit_findings import diagnosed, evaluated, saved_as, suggest_tastes
from crowdmetric.commands.fit_options import ESTIMATORS, add_arguments, parameters_of, ridge_of
from crowdmetric.commands.fit_saving import judged, saved_and_safe
from crowdmetric.commands.item_tables import image_files, read_labels, read_names
from crowdmetric.commands.preparing import check_preparation, prepared, related
from crowdmetric.commands.reading import answers_of, holds_judgements, items_of, names_of_files
from crowdmetric.commands.similarity_commands import fit_similarity, judgements_beside, whether_one_metric
from crowdmetric.commands.streamed import fit_streamed, fit_with_progress
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import NotIdentifiedWarning
from crowdmetric.estimators import PopulationMetric
from crowdmetric.folders import check_target
from crowdmetric.identifiability.relations import Relation
from crowdmetric.persist import SavedModel, is_model, withhold, write_report
from crowdmetric.progress import show_progress
from crowdmetric.report import report_page
from crowdmetric.report.withheld import what_would_tell, why_withheld

__all__ = ["add_arguments", "run"]


def run(options: Namespace) -> None:
    """Run the command."""
    if holds_judgements(options):
        fit_similarity(options)
        return
    options.ridge = ridge_of(options.ridge)
    check_preparation(options)
    name, reason = choose_estimator(options)
    parameters = parameters_of(options, name)
    check_target(options.out, options.overwrite, is_model)
    with open_engine(options) as engine:
        if engine is not None:
            parameters["engine"] = engine
            parameters.pop("jobs", None)  # the engine has them
        _fit(options, name, reason, parameters)


def _fit(options: Namespace, name: str, reason: str, parameters: dict[str, Any]) -> None:
    items = items_of(options)
    comparisons = None if options.memory is not None else answers_of(options, items)
    beside = judgements_beside(options, items, name)
    if comparisons is not None:
        choose_directions(options, name, items.features.shape, len(comparisons))
    features, names, preprocessing = prepared(options, items)
    if comparisons is None:
        streaming: Any = ESTIMATORS[name](features, **parameters)
        note(options, f"using {ESTIMATORS[name].__name__}, {reason}")
        fit_streamed(options, streaming, items, preprocessing)
        return
    if options.labels is not None:
        parameters["subspaces"] = read_labels(options, items)
    elif options.discover:
        parameters["subspaces"] = "discover"
    item_names = read_names(options, items)
    if options.estimator is None and name == "population":
        name, reason = population_or(name, reason, options, features.shape[1], comparisons)
    relations = related(options, items, comparisons.pairs, preprocessing)
    if comparisons.is_cut:
        note(options, comparisons.caution)
        warnings.filterwarnings("ignore", "these answers ", NotIdentifiedWarning)  # it is said now
    diagnosis = diagnosed(options, features, names, items, comparisons, relations)
    suggestion = "" if comparisons.is_cut else suggest_matched(name, features, comparisons, diagnosis)
    if suggestion:
        note(options, suggestion)
    evaluation = evaluated(options, features, comparisons, parameters)
    name, parameters, reasons = choose_model(options, name, reason, parameters, evaluation)
    if evaluation is not None:
        saved = saved_as(name, parameters)
        evaluation = evaluation.of_saved(saved if saved in evaluation.models else None)
        tastes = suggest_tastes(evaluation) if options.estimator is not None else ""
        if tastes:
            note(options, tastes)
            reasons.append(tastes)
    estimator = ESTIMATORS[name](features, **parameters)
    begin = {}
    if evaluation is not None and isinstance(estimator, PopulationMetric):
        begin = {"begin": evaluation.ends.get(str(evaluation.saved))}
    with show_progress("Learning the metric", quiet=options.quiet) as say:
        fit_with_progress(estimator, comparisons, say, **beside, **begin)
    catalogue = {"item_ids": items.ids, "feature_names": items.feature_names, "preprocessing": preprocessing}
    with saved_and_safe(options, estimator, comparisons=comparisons, **catalogue) as model:
        one = judged(
            options, "whether there is one metric", partial(_one_metric, options, estimator, comparisons, beside)
        )
        found = getattr(estimator, "discovery_", None)
        if found is not None:
            for line in found.summary().splitlines():
                note(options, line)
        _conclude(options, model, comparisons, relations, diagnosis=diagnosis, evaluation=evaluation, page={
            "choices": [*reasons, *(one or [])], "suggestion": suggestion, "item_names": item_names,
            "item_images": image_files(options, items),
        })  # fmt: skip


def _conclude(
    options: Namespace, model: SavedModel, comparisons: Comparisons, relations: list[Relation], *, page: dict[str, Any],
    **findings: Any,
) -> None:  # fmt: skip
    """Write the page and print the ending of a fit, with the claims that its answers carry."""
    evaluation = findings["evaluation"]
    model = withhold(options.out, model, why_withheld(comparisons, evaluation, relations))
    advice = what_would_tell(model, comparisons, evaluation) if "withheld" in model.description else []
    findings |= {"comparisons": comparisons, "relations": relations, "advice": advice}
    if not options.no_report:
        text = report_page(model, files=names_of_files(options), date=date.today().isoformat(), **page, **findings)
        write_report(options.out, text)
    print_ending(options, model, **findings)


def _one_metric(options: Namespace, estimator: Any, comparisons: Comparisons, beside: dict[str, Any]) -> list[str]:
    return whether_one_metric(options, estimator, comparisons, **beside)
