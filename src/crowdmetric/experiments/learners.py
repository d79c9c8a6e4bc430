"""Who learns from the simulated crowds, and the runs of one cell.

Every learner sees the same data. A learner is a function of the runs of a cell and a loss that returns, for each
run and every number of subspaces asked for, its metrics; a new one is one more line in `LEARNERS`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.bounded.line_subspaces import solve_bounded
from crowdmetric.bounded.radii import choose_radii_of_many
from crowdmetric.bounded.stitching import stitch_prefixes
from crowdmetric.errors import CrowdmetricWarning
from crowdmetric.estimators import PopulationMetric
from crowdmetric.experiments.cells import Cell
from crowdmetric.losses import Loss, get_loss
from crowdmetric.simulate import SimulatedCrowd, simulate_crowd
from crowdmetric.symmetric import orthonormal_basis, relative_error, restrict, shape_error
from crowdmetric.users.blocks import Answers, arrange, join

__all__ = ["LEARNERS", "MOST_COUNTS", "Job", "Row", "learners_of", "oracle_stage1", "run_cell"]

Array = NDArray[Any]
Row = dict[str, Any]
Job = tuple[Cell, tuple[str, ...], tuple[int, ...]]  # a cell, who learns, which runs

METHODS = ("huber", "ols")
# Number of people from which radii are chosen in each run; the library's own default is 500.
PEOPLE_FOR_RADII = 250
# How many numbers of subspaces are tried with a learner that needs a separate fit for each.
MOST_COUNTS = 6
# A learner that needs a separate fit for each number of subspaces gets one in this many runs of a cell: five of thirty,
# one of three. In Experiment 3 a person's answers span as many dimensions as there are answers, and a fit takes five
# times as long.
POPULATION_EVERY = {1: 6, 2: 6, 3: 10}


@dataclass(frozen=True)
class _Data:
    """A crowd in the coordinates of its (possibly estimated) subspaces."""

    crowd: SimulatedCrowd
    bases: Array
    answers: Answers
    counts: tuple[int, ...]


@dataclass(frozen=True)
class _Learned:
    """What a learner says: a metric for each number of subspaces and method, and facts about the fit.

    A learner that does not stitch names its method "".
    """

    metrics: dict[tuple[int, str], Array]
    facts: Row


def _prepare(cell: Cell, run: int) -> _Data:
    crowd = simulate_crowd(
        cell.d, cell.n, cell.r, cell.K, cell.m, beta=cell.beta, noise=cell.sigma, seed=cell.seed(run)
    )
    # Exact subspaces are known; near subspaces are estimated from all items by singular values, as in the paper.
    bases, by_subspace = crowd.bases, crowd.items.reshape(cell.n, -1, cell.d)
    if cell.sigma > 0:
        bases = np.stack([orthonormal_basis(items, cell.r) for items in by_subspace])
    answers = Answers(
        items=(by_subspace @ bases).reshape(-1, cell.r),
        pairs=crowd.pairs,
        response=crowd.y.astype(np.float64),
        weight=np.ones(crowd.y.size),
        person=crowd.users,
        problem=np.repeat(np.arange(cell.n), cell.K),
        n_problems=cell.n,
    )
    return _Data(crowd, bases, answers, cell.counts)


def _stitched(runs: Sequence[_Data], loss: Loss, metric_radius: Array, ideal_radius: Array) -> list[_Learned]:
    """Both stages of Algorithm 2 with radii (runs, n); stage 1 is shared by all numbers of subspaces."""
    clock = perf_counter()
    people = arrange(join([data.answers for data in runs]))
    result = solve_bounded(people, loss, metric_radius.ravel(), ideal_radius.ravel(), tolerance=1e-7)
    seconds = (perf_counter() - clock) / len(runs)
    metrics = result.metrics.reshape(len(runs), -1, *result.metrics.shape[1:])
    gaps = result.gap.reshape(len(runs), -1)
    stitched, stitching_gaps = _stitch_all(runs, metrics)
    learned = []
    for i in range(len(runs)):
        size = np.linalg.norm(metrics[i], axis=(1, 2))
        facts = {
            "active_share": float(np.mean(size > (1.0 - 1e-4) * metric_radius[i])),
            "metric_radius": float(np.mean(metric_radius[i])),
            "ideal_radius": float(np.mean(ideal_radius[i])),
            "gap": float(gaps[i].max()),
            "stitching_gap": float(stitching_gaps[i]),
            "stage1_seconds": seconds,
        }
        learned.append(_Learned({key: found[i] for key, found in stitched.items()}, facts))
    return learned


def _stitch_all(runs: Sequence[_Data], metrics: Array) -> tuple[dict[tuple[int, str], Array], Array]:
    """Return the metrics (runs, d, d) for every number of subspaces and method, and each run's largest gap (runs,)."""
    bases, counts = np.stack([data.bases for data in runs]), runs[0].counts
    found = {method: stitch_prefixes(bases, metrics, counts, method) for method in METHODS}
    stitched = {(count, method): found[method][0][j] for j, count in enumerate(counts) for method in METHODS}
    return stitched, np.max([gaps.max(axis=0) for _, gaps in found.values()], axis=0)


