"""One metric from matched questions: people are conditioned away, and nothing is assumed of them."""

from __future__ import annotations

import warnings
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.base import CrowdMetric
from crowdmetric.bounded import IdealPointMetric
from crowdmetric.checks import one_of, positive_number
from crowdmetric.comparisons import Comparisons
from crowdmetric.engines.named import summing_engine
from crowdmetric.errors import ConvergenceWarning, DataError, NotIdentifiedError, NotIdentifiedWarning
from crowdmetric.fits.crowd import ChunkCache
from crowdmetric.fits.matched_people import (
    Found,
    MatchedCrowd,
    MatchedOptions,
    matched_in_memory,
    matched_on_disk,
)
from crowdmetric.fits.memory import MemoryPlan, bytes_to_lay_out, read_memory
from crowdmetric.fits.unknowns import MOST_PEOPLE
from crowdmetric.inputs import (
    CONSTRAINTS,
    check_items,
    check_options,
    check_scan,
    check_scan_alone,
    origin_of,
    read_rows,
)
from crowdmetric.losses import Loss
from crowdmetric.solvers.logistic import LogisticResult, solve_logistic
from crowdmetric.solvers.posterior import number_of_draws
from crowdmetric.solvers.shape_draws import draw_around
from crowdmetric.solvers.solution import Solution
from crowdmetric.symmetric import degrees_of_freedom, describe_direction, smat, svec
from crowdmetric.tables import ASKED, ComparisonScan, cut_sentence
from crowdmetric.users.conditioning import CHUNK

__all__ = ["CONSTRAINTS", "MatchedMetric"]

Array = NDArray[Any]

# The fit warns if standard errors exceed this share of the metric's size.
TOO_VAGUE = 1.0
# Bytes per answer for the sets, where answers come in matched pairs.
BYTES_OF_SETS = 90
# Number of matrices as large as the curvature, and of temporaries of a pass, held at once.
MATRICES, TEMPORARIES = 10, 8


