"""crowdmetric predict: a saved model and questions -> the answers to expect."""

from __future__ import annotations

import warnings
from argparse import ArgumentParser, Namespace

import numpy as np

from crowdmetric.base import CrowdMetric
from crowdmetric.commands.command import note
from crowdmetric.commands.ids import NAMES, align, numbered
from crowdmetric.commands.reading import TABLE, add_columns, columns_of, holds_judgements
from crowdmetric.commands.similarity_commands import predict_similarity
from crowdmetric.commands.writing import add_writing, write_table
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError, DroppedRowsWarning, ModelFileError
from crowdmetric.folders import check_not_input
from crowdmetric.persist import load_model
from crowdmetric.tables import Column, Columns, canonical_columns

__all__ = ["add_arguments", "run"]


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("model", metavar="MODEL", help="a folder written by crowdmetric fit")
    add("comparisons", metavar="COMPARISONS", help=f"{TABLE}: user, left, right; answers are optional")
    add_columns(parser)
    add_writing(parser)


def run(options: Namespace) -> None:
    """Run the command."""
    check_not_input(options.out, options.comparisons)
    model = load_model(options.model)
    if model.items is None:
        raise ModelFileError(f"{options.model} was saved without items; fit it to a catalogue of items")
    if holds_judgements(options):
        predict_similarity(options, model)
        return
    estimator = model.estimator()
    table = canonical_columns(columns_of(options), NAMES)
    known_items, known_users = align(table, model)
    estimator.users_ = known_users
    questions = Comparisons.from_table(
        {name: table[name] for name in NAMES} | {"response": np.full(len(table["user"]), -1.0)},
        item_ids=known_items,
    )
    _note_strangers(options, questions, known_users)
    predictions = _predict(options, estimator, questions)
    write_table(options, predictions)
    _note_accuracy(options, estimator, table, known_items)


def _note_strangers(options: Namespace, questions: Comparisons, known: Column) -> None:
    strangers = np.sum(~np.isin(questions.user_ids, known))
    if strangers:
        who = f"{strangers} of {questions.n_users} people are not in the model"
        note(options, f"{who} and are predicted as the average person")


def _predict(options: Namespace, estimator: CrowdMetric, questions: Comparisons) -> Columns:
    """Return user, left, right, psi, choice and the probability that left is preferred, one row per question."""
    asked = numbered(questions, estimator)
    psi = estimator.decision_function(asked)
    try:
        left = estimator.predict_proba(asked)[:, 0]
    except DataError:  # hinge and squared losses are not likelihoods
        note(options, f"loss {estimator.loss!r} gives no probabilities; that column is empty")
        left = np.full(len(psi), np.nan)
    columns = questions.columns()
    return {name: columns[name] for name in NAMES} | {
        "psi": psi,
        "choice": np.where(psi > 0, "right", "left"),
        "probability_left": left,
    }


def _note_accuracy(options: Namespace, estimator: CrowdMetric, table: Columns, known_items: Column) -> None:
    """Say how many answers were right, where the table has some."""
    if not set(table) & {"response", "choice", "probability"}:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DroppedRowsWarning)  # the sentence below counts them
            answers = Comparisons.from_table(table, item_ids=known_items)
        score = estimator.score(numbered(answers, estimator))
    except DataError as error:
        note(options, f"the answers cannot be scored: {error}")
        return
    used = f"{len(table['user']) - sum(answers.dropped.values())} of {len(table['user'])} answers"
    measure = "accuracy" if hasattr(estimator, "classes_") else "R²"
    note(options, f"{measure} {score:.4f} on {used}")
