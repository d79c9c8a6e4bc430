"""Answers in files larger than memory: checked, coded and grouped by person once, then read in chunks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError
from crowdmetric.tables.answers import (
    CodedAnswers,
    OnBad,
    Sieve,
    canonical_columns,
    find_column,
    relevant_columns,
    sift_answers,
    survey_choices,
)
from crowdmetric.tables.codings import ChoiceSurvey
from crowdmetric.tables.columns import Column, as_ids
from crowdmetric.tables.matching import IdsAre
from crowdmetric.tables.sources import RowSource
from crowdmetric.tables.spool import RECORD, Spool, SpoolChunk, Survey, write_spool

__all__ = ["ComparisonScan", "is_drawn"]

Array = NDArray[Any]

# Knuth's multiplicative hash: people are sampled by their number, but not periodically.
GOLDEN = np.uint64(2654435761)


class ComparisonScan:
    """Pairwise answers that stay on disk; made by `Comparisons.scan_parquet`, `scan_csv` and `scan_arrow`.

    Nothing is read before it is needed. Then all rows are checked and coded as `Comparisons.read` does, and grouped
    by person in a temporary folder (`tables.spool`); rows that cannot be used are counted in one warning.

    Parameters
    ----------
    source : RowSource
    item_ids : (N,) int64 or str
        What left and right may be.
    names : mapping
        The columns asked for ``user``, ``left`` and ``right``.
    on_bad : {'drop', 'raise'}
    ids_are : {'given', 'rows'}
    scratch : path, optional
        Folder for the grouped answers, 28 bytes each (twice that and more while files that are not sorted by person
        are grouped); by default the one for temporary files. They are removed with the scan.

    Attributes
    ----------
    n_items, ids_are
        As in `Comparisons`, like ``item_ids``.
    n_users, dropped, is_binary
        As in `Comparisons`; known after all rows were read once.
    used : (N,) bool
        Which items were compared.
    total_weight : float
        Sum over all answers.
    """

    def __init__(
        self,
        source: RowSource,
        item_ids: Column,
        names: Mapping[str, str],
        on_bad: OnBad = "drop",
        scratch: str | os.PathLike[str] | None = None,
        ids_are: IdsAre = "given",
    ) -> None:
        if on_bad not in ("drop", "raise"):
            raise DataError(f"on_bad is {on_bad!r}, but must be 'drop' or 'raise'")
        self.item_ids, self.ids_are = item_ids, ids_are
        self._source, self._names, self._on_bad, self._scratch = source, dict(names), on_bad, scratch
        self._columns = relevant_columns(source.names(), names)
        # report missing or contradictory columns at once
        canonical_columns({name: np.empty(0) for name in self._columns}, names)
        self._spool: Spool | None = None
        self._dropped: dict[str, int] = {}
        self._used = np.zeros(len(item_ids), dtype=bool)
        self._weight, self._is_binary = 0.0, True

    # ------------------------------------------------------------------------------------------- asking

    @property
    def n_items(self) -> int:
        """How many items there are, compared or not."""
        return len(self.item_ids)

    @property
    def n_users(self) -> int:
        """How many people gave an answer that can be used."""
        return self.spool.n_people

    @property
    def dropped(self) -> dict[str, int]:
        """How many rows were left out, by reason."""
        return dict(self._after_reading("_dropped"))

    @property
    def used(self) -> NDArray[np.bool_]:
        """Which items (N,) were compared."""
        used: NDArray[np.bool_] = self._after_reading("_used")
        return used

    @property
    def total_weight(self) -> float:
        """The weight of all answers together."""
        return float(self._after_reading("_weight"))

    @property
    def is_binary(self) -> bool:
        """Whether every response is −1 or +1."""
        return bool(self._after_reading("_is_binary"))

    def _after_reading(self, name: str) -> Any:
        self.read()
        return getattr(self, name)

    def read(self) -> Spool:
        """Read all rows, the first time it is called, and return the grouped answers."""
        if self._spool is None:
            self._spool = self._group()
        return self._spool

    @property
    def chunks(self) -> tuple[SpoolChunk, ...]:
        """Chunks of whole people, who are sorted by id."""
        return self.spool.chunks

    @property
    def spool(self) -> Spool:
        """The grouped answers; the first time, all rows are read for them."""
        return self.read()

    def __len__(self) -> int:
        return self.spool.n_rows

    def __repr__(self) -> str:
        if self._spool is None:
            return f"<ComparisonScan: not read yet, {self.n_items} items>"
        return f"<ComparisonScan: {len(self)} rows, {self.n_users} people, {self.n_items} items>"

    def collect(self, people: int | None = None) -> CodedAnswers:
        """Return answers in memory, about 60 bytes each, sorted by person: of all people, or of about this many.

        Who is drawn depends on their number alone (`is_drawn`); one chunk more than what is drawn is held.
        """
        step = 1 if people is None else max(1, self.n_users // people)
        users, pieces, ids, count = [], [], [], 0
        for chunk in self.chunks:
            rows, drawn = chunk.load(), is_drawn(chunk.first_person + np.arange(chunk.people), step)
            pieces.append(rows[drawn[rows["person"]]])
            users.append(count + (np.cumsum(drawn) - 1)[pieces[-1]["person"]])
            ids.append(chunk.ids()[drawn])
            count += int(drawn.sum())
        user = np.concatenate(users).astype(np.int64)
        left, right = (np.concatenate([rows[name] for rows in pieces]).astype(np.int64) for name in ("left", "right"))
        response, weight = (np.concatenate([rows[name] for rows in pieces]) for name in ("response", "weight"))
        return CodedAnswers(user, left, right, response, weight, np.concatenate(ids), self.item_ids, self.dropped)

    def close(self) -> None:
        """Remove the grouped answers from disk; they are made again if they are asked for."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    # ------------------------------------------------------------------------------------------ reading

    def _group(self) -> Spool:
        """Read all rows twice: who answered, then everything."""
        self._sieve, self._survey = Sieve(0), ChoiceSurvey()
        self._weight, self._is_binary = 0.0, True
        self._used[:] = False
        people = Survey.of(self._people())
        self._survey.decide()
        spool = write_spool(self._coded(), people, self._scratch)
        try:
            self._sieve.report(self._on_bad, stacklevel=6)
        except BaseException:
            spool.close()
            raise
        self._dropped = dict(self._sieve.dropped)
        return spool

    def _people(self) -> Iterator[Array]:
        """Yield who answered, without what is missing; the coding of choices is found on the way."""
        column = find_column(self._columns, "user", self._names["user"])
        assert column is not None
        with_choices = "choice" in self._columns
        for origin, columns in self._source.batches(self._columns if with_choices else [column]):
            if with_choices:
                survey_choices(canonical_columns(columns, self._names), self._survey)
            try:
                ids, missing = as_ids(columns[column], "user")
            except DataError as error:
                raise DataError(f"{origin}: {error}") from error
            yield _storable(ids[~missing])

    def _coded(self) -> Iterator[tuple[Array, Array]]:
        """Yield ids of people and records of the rows that can be used."""
        for origin, columns in self._source.batches(self._columns):
            table = canonical_columns(columns, self._names)
            sieve = Sieve(len(table["user"]), first=self._sieve.n)
            try:
                coded = sift_answers(table, self.item_ids, None, sieve, self._survey)
            except DataError as error:
                raise DataError(f"{origin}: {error}") from error
            sieve.after(self._sieve)
            self._sieve = sieve
            records = np.empty(len(coded.user), RECORD)
            for name in ("left", "right", "response", "weight"):
                records[name] = getattr(coded, name)
            heard = coded.weight > 0
            self._used[coded.left[heard]] = self._used[coded.right[heard]] = True
            self._weight += float(coded.weight.sum())
            self._is_binary = self._is_binary and bool(np.all(np.abs(coded.response) == 1))
            if len(coded.user):
                yield _storable(coded.user_ids[coded.user]), records


def _storable(ids: Column) -> Array:
    """Return ids as int64 or as UTF-8 bytes, whose order is that of the text."""
    if ids.dtype.kind == "i":
        return ids.astype(np.int64, copy=False)
    return np.char.encode(ids.astype(str), "utf-8") if ids.size else np.empty(0, "S1")


def is_drawn(person: NDArray[Any], step: int) -> NDArray[np.bool_]:
    """Return which of these people, by number, belong to a random sample of one in `step`: always the same people."""
    drawn: NDArray[np.bool_] = (person.astype(np.uint64) * GOLDEN) % np.uint64(1 << 32) < np.uint64((1 << 32) // step)
    return drawn
