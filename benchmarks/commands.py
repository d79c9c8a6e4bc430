"""Whole commands, from tables on disk to a saved model and its report: CPU seconds of each on one core.

The tables have the sizes of tables that people bring. Their answers are not exactly the model's: items have effects of
their own and everybody has tastes for single items beside their ideal point. Some answers are made from rankings or
ratings, and never contradict each other; others are coin flips. Numba's cache is warm: the first command is run twice,
and its second run counts.

CPU seconds depend on what else the machine does. The first line is a yardstick: the CPU seconds of a fixed piece of
Python and NumPy at that moment.

``python -m benchmarks.commands small noiseless`` measures these tables only. ``python -m benchmarks.commands
--folder DIR carrots cream`` measures tables of your own, ``DIR/carrots/items.csv`` and ``DIR/carrots/comparisons.csv``.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.simulate import responses
from crowdmetric.tables import write_columns

Array = NDArray[Any]


@dataclass(frozen=True)
class Table:
    """The size of a table: what it is called, people, answers per person, items, features, and its options.

    With `shown`, everybody orders so many items, or rates them on a scale of `levels`, and answers are pairs that are
    not tied. With `genres`, features are 0 or 1, and an item has one to three of them. With `rank`, answers are the
    model's: features have falling variances, the metric has this rank, and ψ a standard deviation of 2.5.
    """

    name: str
    people: int
    answers: int
    items: int
    features: int
    beta: float = 1.0
    tastes: float = 0.5
    effects: float = 0.4
    shown: int = 0
    levels: int = 0
    genres: bool = False
    rank: int = 0
    options: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The size in words."""
        return f"{self.people:,} x {self.answers}, {self.items:,} items, {self.features} features"


TABLES = (
    Table("small", 300, 6, 200, 6),
    Table("cars", 60, 37, 20, 6),
    Table("noiseless", 60, 6, 30, 3, beta=np.inf, tastes=0.0, effects=0.0),
    Table("paintings", 299, 40, 50, 9),
    Table("colors", 48, 600, 37, 3),
    Table("all-colors", 48, 1332, 37, 3),
    Table("contradictory", 300, 20, 60, 5, beta=0.0),
    Table("sushi", 5000, 45, 100, 6, shown=10),
    Table("movielens", 943, 50, 1682, 18, shown=40, levels=5, genres=True),
    Table("embeddings", 1000, 20, 5000, 384, options=("--pca", "20")),
    Table("plain", 1000, 20, 5000, 384),
    Table("middle-64", 500, 4, 200, 64, rank=5),
    Table("middle-20", 5000, 4, 200, 20, rank=5),
    Table("middle-384", 341, 20, 1052, 384, rank=5),
)
README = ("--dimension", "6", "--subspaces", "40", "--rank", "2", "--users", "60", "--comparisons", "8")


def write_table(table: Table, folder: Path, seed: int = 0) -> None:
    """Draw answers ``ψ = d(x, u)² − d(x', u)²`` of people at u, with tastes and effects, and write both tables.

    Items lie on a flat of at most 20 dimensions, as embeddings nearly do.
    """
    if table.rank:
        _write(folder, *_of_rank(table, seed))
        return
    rng = np.random.default_rng(seed)
    d, inner, (N, K) = table.features, min(table.features, 20), (table.items, table.people)
    Z = _genres(N, d, rng) if table.genres else rng.standard_normal((N, inner)) / np.sqrt(inner)
    G = rng.standard_normal((inner, inner))
    M = 4.0 * inner * G @ G.T / np.linalg.norm(G @ G.T)
    U = rng.standard_normal((K, inner)) / np.sqrt(inner)
    worth = table.effects * rng.standard_normal(N)[None, :] + table.tastes * rng.standard_normal((K, N))
    if table.shown:
        user, left, right, answer = _ordered(table, Z, M, U, worth, rng)
    else:
        user, left = np.repeat(np.arange(K), table.answers), rng.integers(N, size=K * table.answers)
        right = (left + rng.integers(1, N, size=left.size)) % N
        x, y = Z[left], Z[right]
        psi = np.sum((x - y) @ M * (x + y - 2.0 * U[user]), axis=1) - worth[user, left] + worth[user, right]
        answer = responses(psi, table.beta, rng) if table.beta > 0 else rng.choice([-1.0, 1.0], psi.size)
    X = Z if d == inner else Z @ rng.standard_normal((inner, d)) + 0.01 * rng.standard_normal((N, d))
    _write(folder, X, user, left, right, answer)


def _write(folder: Path, X: Array, user: Array, left: Array, right: Array, answer: Array) -> None:
    """Write items and answers."""
    folder.mkdir(parents=True)
    ids = {"item_id": np.arange(len(X))}
    write_columns({**ids, **{f"f{j}": x for j, x in enumerate(X.T)}}, folder / "items.csv")
    answered = np.where(answer < 0, "left", "right")
    columns = {"user": user, "left": left, "right": right, "choice": answered}
    write_columns(columns, folder / "comparisons.csv")


