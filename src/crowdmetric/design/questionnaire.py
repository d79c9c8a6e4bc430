"""What every design returns: questions ready to hand out, and the error to expect."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError
from crowdmetric.tables import Column, Columns, ids_of, unique_ids, write_columns

__all__ = ["Questionnaire", "hand_out", "names_of"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Questionnaire:
    """Who is asked what.

    Q questions in all, sorted by person.

    Attributes
    ----------
    design : str
        What kind it is, in a few words.
    items : (N, d) array
        The catalogue, or items to be made.
    item_ids : (N,) array
        What the items are called in the table.
    new_items : bool
        Whether the items do not exist yet.
    person : (Q,)
        0 … K−1.
    question : (Q,)
        0, 1, … for each person, in the order of asking.
    left, right : (Q,)
        Rows of `items`.
    expected_error : float
        ``‖M̂ − M‖_F/‖M‖_F`` to expect: root mean square, from the Fisher information.
    expected_shape_error : float
        The same after the best rescaling: only βM is seen in answers, and its scale often worst.
    expected_bias : float
        The part of it that more people would not remove.
    assumptions : str
        What the expectation rests on: metric, noise and people.
    advice : str
        How to learn from the answers.
    remarks : tuple of str
        What else there is to know.

    Examples
    --------
    >>> from crowdmetric.design import design
    >>> ask = design(dimension=2, people=100, kind='random')
    >>> ask.pairs.shape, ask.person[:4].tolist(), ask.items.shape[1]
    ((200, 2), [0, 0, 1, 1], 2)
    >>> ask.expected_error > 0
    True
    """

    design: str
    items: Array
    item_ids: Column
    new_items: bool
    person: Indices
    question: Indices
    left: Indices
    right: Indices
    expected_error: float
    expected_shape_error: float
    expected_bias: float
    assumptions: str
    advice: str
    remarks: tuple[str, ...] = ()

    @property
    def pairs(self) -> Indices:
        """Rows of items (Q, 2), left and right."""
        return np.column_stack([self.left, self.right])

    @property
    def n_people(self) -> int:
        """How many people are asked."""
        return int(np.unique(self.person).size)

    def __len__(self) -> int:
        return len(self.person)

    def summary(self) -> str:
        """Return the design and its promise in a few sentences."""
        used = np.unique(self.pairs).size
        kind = "new items" if self.new_items else f"of {len(self.items):,} items"
        bias = f", of which {self.expected_bias:.2g} is bias that more people would not remove"
        return "\n".join(
            [
                f"{self.design}: {len(self):,} questions to {self.n_people:,} people about {used:,} {kind} in "
                f"{self.items.shape[1]} dimensions.",
                f"Expected relative error of the metric: {self.expected_error:.3g} "
                f"({self.expected_shape_error:.3g} up to scale)"
                f"{bias if self.expected_bias > 0.005 * self.expected_error else ''}, {self.assumptions}.",
                self.advice,
                *self.remarks,
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the design and its promise as plain values, without the questions."""
        return {
            "design": self.design,
            "people": self.n_people,
            "questions": len(self),
            "items": int(np.unique(self.pairs).size),
            "new_items": self.new_items,
            "expected_error": self.expected_error,
            "expected_shape_error": self.expected_shape_error,
            "expected_bias": self.expected_bias,
            "assumptions": self.assumptions,
            "advice": self.advice,
            "remarks": list(self.remarks),
        }

    def columns(self) -> Columns:
        """Return person, question, left and right (by item ids), one row per question."""
        return {
            "person": self.person,
            "question": self.question,
            "left": self.item_ids[self.left],
            "right": self.item_ids[self.right],
        }

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write `columns` to a CSV or Parquet file."""
        write_columns(self.columns(), path)

    def write_items(self, path: str | os.PathLike[str]) -> None:
        """Write the items, ``item_id`` and features, to a CSV or Parquet file."""
        features = {f"f{j}": column for j, column in enumerate(self.items.T)}
        write_columns({"item_id": self.item_ids} | features, path)


def names_of(item_ids: Any, items: Any, count: int) -> Column:
    """Return what `count` items are called: as given, else by the ids that they carry, else by their row numbers."""
    carried = ids_of(items) if item_ids is None else unique_ids(item_ids, "item_ids")
    ids = np.arange(count) if carried is None else carried
    if len(ids) != count:
        raise DataError(f"item_ids has {len(ids)} entries, but there are {count} items; give one each")
    return ids


def hand_out(
    questions: Indices, items: Array, ids: Column | None, rng: np.random.Generator, **promise: Any
) -> Questionnaire:
    """Return a questionnaire that asks everybody their questions (K, m, 2), rows of `items`.

    In random order, left and right at random, so nobody learns that the closer item is on the left, or that a
    question is like the last one.

    Parameters
    ----------
    ids
        What items are called; None: they do not exist yet, and only those that are asked about are made.
    promise
        The other attributes of the questionnaire.
    """
    K, m, _ = questions.shape
    asked = rng.permuted(questions, axis=2)
    order = rng.permuted(np.tile(np.arange(m), (K, 1)), axis=1)
    asked = np.take_along_axis(asked, order[:, :, None], axis=1)
    left, right = asked[:, :, 0].ravel(), asked[:, :, 1].ravel()
    if ids is None:
        needed, place = np.unique(np.concatenate([left, right]), return_inverse=True)
        left, right, items = place[: left.size], place[left.size :], items[needed]
    return Questionnaire(
        items=items,
        item_ids=np.arange(len(items)) if ids is None else ids,
        new_items=ids is None,
        person=np.repeat(np.arange(K), m),
        question=np.tile(np.arange(m), K),
        left=left,
        right=right,
        **promise,
    )
