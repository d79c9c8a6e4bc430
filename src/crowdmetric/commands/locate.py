"""crowdmetric locate: a saved model and some people's answers -> where they stand, what they like, what to ask next."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

import numpy as np
from numpy.typing import NDArray

from crowdmetric.commands.ids import NAMES, align, numbered
from crowdmetric.commands.reading import TABLE, add_columns, columns_of
from crowdmetric.commands.writing import add_writing, write_table
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import ModelFileError
from crowdmetric.folders import check_not_input
from crowdmetric.locate import Located, LocatedTastes, locate
from crowdmetric.persist import SavedModel, load_model
from crowdmetric.tables import Column, Columns, canonical_columns

__all__ = ["add_arguments", "run"]

Array = NDArray[np.float64]


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("model", metavar="MODEL", help="a folder written by crowdmetric fit, of a PopulationMetric or a TasteMetric")
    add("comparisons", metavar="COMPARISONS", help=f"{TABLE}: all answers of the people to locate, old or new")
    add("--top", type=int, default=3, metavar="N", help="how many of the items each person likes best (default: 3)")
    add("--next", action="store_true", help="add the question that would tell most about each person")
    add_columns(parser)
    add_writing(parser)


def run(options: Namespace) -> None:
    """Run the command."""
    check_not_input(options.out, options.comparisons)
    model = load_model(options.model)
    if model.items is None:
        raise ModelFileError(f"{options.model} was saved without items; fit it to a catalogue of items")
    table = canonical_columns(columns_of(options), NAMES)
    ids, _ = align(table, model)
    estimator = model.estimator()
    people = locate(estimator, numbered(Comparisons.from_table(table, item_ids=ids), estimator))
    rows = _rows(people, model, ids, min(options.top, len(ids)), options.next)
    write_table(options, rows)


def _rows(people: Located | LocatedTastes, model: SavedModel, ids: Column, top: int, ask: bool) -> Columns:
    """Return one row per person: ideal point and its standard deviation by feature, best items, next question.

    People with tastes, or with linear utilities (a metric of zero), have no ideal point.
    """
    rows: Columns = {"user": people.users}
    if isinstance(people, Located) and np.any(people.metric):
        spread = np.sqrt(np.maximum(np.diagonal(people.covariance, axis1=1, axis2=2), 0.0))
        names, mean, spread = _in_units_of_items(model, people.mean, spread)
        for j, name in enumerate(names):
            rows[f"ideal_{name}"], rows[f"spread_{name}"] = mean[:, j], spread[:, j]
    for place, best in enumerate(people.rank_items(top=top).T, start=1):
        rows[f"best_{place}"] = ids[best]
    if ask:
        question = people.next_question()
        rows["next_left"], rows["next_right"] = ids[question.pairs[:, 0]], ids[question.pairs[:, 1]]
        rows["information"] = question.information
    return rows


def _in_units_of_items(model: SavedModel, mean: Array, spread: Array) -> tuple[list[str], Array, Array]:
    """Return names, ideal points and their standard deviations (K, d), in the units of the items where they have them.

    Standardizing divides each feature, ``z = (x − μ) / s``, and is undone. Directions of a PCA are not features: people
    then stand among coordinates.
    """
    done = model.preprocessing
    if done is None:
        return model.feature_names, mean, spread
    units = done.units()
    if units is None:
        return [f"coordinate{j}" for j in range(mean.shape[1])], mean, spread
    kept, scale = units
    return [model.feature_names[j] for j in kept], mean * scale + done.mean_[kept], spread * scale