class MatchedMetric(CrowdMetric):
    """Learn M from parallel questions to the same person, without assumptions about people.

    If somebody compares ``(a + δ/2, a − δ/2)`` and ``(a' + δ/2, a' − δ/2)``, both answers depend on their ideal point
    in the same way. Given that the two answers differ it cancels:
    ``Pr[y₁ = +1, y₂ = −1 | y₁ ≠ y₂] = σ(2β(a − a')ᵀMδ)``, a logistic regression on M.
    More generally any few answers of one person whose δ's cancel with signs ±1 will do
    (`users.conditioning`). No radius, no population: two answers per person are enough, in any number of dimensions.

    Parameters
    ----------
    items : (N, d) array, data frame or Items
        Shared, not copied, by `clone`; ids as in `PopulationMetric`. May be None if pairs are given as vectors.
    loss : "logistic"
        Conditioning is exact for logistic answers only; others are refused.
    beta : float
        Sharpness of the answers; only βM is identified.
    max_mismatch : float
        How far the δ's of a set may be from canceling, as a share of their length. 1e−5 allows for rounding. Larger
        values use near-parallelograms, which shrinks M a little: by 1 to 3 % at 0.2 and 5 to 10 % at 0.4 in simulations
        (`python -m benchmarks matched`).
    largest_set : {2, 3, 4}
        Largest number of answers in a set.
    constraint : {"psd", "symmetric"}
        "symmetric" lets M have negative eigenvalues: what the answers say, whether or not it is a metric.
    ridge : float
        τ of a penalty ½τ‖M‖² on the log-likelihood. Zero: maximum likelihood.
    center : (d,) array or None
        Where people are thought to be on average; matters for near-parallelograms only. None: the mean of the items
        that were asked about.
    tol : float
        Certified gap in mean loss at which to stop.
    max_iter : int
    memory : int or str, optional
        Limit for a fit to scanned comparisons, in bytes or such as '2GB'; None: half of what is free. See
        `memory_plan`.
    engine : optional
        Where sums over people are taken, as for `PopulationMetric`: this machine, or a Dask cluster.
    tolerance : float, optional
        The old name of `max_mismatch`; deprecated.

    Attributes
    ----------
    metric_, components_, users_, objective_, solution_
        See `CrowdMetric`; the loss is the conditional one, a mean over sets. With ``constraint="symmetric"`` `metric_`
        may have negative eigenvalues, which `components_` leaves out.
    metric_draws_ : (n, p) array
        svec of metrics drawn from the posterior (`crowdmetric.solvers.posterior`), from which intervals are made.
    standard_errors_ : (d, d) array
        Standard deviations of the entries of M over these draws; infinite where the answers do not reach.
    metric_covariance_ : (p, p) array
        Covariance of the draws.
    symmetric_metric_, symmetric_covariance_ : (d, d), (p, p) array
        The fit without the PSD constraint, and the covariance of its svec: clustered by person where somebody's sets
        are more than one, or weighted; variances are infinite where the answers do not reach.
    n_sets_, n_used_sets_ : int
        Conditioning sets found, and those whose answers came out as one of their two outcomes (for a pair: differ).
    n_matched_people_, n_used_people_ : int
        People with a set, and with one that was used.
    mismatch_ : float
        Mean mismatch of the sets used.
    ridge_ : float
        τ as used. It is never exactly zero, so directions that the answers do not reach are determined, too.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric import MatchedMetric
    >>> from crowdmetric.design import matched_from_generator
    >>> from crowdmetric.simulate import answer
    >>> ask = matched_from_generator(3, people=4000, seed=0)
    >>> M = np.diag([2.0, 1.0, 0.5])
    >>> ideal = np.random.default_rng(0).standard_normal((4000, 3))
    >>> y = answer(ask.items, ask.pairs, ideal[ask.person], M, seed=1)
    >>> model = MatchedMetric(ask.items).fit(ask.pairs, y, users=ask.person)
    >>> bool(np.all(np.abs(model.metric_ - M) < 4 * model.standard_errors_))
    True
    """

    def __init__(
        self,
        items: ArrayLike | None = None,
        *,
        loss: str | Loss = "logistic",
        beta: float = 1.0,
        max_mismatch: float = 1e-5,
        largest_set: int = 4,
        constraint: str = "psd",
        ridge: float = 0.0,
        center: ArrayLike | None = None,
        tol: float = 1e-8,
        max_iter: int = 200,
        memory: int | str | None = None,
        engine: Any = None,
        tolerance: float | None = None,
    ) -> None:
        self.items = items
        self.loss = loss
        self.beta = beta
        self.max_mismatch = max_mismatch
        self.largest_set = largest_set
        self.constraint = constraint
        self.ridge = ridge
        self.center = center
        self.tol = tol
        self.max_iter = max_iter
        self.memory = memory
        self.engine = engine
        self.tolerance = tolerance

    def fit(self, pairs: Any, y: Any = None, users: Any = None, sample_weight: Any = None) -> Self:
        """Learn the metric.

        Parameters
        ----------
        pairs : data frame, Comparisons, ComparisonScan, (T, 2) int or str array, (T, 2, d) array
            As in `PopulationMetric.fit`. A scan (`Comparisons.scan_parquet`) is
            read in chunks, and `users_` is then empty.
        y : (T,) array
            −1 left preferred, +1 right preferred.
        users : (T,) array
            Who answered; None: one person.
        sample_weight : (T,) array
            A set weighs as much as its lightest answer.
        """
        self._check_parameters()
        crowd, origin = self._crowd(pairs, y, users, sample_weight)
        found = crowd.found
        self.n_sets_, self.n_used_sets_ = found.sets, found.used_sets
        self.n_matched_people_, self.n_used_people_ = found.matched_people, found.used_people
        if not self.n_used_sets_:
            raise NotIdentifiedError(self._why_nothing(found))
        self.mismatch_ = found.mismatch / found.used_sets
        result = solve_logistic(
            crowd, psd=self.constraint == "psd", ridge=float(self.ridge), tolerance=self.tol,
            max_iterations=self.max_iter,
        )  # fmt: skip
        if len(result.certain) and not self.ridge:
            raise NotIdentifiedError(self._why_certain(result))
        self.ridge_ = result.ridge
        self.symmetric_metric_ = result.symmetric
        self._forget_uncertainty()
        self.made_of_ = origin
        if origin == ASKED:
            self.symmetric_covariance_ = _covariance(crowd, result)
            self._describe_uncertainty(crowd, result)
        self._finish(result.metric, crowd.users, None, self._solution(result, crowd))
        return self

    def _forget_uncertainty(self) -> None:
        """Remove what an earlier fit knew of how sure it was: the next one may know less."""
        for name in ("symmetric_covariance_", "metric_draws_", "metric_covariance_", "standard_errors_"):
            self.__dict__.pop(name, None)

    def _describe_uncertainty(self, crowd: MatchedCrowd, result: LogisticResult) -> None:
        """Set draws from the posterior, and what follows from them."""
        p = result.information.shape[0]
        covariance = self.symmetric_covariance_
        blind = ~np.isfinite(np.diag(covariance))
        if self.constraint == "psd":
            draws = draw_around(*_around(crowd, result, float(self.ridge)), svec(result.metric))
        # entries that the answers do not reach may have any value, so they cannot be drawn
        else:
            seen = covariance.copy()
            seen[blind, blind] = 0.0
            rng, count = np.random.default_rng(0), number_of_draws(crowd.dimension)
            draws = rng.multivariate_normal(svec(result.symmetric), seen, size=count, method="eigh")
            draws[:, blind] = np.nan
        if np.all(np.isfinite(draws)):
            self.metric_draws_ = draws
        self.metric_covariance_ = np.cov(draws.T).reshape(p, p)
        errors = draws.std(axis=0, ddof=1)
        self.standard_errors_ = smat(np.where(blind, np.inf, errors))

    def _crowd(self, pairs: Any, y: Any, users: Any, sample_weight: Any) -> tuple[MatchedCrowd, str]:
        """Return the matched questions of rows in memory or of a scan within its limit, and how pairs were made."""
        options, loss = MatchedOptions(self._max_mismatch(), self.largest_set, float(self.beta)), self._loss()
        engine = summing_engine(self.engine, "MatchedMetric")
        if isinstance(pairs, ComparisonScan):
            check_scan_alone(y, users, sample_weight)
            items = check_scan(pairs, self.items, loss)
            cache = ChunkCache(self.memory_plan(pairs).room)
            origin = Comparisons.from_scan(pairs, MOST_PEOPLE).origin
            return matched_on_disk(pairs, items, options, self._center(items.shape[1]), cache, engine), origin
        rows = read_rows(pairs, y, users, sample_weight, self.items, loss)
        crowd = matched_in_memory(rows, options, self._center(rows.items.shape[1]), engine)
        return crowd, origin_of(pairs, rows)

    def memory_plan(self, scan: ComparisonScan) -> MemoryPlan:
        """Return how much memory a fit to a scan will take, before it starts; a limit that is too low is an error."""
        N, d = check_items(self.items).shape
        p = degrees_of_freedom(d)
        chunk_rows = max((chunk.rows for chunk in scan.chunks), default=0)
        work = 8 * N * d + MATRICES * 8 * p * p + TEMPORARIES * 8 * CHUNK + chunk_rows * bytes_to_lay_out(d)
        keep = len(scan) * BYTES_OF_SETS
        return MemoryPlan.of_work(scan.n_users, len(scan), work, read_memory(self.memory), "fit", keep=keep)

    def place(
        self, pairs: Any, y: Any = None, users: Any = None, *, ideal_bound: float | None = None
    ) -> IdealPointMetric:
        """Return a model that keeps the learned metric and places people, so it can predict their answers.

        This assumes what `fit` does not: that pseudo-ideal points lie in a ball, of radius `ideal_bound` or one chosen
        from the answers.
        """
        model = IdealPointMetric(
            self.items, beta=self.beta, fixed_metric=self.get_mahalanobis_matrix(), ideal_bound=ideal_bound
        )
        return model.fit(pairs, y, users=users)

    def _points_of(self, people: NDArray[Any] | None) -> NoReturn:
        raise DataError(
            "MatchedMetric learns the metric without locating anybody, so it cannot predict answers; "
            "place people first: model.place(pairs, y, users).predict(...)"
        )

    def _check_parameters(self) -> None:
        if self._loss().name != "logistic":
            raise DataError(
                f"loss={self._loss().name!r} cannot be conditioned on: ideal points cancel for logistic answers only; "
                "use loss='logistic', or another estimator"
            )
        one_of(self.constraint, "constraint", CONSTRAINTS)
        if isinstance(self.largest_set, bool) or self.largest_set not in (2, 3, 4):
            raise DataError(f"largest_set={self.largest_set!r} is not 2, 3 or 4")
        if self.tolerance is not None:
            warnings.warn(
                "MatchedMetric(tolerance=…) is deprecated and goes away in 0.2: it was easily taken for tol; "
                "write max_mismatch=…",
                FutureWarning,
                stacklevel=3,
            )
        if positive_number(self._max_mismatch(), "max_mismatch") >= 1:
            raise DataError(
                f"max_mismatch={self._max_mismatch()!r} accepts any two questions as parallel; give less than 1"
            )
        if not isinstance(self.ridge, int | float) or self.ridge != 0:
            positive_number(self.ridge, "ridge")
        check_options(self.tol, self.max_iter, 2, 0)

    def _max_mismatch(self) -> float:
        """Return the largest mismatch of a set, by whichever of its two names it was given."""
        return self.max_mismatch if self.tolerance is None else self.tolerance

    def _center(self, d: int) -> Array | None:
        if self.center is None:
            return None
        center = np.asarray(self.center, dtype=np.float64)
        if center.shape != (d,) or not np.all(np.isfinite(center)):
            raise DataError(f"center has shape {center.shape}, expected ({d},) finite numbers, a point among the items")
        return center

    def _why_nothing(self, sets: Found) -> str:
        if sets.sets:
            return (
                f"{self.n_matched_people_} people have matched questions, but nobody answered them differently, and "
                "only answers that differ are informative; ask more people, or about items that lie further apart"
            )
        cycles = (
            f"; {sets.cycles} sets are repeated questions or cycles (a or b? b or c? c or a?), whose answers are "
            "equally likely either way round under any metric"
            if sets.cycles
            else ""
        )
        return (
            f"nobody was asked two parallel questions (max_mismatch={self._max_mismatch():g}){cycles}. Ask matched "
            "questions (crowdmetric.design finds them among your items), or raise max_mismatch for near-parallelograms"
        )

    def _why_certain(self, result: LogisticResult) -> str:
        return (
            f"{self.n_used_sets_} informative sets are too few: along {describe_direction(result.certain[0])} the "
            "answers can be explained with certainty, so the likelihood has no maximum; ask more people, or "
            "give ridge=1 to shrink what the answers leave open"
        )

    def _solution(self, result: LogisticResult, crowd: MatchedCrowd) -> Solution:
        """Return how the fit ended, with a warning for every problem."""
        status = [
            f"{self.n_used_people_:,} of {crowd.n_users:,} people were used: {self.n_matched_people_:,} were asked "
            f"matched questions, and {self.n_used_sets_:,} of their {self.n_sets_:,} sets of answers are informative."
        ]
        unsearched = crowd.found.unsearched
        if unsearched and self.largest_set > 2:
            status.append(f"{unsearched:,} people answered too many questions to search for all sets of more than two.")
        if len(result.unseen):
            status.append(
                f"{len(result.unseen)} of the {result.information.shape[0]} degrees of freedom of the metric are not "
                f"reached by these questions and rest on least norm, such as {describe_direction(result.unseen[0])}."
            )
            warnings.warn(status[-1], NotIdentifiedWarning, stacklevel=3)
        elif self.made_of_ != ASKED:
            status.append(cut_sentence(self.made_of_))
            warnings.warn(cut_sentence(self.made_of_, clause=True), NotIdentifiedWarning, stacklevel=3)
        elif not result.symmetric_exists:
            status.append("There are no standard errors: without the constraint the likelihood has no maximum.")
        else:
            status.append(self._vagueness(result))
        if not result.converged:
            status.append(
                f"Stopped after {result.iterations} iterations with a certified gap of {result.gap:.1e}, short of "
                f"tol={self.tol:g}; raise max_iter, or tol if this is close enough."
            )
            warnings.warn(status[-1], ConvergenceWarning, stacklevel=3)
        sentences = " ".join(["Solved." if result.converged else "Not solved.", *status])
        return Solution(sentences, result.converged, result.objective, result.gap, result.iterations, result.seconds)

    def _vagueness(self, result: LogisticResult) -> str:
        """Return the total relative standard error in words, with a warning if it exceeds the metric itself."""
        size = float(np.linalg.norm(result.symmetric))
        error = float(np.sqrt(np.sum(np.diag(self.symmetric_covariance_)))) / size if size > 0 else np.inf
        sentence = f"Standard errors add up to a relative error of {error:.2g}."
        if error > TOO_VAGUE:
            sentence = (
                f"The standard errors add up to {error:.2g} times the metric, so these answers say next to nothing "
                "about it; ask more people, or ask about items that lie further apart."
            )
            warnings.warn(sentence, NotIdentifiedWarning, stacklevel=4)
        return sentence


