"""crowdmetric fit: items and answers -> a saved model and a report."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.commands.base import Command, note, print_model
from crowdmetric.commands.engines import open_engine
from crowdmetric.commands.fit_choice import choose_estimator, choose_law, population_or, suggest_matched
from crowdmetric.commands.fit_findings import diagnosed, evaluated, saved_as
from crowdmetric.commands.fit_options import ESTIMATORS, add_arguments, parameters_of, preprocessing_of, ridge_of
from crowdmetric.commands.item_tables import read_labels, read_names
from crowdmetric.commands.similarity import fit_similarity, holds_judgements
from crowdmetric.commands.streamed import fit_streamed, fit_telling
from crowdmetric.comparisons import Comparisons
from crowdmetric.folders import check_target
from crowdmetric.persist import REPORT, is_model, save_model
from crowdmetric.preprocess import ItemMap
from crowdmetric.progress import show_progress
from crowdmetric.report import report_page
from crowdmetric.tables import Items, read_items

__all__ = ["FIT"]


def _run(options: Namespace) -> None:
    if holds_judgements(options.comparisons):
        fit_similarity(options)
        return
    options.ridge = ridge_of(options.ridge)
    name, reason = choose_estimator(options)
    parameters = parameters_of(options, name)
    preprocessing = preprocessing_of(options)
    check_target(options.out, options.overwrite, is_model)
    with open_engine(options) as engine:
        if engine is not None:
            parameters["engine"] = engine
            parameters.pop("jobs", None)  # the engine has them
        _fit(options, name, reason, parameters, preprocessing)


def _fit(options: Namespace, name: str, reason: str, parameters: dict[str, Any], preprocessing: ItemMap | None) -> None:
    items = read_items(options.items)
    if options.memory is not None:
        streaming: Any = ESTIMATORS[name](_prepared(options, items, preprocessing)[0], **parameters)
        note(options, f"using {ESTIMATORS[name].__name__}, {reason}")
        fit_streamed(options, streaming, items, preprocessing)
        return
    comparisons = Comparisons.read(options.comparisons, items=items)
    if options.labels is not None:
        parameters["subspaces"] = read_labels(options, items)
    elif options.discover:
        parameters["subspaces"] = "discover"
    item_names = read_names(options, items)
    features, names = _prepared(options, items, preprocessing)
    if options.estimator is None and name == "population":
        name, reason = population_or(name, reason, options, features.shape[1], comparisons)
    diagnosis = diagnosed(options, features, names, items, comparisons)
    reasons = [f"using {ESTIMATORS[name].__name__}, {reason}"]
    note(options, reasons[0])
    suggestion = suggest_matched(name, features, comparisons, diagnosis)
    if suggestion:
        note(options, suggestion)
    evaluation = evaluated(options, features, comparisons, parameters)
    if name == "population":
        parameters, why = choose_law(options, features, comparisons, parameters, evaluation)
        reasons += why
    if evaluation is not None:
        saved = saved_as(parameters)
        evaluation = evaluation.of_saved(saved if saved in evaluation.models else None)
    estimator = ESTIMATORS[name](features, **parameters)
    with show_progress("Learning the metric", quiet=options.quiet) as say:
        fit_telling(estimator, comparisons, say)
    found = getattr(estimator, "discovery_", None)
    if found is not None:
        for line in found.summary().splitlines():
            note(options, line)
    page = partial(
        report_page, comparisons=comparisons, diagnosis=diagnosis, choices=reasons, suggestion=suggestion,
        item_names=item_names, evaluation=evaluation,
    )  # fmt: skip
    model = save_model(
        options.out,
        estimator,
        item_ids=items.ids,
        feature_names=items.feature_names,
        comparisons=comparisons,
        preprocessing=preprocessing,
        report=None if options.no_report else page,
        overwrite=options.overwrite,
    )
    print_model(options, model, options.out)
    if not options.no_report:
        note(options, f"what was learned, in words and pictures: {Path(options.out) / REPORT}")


def _prepared(options: Namespace, items: Items, preprocessing: ItemMap | None) -> tuple[NDArray[np.float64], list[str]]:
    """Return the features that are learned from, and their names."""
    if preprocessing is None:
        return items.features, items.feature_names
    features = preprocessing.fit_transform(items.features)
    note(options, f"items: {preprocessing.summary()}")
    reduced = preprocessing.components is not None or preprocessing.whiten
    return features, [f"direction {j + 1}" for j in range(features.shape[1])] if reduced else items.feature_names


FIT = Command(
    name="fit",
    help="learn the metric that a crowd's answers reveal, and save it",
    example="crowdmetric fit crowd/items.csv crowd/comparisons.csv --labels crowd/labels.csv --out model",
    add_arguments=add_arguments,
    run=_run,
)
