"""Divide and conquer: one small metric per subspace, then one metric from all of them (Algorithms 1 and 2)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.base import CrowdMetric
from crowdmetric.bounded.discover import Discovery, discover_subspaces
from crowdmetric.bounded.given import Subspaces, assign_pairs, given_subspaces
from crowdmetric.bounded.ideal_point import IdealPointMetric
from crowdmetric.bounded.line_subspaces import solve_bounded
from crowdmetric.bounded.placing import place_people
from crowdmetric.bounded.radii import Radii, choose_radii
from crowdmetric.bounded.stitching import METHODS, check_huber, stitch_details
from crowdmetric.checks import one_of, positive_number, whole_number
from crowdmetric.errors import ConvergenceWarning, DataError, DroppedRowsWarning, NotIdentifiedError
from crowdmetric.inputs import Rows, check_options, read_rows, some_questions
from crowdmetric.losses import Loss
from crowdmetric.solvers.solution import Solution
from crowdmetric.symmetric import smat
from crowdmetric.tables import in_order_of
from crowdmetric.users.blocks import Answers, arrange
from crowdmetric.users.projected import describe_deficiency, mean_squared_loss, solve_people, triangles

__all__ = ["StitchedMetric"]

Array = NDArray[Any]
Indices = NDArray[np.intp]

# People are placed under a metric that is itself an estimate: more digits would mean nothing.
PLACING_TOLERANCE = 1e-6


class StitchedMetric(CrowdMetric):
    """Learn a metric inside every subspace of items and stitch them into one (the paper's Algorithm 2).

    Inside a subspace with basis B, items are points of R^r and anybody's ideal point acts as a phantom one in R^r, so a
    handful of answers per person is enough: Algorithm 5 gives ``Q̂ ≈ BᵀMB``. The whole M then follows by
    regression over Sym(R^d) and projection on the positive semi-definite cone. With ``loss="squared"`` and no
    bounds both stages are exact (Algorithm 1).

    Parameters
    ----------
    items : (N, d) array, data frame or Items
        Shared, not copied, by `clone`; ids as in `PopulationMetric`.
    subspaces : (N,) labels, (n, d, r) bases, list of (d, r_λ) bases, or "discover"
        The subspace of each item (−1 or None: nowhere), the subspaces themselves, or a request to find them
        among the items (`crowdmetric.subspaces.discover_subspaces`).
    n_subspaces : int or None
        How many to discover; None: by BIC. With labels or bases it must stay None.
    rank : int or None
        Dimension of the subspaces. With labels, items are projected on the best subspace of that dimension, and None
        finds it from the items, which must then lie in their subspaces exactly; with "discover", None is by BIC.
    affine : bool
        Let subspaces miss the origin: items o + Bz are centered on the mean o of their subspace. That changes the
        phantom ideal point, ``ψ = ⟨zzᵀ − z'z'ᵀ, BᵀMB⟩ + ⟨z − z', −2BᵀM(u − o)⟩``, and nothing else: the metric
        of the directions is still BᵀMB. Labels and "discover" only.
    stitch : {"huber", "ols", "weighted"}
        Regression of stage 2: exact Huber (up to 62 features), least squares, or least squares weighted by each
        subspace's information.
        Exact answers (Algorithm 1) need no choice: they are stitched by least squares.
    loss, beta
        As in `IdealPointMetric`.
    metric_bound, ideal_bound : float, one per subspace, or None
        ζ_M and ζ_v inside the subspaces. None: one number for all, chosen from the data by cross-validation
        blocked by person.
    tol, max_iter, cv, random_state
        As in `IdealPointMetric`.

    Attributes
    ----------
    metric_, components_, users_, pseudo_ideal_points_, ideal_points_, objective_, solution_
        See `CrowdMetric`. People are placed under the finished metric with all their answers, also those across
        subspaces; `objective_` is the mean loss of stage 1.
    labels_, bases_, offsets_ : (N,) array, list of (d, r_λ), (n, d) array
        Subspace of each item (−1: none), the orthonormal bases, and a point of each subspace (0 unless affine).
    discovery_ : Discovery
        How subspaces were found, where they were; `discovery_.summary()` says it in words. Not saved with a model.
    stability_ : float
        Agreement of the subspaces found with those found from half the items, 0 to 1; NaN if they were given.
    subspace_metrics_ : list of (r_λ, r_λ)
        Q̂ of each subspace.
    information_ : list of (p_λ, p_λ)
        Curvature of each subspace's total loss in svec(Q) with people eliminated; empty if it was not needed.
    used_ : (n,) bool
        Whether a subspace had answers.
    n_across_ : int
        Comparisons between items of different subspaces: not used in stage 1.
    metric_bound_, ideal_bound_ : (n,) arrays
        The bounds used.
    bound_is_active_ : (n,) bool
        Whether the metric of a subspace ended on its bound, which then decided its size.
    radii_ : Radii or None
        How bounds were chosen.

    Examples
    --------
    >>> from crowdmetric import StitchedMetric
    >>> from crowdmetric.simulate import simulate_crowd
    >>> from crowdmetric.symmetric import shape_error
    >>> crowd = simulate_crowd(3, 12, 1, users=60, comparisons=6, seed=0)
    >>> model = StitchedMetric(crowd.items, subspaces=crowd.labels, rank=1, metric_bound=5.0, ideal_bound=5.0)
    >>> _ = model.fit(crowd.pairs, crowd.y, users=crowd.users)
    >>> shape_error(model.metric_, crowd.metric) < 0.6
    True
    """

    def __init__(
        self,
        items: ArrayLike | None = None,
        *,
        subspaces: ArrayLike | Sequence[ArrayLike] | str | None = None,
        n_subspaces: int | None = None,
        rank: int | None = None,
        affine: bool = False,
        stitch: str = "huber",
        loss: str | Loss = "logistic",
        beta: float = 1.0,
        metric_bound: float | ArrayLike | None = None,
        ideal_bound: float | ArrayLike | None = None,
        tol: float = 1e-8,
        max_iter: int = 200,
        cv: int = 3,
        random_state: int = 0,
    ) -> None:
        self.items = items
        self.subspaces = subspaces
        self.n_subspaces = n_subspaces
        self.rank = rank
        self.affine = affine
        self.stitch = stitch
        self.loss = loss
        self.beta = beta
        self.metric_bound = metric_bound
        self.ideal_bound = ideal_bound
        self.tol = tol
        self.max_iter = max_iter
        self.cv = cv
        self.random_state = random_state

    def fit(self, pairs: Any, y: Any = None, users: Any = None, sample_weight: Any = None) -> Self:
        """Learn the metric; parameters as in `IdealPointMetric.fit`."""
        clock = perf_counter()
        loss = self._loss()
        check_options(self.tol, self.max_iter, self.cv, self.random_state)
        one_of(self.stitch, "stitch", METHODS)
        if self.rank is not None:
            whole_number(self.rank, "rank")
        rows = read_rows(pairs, y, users, sample_weight, self.items, loss)
        exact = loss.name == "squared" and self.metric_bound is None and self.ideal_bound is None
        if self.stitch == "huber" and not exact:
            check_huber(rows.items.shape[1], "stitch")
        subspaces = self._find_subspaces(rows)
        problems = _divide(rows, subspaces)
        self.n_across_ = int(rows.response.size - sum(p.answers.response.size for p in problems))
        _report_across(self.n_across_, rows.response.size)
        self._begin(subspaces)
        if exact:
            stage1 = self._learn_exactly(problems, subspaces.names)
        else:
            self._set_bounds(problems, len(subspaces.bases), loss)
            stage1 = self._learn_bounded(problems, loss)
        used = np.flatnonzero(self.used_)
        stitched = stitch_details(
            [subspaces.bases[i] for i in used],
            [self.subspace_metrics_[i] for i in used],
            method="ols" if exact else self.stitch,
            information=[self.information_[i] for i in used] if self.stitch == "weighted" and not exact else None,
        )
        points, placed = self._place(rows, stitched.metric, loss, exact=exact)
        unplaced = "" if placed else f" Some people are not placed to within {PLACING_TOLERANCE:g}; raise max_iter."
        solution = Solution(
            f"{stage1.status} {stitched.solution.status}{unplaced}",
            stage1.converged and stitched.solution.converged and placed,
            stage1.objective,
            stage1.gap,
            stage1.iterations,
            perf_counter() - clock,
        )
        if not (stage1.converged and placed):
            warnings.warn(solution.status, ConvergenceWarning, stacklevel=2)
        self._finish(stitched.metric, rows.users, points, solution, rows.labels)
        if rows.by_row:
            self.questions_ = some_questions(rows.pairs, rows.weight)
        return self

    def _begin(self, subspaces: Subspaces) -> None:
        """Set the attributes of the subspaces, empty where a stage fills them in."""
        n = len(subspaces.bases)
        self.labels_, self.bases_, self.offsets_ = subspaces.labels, list(subspaces.bases), subspaces.offsets
        self.subspace_metrics_: list[Array] = [np.full((r, r), np.nan) for r in subspaces.ranks]
        self.used_ = np.zeros(n, dtype=bool)
        self.information_: list[Array] = [np.zeros((0, 0)) for _ in range(n)]
        self.bound_is_active_ = np.zeros(n, dtype=bool)
        self.metric_bound_, self.ideal_bound_ = np.full((2, n), np.nan)
        self.radii_: Radii | None = None

    def _find_subspaces(self, rows: Rows) -> Subspaces:
        self.__dict__.pop("discovery_", None)  # of an earlier fit
        self.stability_ = float("nan")
        if isinstance(self.subspaces, str) and self.subspaces == "discover":
            self.discovery_: Discovery = discover_subspaces(
                rows.items, self.n_subspaces, self.rank, affine=self.affine, random_state=self.random_state
            )
            self.stability_ = self.discovery_.stability
            return self.discovery_.as_subspaces()
        if self.subspaces is None or isinstance(self.subspaces, str):
            raise DataError(
                f"subspaces={self.subspaces!r} does not say where the items lie; give one label per item, "
                "(d, r) bases or 'discover', or use IdealPointMetric, which needs none"
            )
        if self.n_subspaces is not None:
            raise DataError(
                f"n_subspaces={self.n_subspaces} has no effect with subspaces given as labels or bases; leave it out"
            )
        labels = in_order_of(self.subspaces, self.items, "subspaces")
        return given_subspaces(rows.items, labels, self.rank, affine=self.affine)

    # ---------------------------------------------------------------------------- stage 1: one metric per subspace

    def _learn_exactly(self, problems: list[_Problems], names: tuple[Any, ...]) -> Solution:
        """Algorithm 4 in every subspace."""
        total = weight = 0.0
        for p in problems:
            people = arrange(p.answers)
            for index, triangle in zip(p.subspaces, triangles(people), strict=True):
                a, _, null = triangle.solve()
                if null.shape[0]:
                    raise NotIdentifiedError(f"subspace {names[index]!r}: {describe_deficiency(null, a.size)}")
                self.subspace_metrics_[index] = smat(a)
                self.used_[index] = True
            metrics = np.stack([self.subspace_metrics_[index] for index in p.subspaces])
            share = float(p.answers.weight.sum())
            total += share * mean_squared_loss(people, metrics, solve_people(people, metrics))
            weight += share
        status = f"Solved {int(self.used_.sum())} subspaces exactly."
        return Solution(status, True, total / weight, 0.0, 1, 0.0)

    def _set_bounds(self, problems: list[_Problems], n: int, loss: Loss) -> None:
        metric, ideal = _bound(self.metric_bound, "metric_bound", n), _bound(self.ideal_bound, "ideal_bound", n)
        if metric is None or ideal is None:
            self.radii_ = choose_radii(
                [p.answers for p in problems], [p.real_person for p in problems], loss,
                metric_radius=metric, ideal_radius=ideal, folds=self.cv, seed=self.random_state,
            )  # fmt: skip
            metric = np.full(n, self.radii_.metric) if metric is None else metric
            ideal = np.full(n, self.radii_.ideal) if ideal is None else ideal
        self.metric_bound_, self.ideal_bound_ = metric, ideal

    def _learn_bounded(self, problems: list[_Problems], loss: Loss) -> Solution:
        """Algorithm 5 in every subspace, all subspaces of one rank at once."""
        total = weight = gap = 0.0
        iterations, stopped = 0, 0
        for p in problems:
            bound = self.metric_bound_[p.subspaces]
            result = solve_bounded(
                arrange(p.answers), loss, bound, self.ideal_bound_[p.subspaces],
                tolerance=self.tol, max_iterations=self.max_iter,
            )  # fmt: skip
            size = np.linalg.norm(result.metrics, axis=(1, 2))
            self.bound_is_active_[p.subspaces] = size > (1.0 - 1e-4) * bound
            self.used_[p.subspaces] = True
            share = np.bincount(p.answers.problem[p.answers.person], weights=p.answers.weight, minlength=bound.size)
            for i, index in enumerate(p.subspaces):
                self.subspace_metrics_[index] = result.metrics[i]
                self.information_[index] = result.information[i]
            total += float(result.objective @ share)
            weight += float(share.sum())
            gap = max(gap, float(result.gap.max()))
            iterations = max(iterations, result.iterations)
            stopped += int(np.sum(~result.converged))
        used = int(self.used_.sum())
        status = f"Solved {used} subspaces."
        if stopped:
            status = (
                f"{stopped} of {used} subspaces stopped short of tol={self.tol:g} (largest certified gap {gap:.1e}); "
                "raise max_iter, or tol if this is close enough."
            )
        return Solution(status, stopped == 0, total / weight, gap, iterations, 0.0)

    def place(self, pairs: Any, y: Any = None, users: Any = None) -> IdealPointMetric:
        """Return a model that keeps the learned metric and the largest bound, and knows these people, and no others."""
        bound = float(np.nanmax(self.ideal_bound_))
        model = IdealPointMetric(
            self.items, loss=self.loss, beta=self.beta, fixed_metric=self.metric_, ideal_bound=bound
        )
        return model.fit(pairs, y, users=users)

    def _place(self, rows: Rows, metric: Array, loss: Loss, *, exact: bool) -> tuple[Array, bool]:
        """Return everybody's pseudo-ideal point (K, d) under the finished metric, and whether that converged.

        A pseudo-ideal point of length ζ in R^d shows about ``√(r/d) ζ`` of it inside a subspace of dimension r;
        the ball is enlarged by the inverse, and by 2‖Mo‖ where phantoms were measured from an offset o.
        """
        people = arrange(rows.jointly())
        if exact:
            return solve_people(people, metric[None]), True
        d = rows.items.shape[1]
        ranks = np.array([B.shape[1] for B in self.bases_])
        shift = 2.0 * np.linalg.norm(self.offsets_ @ metric, axis=1)
        radius = np.array([np.max((self.ideal_bound_ * np.sqrt(d / ranks) + shift)[self.used_])])
        placed = place_people(
            people, loss, metric[None], radius, tolerance=max(self.tol, PLACING_TOLERANCE), max_iterations=self.max_iter
        )
        return placed.pseudo_ideal_points, placed.converged


class _Problems:
    """The answers inside subspaces of one rank, in their coordinates, ready for stage 1.

    ``subspaces`` (n,) numbers the subspaces with answers; ``real_person`` (K,) is who stands behind each
    phantom: somebody who answers in three subspaces is three phantoms.
    """

    def __init__(self, rows: Rows, chosen: Indices, subspace: Indices, where: Subspaces) -> None:
        self.subspaces, problem_of_row = np.unique(subspace[chosen], return_inverse=True)
        phantoms, person = np.unique(rows.person[chosen] * self.subspaces.size + problem_of_row, return_inverse=True)
        self.real_person, problem = np.divmod(phantoms, self.subspaces.size)
        r = where.bases[self.subspaces[0]].shape[1]
        coordinates = np.empty((2 * chosen.size, r))
        order = np.argsort(problem_of_row, kind="stable")
        edges = np.searchsorted(problem_of_row[order], np.arange(self.subspaces.size + 1))
        for i, index in enumerate(self.subspaces):
            inside = order[edges[i] : edges[i + 1]]
            for side in (0, 1):
                vectors = rows.items[rows.pairs[chosen[inside], side]]
                coordinates[2 * inside + side] = (vectors - where.offsets[index]) @ where.bases[index]
        self.answers = Answers(
            items=coordinates,
            pairs=np.arange(2 * chosen.size).reshape(-1, 2),
            response=rows.response[chosen],
            weight=rows.weight[chosen],
            person=person,
            problem=problem,
            n_problems=self.subspaces.size,
        )


def _divide(rows: Rows, subspaces: Subspaces) -> list[_Problems]:
    """Return the problems of stage 1, one entry per rank."""
    subspace = assign_pairs(rows.items, rows.pairs, subspaces)
    if not np.any(subspace >= 0):
        raise DataError(
            f"none of the {subspace.size} comparisons is between two items of one subspace, so there "
            "is nothing to learn from; "
            "check the labels, or use IdealPointMetric"
        )
    rank_of_row = np.where(subspace >= 0, subspaces.ranks[subspace], 0)
    return [
        _Problems(rows, np.flatnonzero(rank_of_row == rank), subspace, subspaces)
        for rank in np.unique(rank_of_row[rank_of_row > 0])
    ]


def _report_across(n_across: int, total: int) -> None:
    if n_across:
        warnings.warn(
            f"{n_across} of {total} comparisons are between items of different subspaces; stage 1 cannot use them "
            "(people are still placed with them). IdealPointMetric uses all comparisons",
            DroppedRowsWarning,
            stacklevel=3,
        )


def _bound(value: Any, name: str, n: int) -> Array | None:
    """Return one radius per subspace from a number or a sequence; None stays None."""
    if value is None:
        return None
    if np.ndim(value) == 0:
        return np.full(n, positive_number(value, name))
    array = np.asarray(value, dtype=np.float64)
    if array.shape != (n,):
        raise DataError(
            f"{name} has shape {array.shape}, but there are {n} subspaces; give one number, or one per subspace"
        )
    for entry in array:
        positive_number(float(entry), name)
    return array