def _around(crowd: MatchedCrowd, result: LogisticResult, ridge: float) -> tuple[Array, Array]:
    """Return the center (p,) and the precision (p, p) of a quadratic log-likelihood: at the symmetric fit if it exists.

    The precision is the information H, or ``H (Σ_k g_k g_kᵀ)⁻¹ H`` where somebody's sets are more than one.
    """
    if result.symmetric_exists:
        center, H = svec(result.symmetric), result.information
    else:
        at = svec(result.metric)
        H = crowd.hessian(at)
        center = at - np.linalg.lstsq(H + ridge * np.eye(at.size), crowd.gradient(at) + ridge * at, rcond=1e-10)[0]
    if crowd.found.crowded:
        H = H @ np.linalg.pinv(crowd.squared_scores(center), rcond=1e-10, hermitian=True) @ H
    return center, H + ridge * np.eye(len(center))


def _covariance(crowd: MatchedCrowd, result: LogisticResult) -> Array:
    """Return the covariance (p, p) of svec of the symmetric fit, with infinite variances where answers do not reach.

    Inverse information ``H⁻¹`` where every set is a person of their own and of weight one; otherwise the sandwich
    ``H⁻¹ (Σ_k g_k g_kᵀ) H⁻¹``.
    """
    p = result.information.shape[0]
    if len(result.unseen) or not result.symmetric_exists:
        blind = np.any(np.abs(result.unseen) > 1e-6, axis=0) if len(result.unseen) else np.ones(p, dtype=bool)
    else:
        blind = np.zeros(p, dtype=bool)
    inverse = np.linalg.pinv(result.information + result.ridge * np.eye(p), rcond=1e-13, hermitian=True)
    scattered = crowd.found.crowded == 0
    covariance = inverse if scattered else inverse @ crowd.squared_scores(svec(result.symmetric)) @ inverse
    covariance[blind] = covariance[:, blind] = 0.0
    np.fill_diagonal(covariance, np.where(blind, np.inf, np.maximum(np.diag(covariance), 0.0)))
    return covariance
