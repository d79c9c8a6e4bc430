"""Answers that are validated and grouped by person on the device: arrays, or tensors that are on a GPU already.

Everything is checked once, on the device, and items and answers are not copied on this machine. In unusual cases (a
comparison that names no item, a weight of zero, items given as vectors) `asked_on_device` returns None, and
`crowdmetric.inputs.read_rows` reads the answers or raises an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_torch_array

from crowdmetric.engines.contract import DeviceEngine
from crowdmetric.fits.question_stream import QuestionStream
from crowdmetric.fits.units import items_on_device
from crowdmetric.inputs import items_differ, people_of
from crowdmetric.users.blocks import rows_by_length
from crowdmetric.users.first_order import EqualQuestions, add_rows

__all__ = ["asked_on_device"]

Array = Any


def asked_on_device(
    pairs: Any, y: Any, users: Any, sample_weight: Any, items: Any, engine: DeviceEngine, numbers: int
) -> QuestionStream | None:
    """Return the questions of binary answers, or None if `read_rows` has to read them.

    Parameters
    ----------
    pairs, y, users, sample_weight, items
        As `fit` is given them.
    numbers
        How many temporary numbers an answer needs, which determines how many answers are taken together.
    """
    if not (_is_plain(pairs, 2) and _is_plain(y, 1) and _is_plain(items, 2)) or users is None:
        return None
    rows, response = engine.asarray(pairs), engine.asarray(y)
    xp = array_namespace(rows)
    T, N = rows.shape[0], items.shape[0]
    shapes_fit = T > 0 and rows.shape[1] == 2 and response.shape == (T,) and 0 not in items.shape
    if not shapes_fit or not xp.isdtype(rows.dtype, "signed integer"):
        return None
    rows, response = xp.astype(rows, xp.int64), engine.asarray(response + 0.0)
    weight = xp.ones_like(response)
    if sample_weight is not None:
        if not _is_plain(sample_weight, 1) or sample_weight.shape != (T,):
            return None
        weight = engine.asarray(engine.asarray(sample_weight) + 0.0)
    fine = (int(xp.min(rows)) >= 0) & (int(xp.max(rows)) < N) & bool(xp.all(xp.abs(response) == 1.0))
    if not fine or not bool(xp.all(xp.isfinite(weight) & (weight > 0.0))):
        return None
    names, person = _people(users, T, engine)
    used = xp.zeros(N, dtype=xp.bool, device=rows.device)
    used[xp.reshape(rows, (-1,))] = True
    placed = items_on_device(items, used, engine)
    if placed is None or not items_differ(placed[0], rows):
        return None
    people: list[Array] = []
    questions: list[EqualQuestions] = []
    for chosen, some in _grouped(rows, response, weight, person, len(names), N, engine.answers_at_once(numbers)):
        people.append(chosen)
        questions.append(some)
    total = float(xp.sum(weight, dtype=xp.float64))
    return QuestionStream(*placed, questions, people, names, len(names), total)


def _is_plain(values: Any, dimensions: int) -> bool:
    """Return whether these are numbers in a NumPy array or PyTorch tensor with this many dimensions."""
    if type(values) is np.ndarray:
        return values.ndim == dimensions and values.dtype.kind in "if" and values.dtype.isnative
    return is_torch_array(values) and values.ndim == dimensions and not values.is_complex()


def _people(users: Any, T: int, engine: DeviceEngine) -> tuple[Any, Array]:
    """Return all people, sorted, as a NumPy array, and the row (T,) of each answer's person, on the device."""
    numbers = users.dtype.kind == "i" if type(users) is np.ndarray else is_torch_array(users)
    if not numbers or users.shape != (T,):
        names, person = people_of(users, T)
        return names, engine.asarray(person)
    found = engine.asarray(users)
    values, place = array_namespace(found).unique_inverse(found)
    return np.asarray(values.cpu(), dtype=np.int64), place


def _grouped(
    rows: Array, response: Array, weight: Array, person: Array, K: int, N: int, at_once: int
) -> Iterator[tuple[Array, EqualQuestions]]:
    """Yield people and their questions; answers that a person gave several times are merged, their weights added."""
    xp = array_namespace(rows)
    counts = _counts(person, K)
    if int(xp.max(counts)) > 1:
        low, high = xp.min(rows, axis=1), xp.max(rows, axis=1)
        agrees = (response > 0.0) == (rows[:, 0] == low)  # a pair the other way round, with the opposite answer
        code = (low * N + high) * 2 + xp.astype(agrees, low.dtype)
        order = xp.argsort(code, stable=True)
        order = order[xp.argsort(person[order], stable=True)]
        new = xp.ones_like(order, dtype=xp.bool)
        new[1:] = (person[order][1:] != person[order][:-1]) | (code[order][1:] != code[order][:-1])
        if not bool(xp.all(new)):
            place = xp.cumulative_sum(xp.astype(new, order.dtype)) - 1
            whole, order = weight[order], order[new]
            weight = xp.zeros_like(weight)
            weight[order] = add_rows(xp.zeros_like(weight[: order.shape[0]]), place[:, None], whole[:, None])
            counts = _counts(person[order], K)
    else:
        order = xp.argsort(person)
    for chosen, places in rows_by_length(order, counts, at_once):
        own, there = rows[places], places >= 0
        said = xp.where(there, response[places], xp.ones_like(response[places]))
        counted = xp.where(there, weight[places], xp.zeros_like(weight[places]))
        left, right = (xp.asarray(own[:, :, side], copy=True) for side in (0, 1))
        yield chosen, EqualQuestions(left, right, said, counted)


def _counts(person: Array, K: int) -> Array:
    """Return how many answers each of K people has given."""
    xp = array_namespace(person)
    return add_rows(
        xp.zeros(K, dtype=person.dtype, device=person.device), person[:, None], xp.ones_like(person)[:, None]
    )