def _of_rank(table: Table, seed: int) -> tuple[Array, Array, Array, Array, Array]:
    """Return items, who, left, right and answers that are the model's, under a metric of low rank."""
    rng = np.random.default_rng(seed)
    N, K, m, d = table.items, table.people, table.answers, table.features
    spread = (1.0 + np.arange(d)) ** -0.5
    spread /= np.linalg.norm(spread)
    X, G = rng.standard_normal((N, d)) * spread, rng.standard_normal((d, table.rank))
    U = rng.standard_normal((K, d)) * spread
    user, left = np.repeat(np.arange(K), m), rng.integers(N, size=K * m)
    right = (left + rng.integers(1, N, size=K * m)) % N
    x, y = X[left], X[right]
    psi = np.sum((x - y) @ G * ((x + y - 2.0 * U[user]) @ G), axis=1)
    return X, user, left, right, responses(2.5 * psi / psi.std(), table.beta, rng)


def _genres(items: int, genres: int, rng: np.random.Generator) -> Array:
    """Return the genres of items, 0 or 1 each: one to three per item, some genres far more often than others."""
    share = 1.0 / np.arange(1, genres + 1)
    liked = np.log(share) + rng.gumbel(size=(items, genres))  # the largest: drawn without replacement
    rank = np.argsort(np.argsort(-liked, axis=1), axis=1)
    return (rank < rng.integers(1, 4, size=(items, 1))).astype(np.float64)


def _ordered(
    table: Table, Z: Array, M: Array, U: Array, worth: Array, rng: np.random.Generator
) -> tuple[Array, Array, Array, Array]:
    """Return who, left, right and the answer of pairs among the items that each person has ordered or rated."""
    columns: list[list[Array]] = [[], [], [], []]
    first, second = np.triu_indices(table.shown, 1)
    for k, u in enumerate(U):
        items = rng.choice(len(Z), table.shown, replace=False)
        away = Z[items] - u
        liked = worth[k, items] - np.sum(away @ M * away, axis=1) + rng.gumbel(size=table.shown)
        if table.levels:
            liked = np.floor(table.levels * np.argsort(np.argsort(liked)) / table.shown)
        untied = np.flatnonzero(liked[first] != liked[second])
        some = rng.permutation(untied)[: table.answers]
        turned = rng.random(some.size) < 0.5
        a, b = np.where(turned, second[some], first[some]), np.where(turned, first[some], second[some])
        answer = np.where(liked[a] > liked[b], -1.0, 1.0)
        for column, part in zip(columns, (np.full(some.size, k), items[a], items[b], answer), strict=True):
            column.append(part)
    user, left, right, answer = (np.concatenate(column) for column in columns)
    return user, left, right, answer


def yardstick() -> float:
    """Return the CPU seconds of a fixed piece of work, on this machine at this moment."""
    clock, X, total = process_time(), np.random.default_rng(0).standard_normal((300, 300)), 0
    for number in range(3_000_000):
        total += number & 7
    for _ in range(60):
        X = np.tanh(X @ X / 300.0)
    return process_time() - clock


def seconds(*arguments: str) -> float:
    """Return the CPU seconds of a command, with its start and its imports, from byte code on disk as pip leaves it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "crowdmetric", *arguments, "--quiet"],
        check=True,
        stdout=subprocess.DEVNULL,
        env=environment,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(names: tuple[str, ...] = ()) -> None:
    """Print a line for every command."""
    print(f"yardstick {yardstick():.2f} s", flush=True)
    if names[:1] == ("--folder",):
        for name in names[2:]:
            with tempfile.TemporaryDirectory() as temporary:
                files = [str(Path(names[1], name, file)) for file in ("items.csv", "comparisons.csv")]
                spent = seconds("fit", *files, "--out", str(Path(temporary, "m")))
                print(f"fit     {name:<54}{spent:6.1f} s", flush=True)
        return
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        simulated = Table("readme", 2400, 8, 38_400, 6)
        tables = [table for table in (*TABLES, simulated) if not names or table.name in names]
        warm = False
        for table in tables:
            folder = root / table.name
            if table is simulated:
                seconds("simulate", *README, "--out", str(folder))
            else:
                write_table(table, folder)
            files, model = [str(folder / name) for name in ("items.csv", "comparisons.csv")], str(folder / "m")
            command = ("fit", *files, "--out", model, *table.options)
            if not warm:
                seconds(*command)
                warm = True
            print(f"fit     {table.name:<12}{table.words:<42}{seconds(*command, '--overwrite'):6.1f} s", flush=True)
            if table is simulated:
                where = ("locate", model, files[1], "--next", "--out", str(root / "places.csv"))
                print(f"locate  {table.name:<12}{table.words:<42}{seconds(*where):6.1f} s", flush=True)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
