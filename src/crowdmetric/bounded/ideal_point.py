"""One metric in all of R^d, learned jointly with everybody's ideal point (Algorithms 3, 4 and 5)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.base import CrowdMetric
from crowdmetric.bounded.barrier import BarrierResult, solve_barrier
from crowdmetric.bounded.from_disk import SAMPLE, fit_streamed_bounded, some_answers
from crowdmetric.bounded.placing import Placement, place_people
from crowdmetric.bounded.radii import Radii, choose_radii
from crowdmetric.checks import check_metric, function_or_none, one_of, positive_number
from crowdmetric.engines.local import LocalEngine
from crowdmetric.engines.named import summing_engine
from crowdmetric.errors import ConvergenceWarning, DataError, NotIdentifiedError
from crowdmetric.fits.memory import MemoryPlan, bytes_to_lay_out, read_memory
from crowdmetric.fits.passes import Passes
from crowdmetric.inputs import (
    Rows,
    check_items,
    check_options,
    check_scan,
    check_scan_alone,
    read_rows,
    some_questions,
)
from crowdmetric.losses import Loss
from crowdmetric.solvers.cone import BOUNDS
from crowdmetric.solvers.solution import Solution
from crowdmetric.symmetric import degrees_of_freedom, project_psd, smat
from crowdmetric.tables import ComparisonScan
from crowdmetric.users.blocks import BLOCK_SIZE, Answers, arrange
from crowdmetric.users.projected import describe_deficiency, mean_squared_loss, solve_people, triangles

__all__ = ["IdealPointMetric"]

Array = NDArray[Any]

# Typical number of passes over all people in a fit to a scan, from which the expected time is computed.
USUAL_PASSES = 12
# Memory: copies of an answer's layout while people are placed and while the start is found, block-sized arrays, and
# matrices.
PLACING_COPIES, SAMPLE_COPIES, TEMPORARIES, MATRICES = 2, 3, 24, 8


class IdealPointMetric(CrowdMetric):
    """Learn M in R^d and every ideal point together (Canal et al. 2022).

    Binary answers: minimize ``mean ℓ(⟨Δ, A⟩ + ⟨δ, w_k⟩, y)`` over ``A ⪰ 0, ‖A‖ ≤ metric_bound, ‖w_k‖ ≤
    ideal_bound``, to a certified duality gap. Real-valued answers (``loss="squared"`` without bounds): exact
    recovery by linear algebra, or NotIdentifiedError with the directions of M that the answers cannot reveal.

    Parameters
    ----------
    items : (N, d) array, data frame or Items
        Shared, not copied, by `clone`; ids as in `PopulationMetric`. May be None if pairs are given as vectors.
    loss : {"logistic", "probit", "hinge", "squared"} or Loss
    beta : float
        Sharpness of the answers; only βM is identified from binary answers.
    metric_bound, ideal_bound : float or None
        ζ_M and ζ_v. None: chosen from the data by cross-validation blocked by person.
    norm : {"frobenius", "nuclear"}
        What metric_bound bounds; the nuclear norm favors metrics of low rank.
    fixed_metric : (d, d) array or None
        A known metric: only the people are placed.
    tol : float
        Certified gap in mean loss at which to stop.
    max_iter : int
    cv : int
        Folds of people when bounds are chosen.
    random_state : int
        Which people go to which fold.
    memory : int or str, optional
        Limit for a fit to scanned comparisons, in bytes or such as '2GB'; None: half of what is free. See
        `memory_plan`.
    progress : function of a str, optional
        Called after every pass over the people of a scan with its speed and the expected time left.
    engine : optional
        Where sums over the people of a scan are taken, as for `PopulationMetric`: this machine, or a Dask cluster.
        Answers in memory are solved by one interior point, which cannot be split among workers.

    Attributes
    ----------
    metric_, components_, users_, pseudo_ideal_points_, ideal_points_, objective_, solution_
        See `CrowdMetric`.
    metric_bound_, ideal_bound_ : float
        The bounds used (NaN if there were none).
    radii_ : Radii or None
        How they were chosen.
    pseudo_ideal_mean_ : (d,) array
        After a fit to a scan: the mean of everybody's v, with which predictions are made.

    Examples
    --------
    >>> from crowdmetric import IdealPointMetric
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(3, None, None, users=200, comparisons=12, seed=0)
    >>> model = IdealPointMetric(crowd.items, metric_bound=4.0, ideal_bound=4.0)
    >>> model.fit(crowd.pairs, crowd.y, users=crowd.users).solution_.converged
    True
    """

    def __init__(
        self,
        items: ArrayLike | None = None,
        *,
        loss: str | Loss = "logistic",
        beta: float = 1.0,
        metric_bound: float | None = None,
        ideal_bound: float | None = None,
        norm: str = "frobenius",
        fixed_metric: ArrayLike | None = None,
        tol: float = 1e-8,
        max_iter: int = 200,
        cv: int = 3,
        random_state: int = 0,
        memory: int | str | None = None,
        progress: Callable[[str], None] | None = None,
        engine: Any = None,
    ) -> None:
        self.items = items
        self.loss = loss
        self.beta = beta
        self.metric_bound = metric_bound
        self.ideal_bound = ideal_bound
        self.norm = norm
        self.fixed_metric = fixed_metric
        self.tol = tol
        self.max_iter = max_iter
        self.cv = cv
        self.random_state = random_state
        self.memory = memory
        self.progress = progress
        self.engine = engine

    def fit(self, pairs: Any, y: Any = None, users: Any = None, sample_weight: Any = None) -> Self:
        """Learn the metric.

        Parameters
        ----------
        pairs : data frame, Comparisons, ComparisonScan, (T, 2) int or str array, (T, 2, d) array
            As in `PopulationMetric.fit`. A scan (`Comparisons.scan_parquet`) is
            read in chunks and fitted by gradients alone, to the same certificate, if the loss is smooth. People's
            places are not kept, and bounds that were not given are chosen on 5,000 people.
        y : (T,) array
            −1 left preferred, +1 right preferred, or in other words as in `PopulationMetric.fit`; real ψ with
            ``loss="squared"``.
        users : (T,) array
            Who answered; None: one person.
        sample_weight : (T,) array
        """
        loss = self._loss()
        one_of(self.norm, "norm", BOUNDS)
        if self.memory is not None:
            read_memory(self.memory)
        check_options(self.tol, self.max_iter, self.cv, self.random_state)
        function_or_none(self.progress, "progress", "a sentence")
        if isinstance(pairs, ComparisonScan):
            check_scan_alone(y, users, sample_weight)
            self._fit_scan(pairs, loss)
            return self
        if self.engine is not None:
            raise DataError(
                f"engine={self.engine!r} has no effect here: answers in memory are solved by one interior point on "
                "this machine; leave engine out, or fit a scan (Comparisons.scan_parquet)"
            )
        rows = read_rows(pairs, y, users, sample_weight, self.items, loss)
        answers = rows.jointly()
        self.radii_: Radii | None = None
        unbounded = self.metric_bound is None and self.ideal_bound is None and self.fixed_metric is None
        if loss.name == "squared" and unbounded:
            self._fit_exactly(answers, rows)
        else:
            self._fit_bounded(answers, rows, loss)
        if rows.by_row:
            self.questions_ = some_questions(rows.pairs, rows.weight)
        return self

    def _fit_scan(self, scan: ComparisonScan, loss: Loss) -> None:
        """Algorithm 5 by gradients alone; people are placed anew at every pass."""
        unbounded = self.metric_bound is None and self.ideal_bound is None
        if self.fixed_metric is not None or not loss.is_smooth or (loss.name == "squared" and unbounded):
            what = "fixed_metric" if self.fixed_metric is not None else f"loss={loss.name!r}"
            raise DataError(
                f"{what} cannot be fitted to answers left on disk, which are learned from by gradients of a bounded, "
                "smooth loss; read them into memory with Comparisons.from_scan, or use another loss or give bounds"
            )
        engine = summing_engine(self.engine, "IdealPointMetric")
        items, plan = check_scan(scan, self.items, loss), self.memory_plan(scan)
        sample = some_answers(scan, items)
        metric_bound, ideal_bound = self._bounds(sample, loss, None)
        fit = fit_streamed_bounded(
            scan, items, loss, metric_bound, ideal_bound, sample=sample, norm=self.norm, tolerance=self.tol,
            max_passes=self.max_iter, engine=engine, after_pass=Passes.of(self.progress, plan.people, USUAL_PASSES),
        )  # fmt: skip
        result = fit.result
        status = f"Solved by {result.passes} passes over the people."
        if not result.converged:
            status = (
                f"Stopped after {result.passes} passes with a certified gap of {result.gap:.1e}, short of "
                f"tol={self.tol:g}; raise max_iter, or tol if this is close enough."
            )
            warnings.warn(status, ConvergenceWarning, stacklevel=3)
        self.pseudo_ideal_mean_ = fit.mean
        solution = Solution(status, result.converged, result.at.value, result.gap, result.passes, fit.seconds)
        self._finish(fit.metric, np.empty(0, dtype=np.int64), np.empty((0, items.shape[1])), solution)

    def memory_plan(self, scan: ComparisonScan) -> MemoryPlan:
        """Return how much memory a fit to a scan will take, before it starts; a limit that is too low is an error."""
        N, d = check_items(self.items).shape
        chunk_rows = max((chunk.rows for chunk in scan.chunks), default=0)
        sample = int(min(scan.n_users, 2 * SAMPLE) * len(scan) / max(scan.n_users, 1))
        a_job = chunk_rows * PLACING_COPIES * bytes_to_lay_out(d) + TEMPORARIES * 8 * BLOCK_SIZE
        matrices = MATRICES * 8 * degrees_of_freedom(d) ** 2
        work = 8 * N * d + sample * bytes_to_lay_out(d) * SAMPLE_COPIES + matrices + LocalEngine().jobs * a_job
        return MemoryPlan.of_work(scan.n_users, len(scan), work, read_memory(self.memory), "fit")

    def _unknown_point(self) -> Array:
        return super()._unknown_point() if self.users_.size else self.pseudo_ideal_mean_

    def _fit_exactly(self, answers: Answers, rows: Rows) -> None:
        """Algorithm 4: project people out, then least squares over Sym(R^d)."""
        clock = perf_counter()
        people = arrange(answers)
        a, _, null = triangles(people)[0].solve()
        if null.shape[0]:
            raise NotIdentifiedError(describe_deficiency(null, a.size))
        raw = smat(a)
        A = project_psd(raw)  # exact answers give a metric; noisy ones may not
        points = solve_people(people, A[None])
        objective = mean_squared_loss(people, A[None], points)
        lowest = mean_squared_loss(people, raw[None], solve_people(people, raw[None]))
        status = f"Solved: all {a.size} degrees of freedom of the metric are identified."
        if np.linalg.eigvalsh(raw)[0] < -1e-8 * np.abs(raw).max():
            status += " The answers are not those of a metric: negative eigenvalues were set to zero."
        solution = Solution(status, True, objective, max(objective - lowest, 0.0), 1, perf_counter() - clock)
        self.metric_bound_ = self.ideal_bound_ = float("nan")
        self._finish(A, rows.users, points, solution, rows.labels)

    def _fit_bounded(self, answers: Answers, rows: Rows, loss: Loss) -> None:
        """Algorithm 5: the bounded program, with bounds given or chosen."""
        d = rows.items.shape[1]
        fixed = None if self.fixed_metric is None else check_metric(self.fixed_metric, d, "fixed_metric")[None]
        if fixed is not None and self.metric_bound is not None:
            raise DataError(
                f"metric_bound={self.metric_bound!r} has no effect with fixed_metric; leave one of them out"
            )
        metric_bound, ideal_bound = self._bounds(answers, loss, fixed)
        people, radius = arrange(answers), np.array([ideal_bound])
        result: BarrierResult | Placement
        if fixed is not None:
            result = place_people(people, loss, fixed, radius, tolerance=self.tol, max_iterations=self.max_iter)
            metric = fixed[0]
        else:
            result = solve_barrier(
                people, loss, np.array([metric_bound]), radius,
                norm=self.norm, tolerance=self.tol, max_iterations=self.max_iter,
            )  # fmt: skip
            metric = result.metrics[0]
        solution = _bounded_solution(result, self.tol, self.max_iter)
        self._finish(metric, rows.users, result.pseudo_ideal_points, solution, rows.labels)

    def _bounds(self, answers: Answers, loss: Loss, fixed: Array | None) -> tuple[float, float]:
        """Return ζ_M (NaN under a fixed metric) and ζ_v, given or chosen from these answers, and remember them."""
        self.radii_ = None
        metric_bound = None if self.metric_bound is None else positive_number(self.metric_bound, "metric_bound")
        ideal_bound = None if self.ideal_bound is None else positive_number(self.ideal_bound, "ideal_bound")
        if ideal_bound is None or (metric_bound is None and fixed is None):
            self.radii_ = choose_radii(
                [answers], [np.arange(answers.problem.size)], loss, norm=self.norm,
                metrics=None if fixed is None else [fixed], metric_radius=metric_bound, ideal_radius=ideal_bound,
                folds=self.cv, seed=self.random_state,
            )  # fmt: skip
            metric_bound = self.radii_.metric if metric_bound is None else metric_bound
            ideal_bound = self.radii_.ideal if ideal_bound is None else ideal_bound
        self.metric_bound_ = float("nan") if fixed is not None or metric_bound is None else metric_bound
        self.ideal_bound_ = ideal_bound
        return self.metric_bound_, self.ideal_bound_

    def place(self, pairs: Any, y: Any = None, users: Any = None) -> IdealPointMetric:
        """Return a model that keeps the learned metric and the bound, and knows these people, and nobody else."""
        bound = float(np.max(self.ideal_bound_))
        model = IdealPointMetric(
            self.items, loss=self.loss, beta=self.beta, fixed_metric=self.metric_, ideal_bound=bound
        )
        return model.fit(pairs, y, users=users)


def _bounded_solution(result: BarrierResult | Placement, tolerance: float, max_iter: int) -> Solution:
    """Return how a joint bounded fit ended, with a warning where it fell short."""
    converged, gap = bool(np.all(result.converged)), float(np.max(result.gap))
    if converged:
        status = "Solved."
    else:
        ran_out = result.iterations >= max_iter
        remedy = "raise max_iter, or tol" if ran_out else "rounding allows no better certificate, so raise tol"
        status = (
            f"Stopped after {result.iterations} iterations with a certified gap of {gap:.1e}, "
            f"short of tol={tolerance:g}; {remedy} if this is close enough."
        )
        warnings.warn(status, ConvergenceWarning, stacklevel=4)
    return Solution(status, converged, float(np.max(result.objective)), gap, result.iterations, result.seconds)
