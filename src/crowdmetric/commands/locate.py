"""crowdmetric locate: a saved model and some people's answers -> where they stand, what they like, what to ask next."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

import numpy as np

from crowdmetric.commands.aligned import NAMES, align
from crowdmetric.commands.base import Command
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import ModelFileError
from crowdmetric.locate import Located, locate
from crowdmetric.persist import SavedModel, load_model
from crowdmetric.tables import Column, Columns, canonical_columns, read_columns, write_columns, write_csv

__all__ = ["LOCATE"]


def _arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="a folder written by crowdmetric fit, of a PopulationMetric")
    add("comparisons", metavar="COMPARISONS", help="CSV or Parquet: all answers of the people to locate, old or new")
    add("--top", type=int, default=3, metavar="N", help="how many of the items each person likes best (default: 3)")
    add("--next", action="store_true", help="add the question that would tell most about each person")
    add("--out", metavar="FILE", help="CSV or Parquet to write (default: CSV on standard output)")


def _run(options: Namespace) -> None:
    model = load_model(options.model)
    if model.items is None:
        raise ModelFileError(f"{options.model} was saved without items; fit it to a catalogue of items")
    table = canonical_columns(read_columns(options.comparisons), NAMES)
    ids, _ = align(table, model)
    people = locate(model.estimator(), Comparisons.from_table(table, item_ids=ids))
    rows = _rows(people, model, ids, min(options.top, len(ids)), options.next)
    if options.out is None:
        write_csv(rows, sys.stdout)
    else:
        write_columns(rows, options.out)


def _rows(people: Located, model: SavedModel, ids: Column, top: int, ask: bool) -> Columns:
    """Return a row a person: ideal point and its standard deviation by feature, best items, next question."""
    spread = np.sqrt(np.maximum(np.diagonal(people.covariance, axis1=1, axis2=2), 0.0))
    rows: Columns = {"user": people.users}
    # after preprocessing people stand among coordinates, not features
    d = people.mean.shape[1]
    names = model.feature_names if model.preprocessing is None else [f"coordinate{j}" for j in range(d)]
    for j, name in enumerate(names):
        rows[f"ideal_{name}"], rows[f"spread_{name}"] = people.mean[:, j], spread[:, j]
    for place, best in enumerate(people.rank_items(top=top).T, start=1):
        rows[f"best_{place}"] = ids[best]
    if ask:
        question = people.next_question()
        rows["next_left"], rows["next_right"] = ids[question.pairs[:, 0]], ids[question.pairs[:, 1]]
        rows["information"] = question.information
    return rows


LOCATE = Command(
    name="locate",
    help="say where people stand, what they like best and what to ask them next",
    example="crowdmetric locate model crowd/comparisons.csv --next > people.csv",
    add_arguments=_arguments,
    run=_run,
)