def _oracle_radii(runs: Sequence[_Data]) -> tuple[Array, Array]:
    """Return the paper's radii (runs, n) each, computed from the true metrics and the true people."""
    metric, ideal = [], []
    for data in runs:
        crowd, n = data.crowd, data.answers.n_problems
        Q = restrict(crowd.metric, data.bases)
        v = np.einsum("kd,kdr->kr", -2.0 * crowd.ideal_points @ crowd.metric, data.bases[data.answers.problem])
        metric.append(np.linalg.norm(Q, axis=(1, 2)))
        ideal.append(np.linalg.norm(v, axis=1).reshape(n, -1).max(axis=1))
    return np.array(metric), np.array(ideal)


def oracle(runs: Sequence[_Data], loss: Loss) -> list[_Learned]:
    """Return what the paper's radii give."""
    return _stitched(runs, loss, *_oracle_radii(runs))


def oracle_stage1(cell: Cell, numbers: Sequence[int]) -> list[tuple[Array, Array, Array]]:
    """Return (bases, subspace metrics, true metric) of some runs of a cell with the paper's radii."""
    runs = [_prepare(cell, number) for number in numbers]
    metric, ideal = _oracle_radii(runs)
    people = arrange(join([data.answers for data in runs]))
    result = solve_bounded(people, get_loss(cell.loss), metric.ravel(), ideal.ravel(), tolerance=1e-7)
    metrics = result.metrics.reshape(len(runs), -1, *result.metrics.shape[1:])
    return [(data.bases, Q, data.crowd.metric) for data, Q in zip(runs, metrics, strict=True)]


def honest(runs: Sequence[_Data], loss: Loss) -> list[_Learned]:
    """Return what radii chosen from the answers of each run give."""
    n = runs[0].answers.n_problems
    radii = choose_radii_of_many([data.answers for data in runs], loss, max_people=PEOPLE_FOR_RADII)
    metric, ideal = np.array([r.metric for r in radii]), np.array([r.ideal for r in radii])
    return _stitched(runs, loss, np.repeat(metric[:, None], n, axis=1), np.repeat(ideal[:, None], n, axis=1))


def population(runs: Sequence[_Data], loss: Loss) -> list[_Learned]:
    """Return what integrating people out gives; in Experiment 2, for six of the numbers of subspaces.

    It takes the items as they are: unlike the stitched metric, it does not need their projections on subspaces.
    """
    learned = []
    for data in runs:
        some = np.unique(np.linspace(0, len(data.counts) - 1, MOST_COUNTS).round().astype(int))
        counts = [data.counts[i] for i in some]
        clock, metrics = perf_counter(), {}
        for count in counts:
            answered = data.answers.problem[data.answers.person] < count
            model = PopulationMetric(data.crowd.items, loss=loss, starts=1, tol=1e-2, jobs=1, uncertainty=False)
            with warnings.catch_warnings():
                # a scale that the data do not determine is part of the result
                warnings.simplefilter("ignore", CrowdmetricWarning)
                model.fit(data.crowd.pairs[answered], data.crowd.y[answered], users=data.crowd.users[answered])
            metrics[count, ""] = model.metric_
        learned.append(_Learned(metrics, {"seconds": (perf_counter() - clock) / len(counts)}))
    return learned


# Adding a learner is one line.
LEARNERS: dict[str, Callable[[Sequence[_Data], Loss], list[_Learned]]] = {
    "oracle": oracle,
    "honest": honest,
    "population": population,
}


def learners_of(cell: Cell, run: int, runs: int) -> tuple[str, ...]:
    """Return who learns from a run of a cell, of which there are `runs`.

    The population model is expensive, and gets only the first few runs. A likelihood has no hinge, and the answers are
    those of the logistic panel. Without noise the scale of the metric has no maximum (docs/explanation/population.md).
    """
    without = run * POPULATION_EVERY[cell.experiment] >= runs or cell.loss != "logistic" or cell.beta == inf
    return tuple(name for name in LEARNERS if name != "population" or not without)


def run_cell(job: Job) -> list[Row]:
    """Return one row for every run, learner, method and number of subspaces that a job asks for."""
    cell, learners, numbers = job
    runs = [_prepare(cell, number) for number in numbers]
    loss = get_loss(cell.loss)  # the learner assumes β = 1 whatever the crowd's
    rows = []
    for name in learners:
        for number, data, learned in zip(numbers, runs, LEARNERS[name](runs, loss), strict=True):
            rows += _rows(cell, number, name, data.crowd.metric, learned)
    return rows


def _rows(cell: Cell, run: int, learner: str, truth: Array, learned: _Learned) -> list[Row]:
    facts = {
        "experiment": cell.experiment, "rank": cell.r, "beta": cell.beta, "loss": cell.loss, "learner": learner,
        "d": cell.d, "K": cell.K, "m": cell.m, "sigma": cell.sigma, "run": run,
        "identity_error": shape_error(np.eye(cell.d), truth),
    } | learned.facts  # fmt: skip
    return [
        facts
        | {
            "stitch": method,
            "n": count,
            "relative_error": relative_error(metric, truth),
            "shape_error": shape_error(metric, truth),
        }
        for (count, method), metric in learned.metrics.items()
    ]
