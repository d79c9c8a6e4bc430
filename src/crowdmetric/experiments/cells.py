"""What the paper ran: the cells of every panel, by experiment, response noise and rank of the subspaces.

Experiment 1 varies people K and answers m, Experiment 2 the dimension d and the number of subspaces n, Experiment 3
the distance σ of items from their subspaces. A *cell* is a point of a panel.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf

import numpy as np

__all__ = ["FIGURES", "Cell", "Figure", "cells_of", "figure_named", "least_subspaces"]


@dataclass(frozen=True)
class Cell:
    """One simulated crowd and a loss to learn with: everything but the learner and the number of the run.

    Attributes
    ----------
    d, n, r, K, m
        Dimension, subspaces, their rank, people per subspace, answers per person.
    beta, sigma
        Response noise of the crowd (the learner assumes 1), distance of items from their subspaces.
    counts
        Numbers of subspaces to stitch (Experiment 2 reuses stage 1 for all of them).
    loss
        The loss to learn with.
    """

    experiment: int
    d: int
    n: int
    r: int
    K: int
    m: int
    beta: float
    sigma: float
    counts: tuple[int, ...]
    loss: str

    def key(self) -> str:
        """Return a text that names the cell, equal for equal settings: results are filed under it."""
        parts = {name: value for name, value in asdict(self).items() if name not in ("counts", "loss")}
        text = " ".join(f"{name}={value:g}" for name, value in parts.items())
        counts = f"{self.counts[0]}..{self.counts[-1]}/{len(self.counts)}"
        return f"{text} counts={counts} loss={self.loss}"

    def seed(self, run: int) -> int:
        """Return the seed of a run: the same truth for all K, m, β and σ of a run, so cells are comparable."""
        return int(np.random.SeedSequence([20240719, self.experiment, self.d, self.r, run]).generate_state(1)[0])


@dataclass(frozen=True)
class Figure:
    """One published panel.

    Attributes
    ----------
    name
        What `crowdmetric reproduce` calls it.
    source
        The label of the panel, or of its row, in the paper's source.
    title
        What it shows.
    """

    name: str
    source: str
    title: str
    experiment: int
    loss: str
    beta: float
    rank: int


def _figures() -> tuple[Figure, ...]:
    what = {
        1: "error against people and answers",
        2: "error against dimension and number of subspaces",
        3: "error when items lie only near subspaces",
    }
    noise = {1.0: "β = 1", 4.0: "β = 4", inf: "β = ∞ (noiseless)"}
    rows = {("logistic", 1.0): "beta1-logistic", ("logistic", 4.0): "beta4", ("logistic", inf): "noiseless"}
    rows |= {("hinge", 1.0): "beta1-hinge", ("hinge", 4.0): "beta4-hinge", ("hinge", inf): "noiseless-hinge"}
    figures = [
        Figure(
            f"exp{e}-{loss}-beta{beta:g}",
            source,
            f"Experiment {e}, {loss} loss, {noise[beta]}: {what[e]}",
            e,
            loss,
            beta,
            1,
        )
        for (loss, beta), source in rows.items()
        for e in (1, 2, 3)
    ]
    figures += [
        Figure(
            f"exp{e}-r2",
            f"exp{e}-r2",
            f"Experiment {e}, planes (r = 2), {noise[1.0]}: {what[e]}",
            e,
            "logistic",
            1.0,
            2,
        )
        for e in (1, 2, 3)
    ]
    return tuple(figures)


FIGURES = _figures()


def figure_named(name: str) -> Figure | None:
    """Return the figure called `name`, or None."""
    return next((figure for figure in FIGURES if figure.name == name), None)


def least_subspaces(d: int, r: int) -> int:
    """Return ``⌈d(d+1) / (r(r+1))⌉``: fewer subspaces of rank r cannot identify a metric in R^d."""
    return -(-d * (d + 1) // (r * (r + 1)))


@dataclass(frozen=True)
class _Grid:
    people: tuple[int, ...]
    answers: tuple[int, ...]
    dimensions: tuple[int, ...]
    counts: tuple[int, ...]
    sigmas: tuple[float, ...]
    people_near: tuple[int, ...]


_FULL = _Grid(
    people=(1, 5, 10, 20, 30, 40, 50, 60, 70, 80),
    answers=(1, 2, 4, 6, 8),
    dimensions=tuple(range(3, 11)),
    counts=tuple(range(5, 81)),
    sigmas=tuple(round(0.1 * i, 1) for i in range(11)),
    people_near=(20, 60),  # the paper varies K without saying how
)
_QUICK = _Grid(
    people=(10, 40, 80),
    answers=(1, 2, 4, 8),
    dimensions=(3, 6, 10),
    counts=(5, 10, 20, 30, 40, 50, 60, 70, 80),
    sigmas=(0.0, 0.3, 1.0),
    people_near=(60,),
)


def cells_of(figures: tuple[Figure, ...], *, quick: bool = False) -> list[Cell]:
    """Return the cells of the figures."""
    grid = _QUICK if quick else _FULL
    return [cell for figure in figures for cell in _cells(grid, figure)]


def _cells(grid: _Grid, figure: Figure) -> list[Cell]:
    r = figure.rank
    n = 80 if r == 1 else 40

    def cell(d: int, K: int, m: int, sigma: float = 0.0, counts: tuple[int, ...] = (n,)) -> Cell:
        return Cell(figure.experiment, d, n, r, K, m, figure.beta, sigma, counts, figure.loss)

    if figure.experiment == 1:
        return [cell(10, K, m) for K in grid.people for m in grid.answers]
    if figure.experiment == 2:
        counts = tuple(count for count in grid.counts if count <= n)
        K, m = (60, 4) if r == 1 else (80, 10)
        return [cell(d, K, m, counts=counts) for d in grid.dimensions]
    return [cell(10, K, 8 if r == 1 else 10, sigma) for K in grid.people_near for sigma in grid.sigmas]
