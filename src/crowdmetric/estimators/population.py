"""`PopulationMetric`: people drawn from one population and integrated out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.comparisons import Comparisons
from crowdmetric.engines.local import LocalEngine
from crowdmetric.engines.torch_engine import TorchEngine
from crowdmetric.errors import ConvergenceWarning, CrowdmetricWarning, DataError, NotIdentifiedWarning
from crowdmetric.estimators.base import CrowdMetric
from crowdmetric.estimators.checkpoints import Checkpoint, fingerprint
from crowdmetric.estimators.inputs import Rows, alone, check_items, check_options, positive_number, read_rows
from crowdmetric.estimators.low_rank import DEFAULT_RANK, LARGEST_SCORING, fit_low_rank_law
from crowdmetric.estimators.memory import MemoryPlan, read_memory
from crowdmetric.estimators.passes import Passes
from crowdmetric.estimators.population_chunks import Crowd, Kept, crowd_in_memory, crowd_on_disk
from crowdmetric.estimators.population_problem import PopulationProblem
from crowdmetric.estimators.units import Units
from crowdmetric.losses import Loss
from crowdmetric.solvers.charts import Chart
from crowdmetric.solvers.population import (
    PopulationFit,
    fit_with_evidence,
    observed_information,
    scale_correction,
    with_ridge,
)
from crowdmetric.solvers.solution import Solution
from crowdmetric.symmetric import degrees_of_freedom, smat, svec
from crowdmetric.tables import ComparisonScan
from crowdmetric.users.integrals import mean_probability
from crowdmetric.users.item_effects import WithItemEffects, check_item_effects
from crowdmetric.users.population import LARGEST_GRID, STRUCTURES, Law

__all__ = ["PopulationMetric"]

Array = NDArray[Any]

INTEGRATIONS = ("auto", "grid", "propagation")
# With fewer people than this a parameter, outer products of scores are too noisy an information.
PEOPLE_A_PARAMETER = 20
# Parameters that do not change where a fit ends, or not what it is.
NOT_THE_FIT = {"items", "engine", "loss", "max_iter", "jobs", "memory", "checkpoint", "progress", "warm_start"}
# Passes over all people that a fit to many of them usually takes, to say how long it may take.
USUAL_PASSES = 15
# The same where only gradients are used.
USUAL_GRADIENTS = 60
# Decrease of the loss, relative, below which single precision sees only its own rounding.
SINGLE_TOLERANCE = 1e-6
# How far a warm start is drawn to the identity.
LIFT = 0.05
# An approximate integral may move no entry of the metric by more standard errors than this.
GOOD_ENOUGH = 0.1
# Starts agree where their log-likelihoods differ by less, in nats; how well that must be known.
AGREEMENT, AGREEMENT_KNOWN = 0.05, 0.005
# A standard error of log scale beyond which the scale is not known.
LOOSE_SCALE = 0.5
# Where people differ this many times more than answers scatter, answers are as good as noiseless.
NOISELESS = 20.0
# A mean eigenvalue, for items of size one, that is as good as none.
NO_METRIC = 0.02
# Questions look chosen for people beyond this z-score.
BIASED = 4.0


class PopulationMetric(CrowdMetric):
    """Learn a metric from people drawn from one population, without knowing anybody's place.

    Everybody's ideal point is drawn from one Gaussian law and integrated out, so that a few answers a person, even
    one, teach the metric: no bound on people, no subspaces, nothing taken from the truth. See
    `crowdmetric.users.population` for the likelihood and docs/algorithms.md for the reasoning.

    Parameters
    ----------
    items : (N, d) array
        Item vectors; shared, not copied.
    loss : {'logistic', 'probit'}, default 'logistic'
        How answers scatter around the model's ψ.
    beta : float, default 1.0
        Sharpness of the answers. Only βM is identified: a larger β gives a smaller metric of the same shape.
    covariance : {'isotropic', 'free'}, default 'isotropic'
        Ideal points N(u₀, s²I) or N(u₀, Σ_u). Free when people form clusters or stretch along some features.
    rank : int, optional
        Largest rank of the metric; None: d, or 32 where the metric has more than 3,000 parameters (d > 76): there, and
        in single precision, only gradients are used, without ridge or standard errors.
    constraint : {'psd', 'symmetric'}, default 'psd'
        A metric, or any symmetric matrix: a crowd that fits only the latter has no ideal points.
    ridge : 'evidence', float or None, default 'evidence'
        Draws the metric's shape towards the identity: ½ ridge ‖M/c − I‖², c = tr M / d. The strength is found from
        the data, given, or none. Found from the data under a free covariance, it comes with another that draws the
        size c towards zero, where people have linear utilities and no metric (`crowdmetric.solvers.population`).
    integration : {'auto', 'grid', 'propagation'}, default 'auto'
        How people are integrated out. A grid is exact and slow beyond one dimension (three at most); expectation
        propagation is fast in any. Auto: propagation where a person's answers span more than a line, checked
        against a slow method, and a grid instead where the difference would show and the answers span planes.
    uncertainty : bool, default True
        Whether to find standard errors, which takes a second fit without constraints.
    starts : int, default 2
        From how many points to begin; the best end is kept, and a disagreement is said.
    tol : float, default 1e-4
        Stop when a step would gain less log-likelihood (in nats, over all people).
    max_iter : int, default 200
    jobs : int, optional
        Threads; None: one a core. Results do not depend on it.
    engine : optional
        Where sums over people are taken: None for this machine, `crowdmetric.engines.dask_engine.DaskEngine` for a
        cluster, `crowdmetric.engines.torch_engine.TorchEngine` for a graphics card.
    random_state : int, default 0
        Of the starts after the first.
    memory : int or str, optional
        Limit for a fit to scanned comparisons, in bytes or such as '2GB'; None: half of what is free. See
        `memory_plan`.
    checkpoint : path, optional
        File in which the fit is saved after every step over all people. If it is there, the fit goes on from it, to
        exactly the same end; it must be of the same answers and options.
    item_effects : bool, default False
        Whether items have utilities of their own beside what features say, ``b_i ~ N(0, ω²)`` with ω from the evidence
        (`crowdmetric.users.item_effects`): what is popular for other reasons is then not put into the metric. For at
        most 500 items, given by row numbers, with answers in memory.
    warm_start : bool, default False
        Whether a second `fit` begins where the first ended, with its people and new ones, instead of at `starts`.
    progress : function of a str, optional
        Told after every pass over all people how fast it was and how long it may take.

    Attributes
    ----------
    metric_, components_, users_, pseudo_ideal_points_, ideal_points_, objective_, solution_
        See `CrowdMetric`. People are at their posterior mean.
    scale_, shape_ : float, (d, d) array
        ``metric_ = scale_ × shape_``, the shape with trace d. The scale is known only through β and the noise.
    scale_error_, scale_correction_ : float
        Standard error of log scale; what was added to it for the noise in the shape (`solvers.population`).
    standard_errors_ : (d, d) array
        Of the entries of the metric.
    symmetric_metric_ : (d, d) array
        The fit without the PSD constraint, around which intervals are built.
    metric_covariance_ : (p, p) array
        Covariance of svec of the symmetric fit.
    ideal_mean_, ideal_covariance_ : (d,), (d, d)
        u₀ and Σ_u (least norm where the metric is singular; under 'free' only MΣ_uM is well determined).
    pseudo_ideal_mean_, pseudo_ideal_covariance_ : (d,), (d, d)
        The law of ``v = −2Mu``, which is what the likelihood sees.
    pseudo_ideal_covariances_ : (K, d, d) array or None
        Of everybody's v given their answers, where that fits in memory; predictions take their average where not.
    ridge_, size_ridge_, determined_ : float
        The strengths used on shape and size, and how many of the p − 1 shape parameters the answers determine.
    item_effects_, item_effect_spread_ : (N,) array, float
        With `item_effects`: b, positive where an item is liked better than its features say, zero where nobody has
        answered about it; and ω. Predictions about items given by row number use them.
    log_likelihood_ : float
        Of all answers, at its maximum (before `scale_correction_`).
    approximation_error_, integration_ : float, str
        How far an exact integral would move the metric, in standard errors (the worst entry); how it was done.
    spread_ : float
        How much people differ in ψ (root mean square), in units of the noise of an answer.
    question_bias_ : float
        z-score of the test that questions were chosen near people's ideal points; NaN where nobody can tell.

    Examples
    --------
    >>> from crowdmetric import PopulationMetric
    >>> from crowdmetric.simulate import simulate_crowd
    >>> from crowdmetric.symmetric import shape_error
    >>> crowd = simulate_crowd(3, None, None, users=3000, comparisons=2, seed=0)
    >>> model = PopulationMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
    >>> shape_error(model.metric_, crowd.metric) < 0.15
    True
    """

    def __init__(
        self,
        items: ArrayLike | None = None,
        *,
        loss: str | Loss = "logistic",
        beta: float = 1.0,
        covariance: str = "isotropic",
        rank: int | None = None,
        constraint: str = "psd",
        ridge: str | float | None = "evidence",
        integration: str = "auto",
        uncertainty: bool = True,
        starts: int = 2,
        tol: float = 1e-4,
        max_iter: int = 200,
        jobs: int | None = None,
        engine: Any = None,
        random_state: int = 0,
        memory: int | str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        item_effects: bool = False,
        warm_start: bool = False,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.items = items
        self.loss = loss
        self.beta = beta
        self.covariance = covariance
        self.rank = rank
        self.constraint = constraint
        self.ridge = ridge
        self.integration = integration
        self.uncertainty = uncertainty
        self.starts = starts
        self.tol = tol
        self.max_iter = max_iter
        self.jobs = jobs
        self.engine = engine
        self.random_state = random_state
        self.memory = memory
        self.checkpoint = checkpoint
        self.item_effects = item_effects
        self.warm_start = warm_start
        self.progress = progress

    def fit(self, pairs: Any, y: Any = None, users: Any = None, sample_weight: Any = None) -> Self:
        """Learn the metric and the law of people.

        Parameters
        ----------
        pairs : (T, 2) int array, (T, 2, d) array, Comparisons or ComparisonScan
            Row numbers into items, or the vectors themselves, left and right. From a scan (`Comparisons.scan_parquet`)
            answers are read in chunks, and nobody's place is kept: `users_` is then empty, and `crowdmetric.locate`
            finds the places that are needed.
        y : (T,) array
            −1 left preferred, +1 right preferred.
        users : (T,) array
            Who answered; None: one person.
        sample_weight : (T,) array
            How often an answer counts; a tie is two opposite answers of half a weight.
        """
        clock = perf_counter()
        loss, n_items = self._loss(), 0
        if isinstance(pairs, ComparisonScan) and not self._by_gradients(check_items(self.items).shape[1]):
            alone(y, users, sample_weight)
            crowd = self._scanned(pairs, loss)
        else:
            rows = read_rows(pairs, y, users, sample_weight, self.items, loss)
            self._check(loss, rows.items.shape[1])
            if self._by_gradients(rows.items.shape[1]):
                return self._fit_low_rank(rows, Units.of(rows.items, rows.pairs), loss, clock)
            n_items = self._effects_of(pairs, rows)
            larger = self.engine.blocks if isinstance(self.engine, TorchEngine) else 1
            crowd = crowd_in_memory(rows, larger, shown=n_items > 0)
        largest_grid = LARGEST_GRID if self.integration == "grid" else 1
        engine = self.engine or LocalEngine(self.jobs)
        structure = STRUCTURES[self.covariance]
        if n_items:
            structure = WithItemEffects(structure, n_items)
        problem = PopulationProblem.of(crowd, structure, loss, engine, largest_grid)
        problem = self._watched(problem)
        fit = self._best_of_starts(problem, self._previous(problem, crowd))
        problem, fit = self._check_integration(problem, fit)
        fit = self._corrected(problem, fit)
        self._describe_metric(problem, fit, crowd.units)
        points = self._describe_people(problem, fit, crowd)
        solution = self._solution(fit, crowd.weight, clock)
        nobody = np.empty(0, dtype=np.int64)
        self._finish(self.scale_ * self.shape_, nobody if crowd.users is None else crowd.users, points, solution)
        return self

    def _effects_of(self, pairs: Any, rows: Rows) -> int:
        """Return how many items have a utility of their own."""
        if not self.item_effects:
            return 0
        if isinstance(self.engine, TorchEngine):
            raise DataError("item_effects is not for a graphics card; leave out engine or item_effects")
        if not isinstance(pairs, Comparisons) and np.ndim(pairs) != 2:
            raise DataError("item_effects needs to know which items are the same; give pairs as rows (T, 2) of items")
        return check_item_effects(rows.items.shape[0])

    def _fit_low_rank(self, rows: Rows, units: Units, loss: Loss, clock: float) -> Self:
        """Fit by gradients alone: many features, or single precision; no ridge, no standard errors."""
        d = rows.items.shape[1]
        for name, value, only in (("covariance", self.covariance, "isotropic"), ("constraint", self.constraint, "psd")):
            if value != only:
                raise DataError(
                    f"{name}={value!r} needs outer products of scores, which {d} features or float32 rule out; "
                    f"use {name}={only!r}, or reduce the items first (crowdmetric.preprocess)"
                )
        for name, asked in (
            ("checkpoint", self.checkpoint is not None),
            ("warm_start", self.warm_start),
            ("item_effects", self.item_effects),
        ):
            if asked:
                raise DataError(f"{name} is for fits by scoring, which {d} features or float32 rule out; leave it out")
        rank = self.rank or min(d, DEFAULT_RANK)
        fit = fit_low_rank_law(
            replace(rows.jointly(), items=units.inside(rows.items)), rank, loss,
            engine=self.engine if isinstance(self.engine, TorchEngine) else None, max_iterations=self.max_iter,
            tolerance=SINGLE_TOLERANCE if self._is_single() else 1e-8, after_step=self._told(rows.users.size),
        )  # fmt: skip
        law, result = units.law_outside(fit.law), fit.result
        self.scale_ = float(np.trace(law.metric)) / d
        self.shape_ = law.metric / self.scale_ if self.scale_ > 0 else law.metric
        self.log_likelihood_, self.starts_ = result.value, np.array([result.value])
        self.ridge_ = self.size_ridge_ = 0.0
        self.scale_error_ = self.question_bias_ = self.approximation_error_ = self.spread_ = float("nan")
        self._describe_law(law, float(np.exp(fit.log_spread)) * units.size)
        self.pseudo_ideal_covariances_: Array | None = None
        done = result.converged
        status = f"Solved by {result.passes} passes" if done else f"Stopped after {result.passes} passes"
        status += f" for a metric of rank {rank}; standard errors were not found."
        if not done:
            warnings.warn("the fit has not converged; raise max_iter", ConvergenceWarning, stacklevel=3)
        objective, seconds = -result.value / float(rows.weight.sum()), perf_counter() - clock
        solution = Solution(status, done, objective, float("nan"), result.passes, seconds)
        points = fit.points / units.size - 2.0 * units.centre @ law.metric
        self._finish(self.scale_ * self.shape_, rows.users, points, solution)
        return self

    def _told(self, people: int) -> Callable[[int, float], None] | None:
        """Return what hears of the steps of a fit by gradients: how many passes were made, and the value."""
        if self.progress is None:
            return None
        passes, made, clock = Passes(self.progress, people, USUAL_GRADIENTS), 0, perf_counter()

        def tell(so_far: int, value: float) -> None:
            nonlocal made, clock
            now = perf_counter()
            passes(now - clock, so_far - made)
            made, clock = so_far, now

        return tell

    def _describe_law(self, law: Law, spread: float | None) -> None:
        """Set what is known of the population, s being given where it is isotropic."""
        self.pseudo_ideal_mean_, self.pseudo_ideal_covariance_ = law.mean, law.covariance
        for name in ("item_effects_", "item_effect_spread_"):  # of an earlier fit
            if hasattr(self, name):
                delattr(self, name)
        inverse = np.linalg.pinv(law.metric, rcond=1e-6, hermitian=True)
        self.ideal_mean_ = -0.5 * inverse @ law.mean
        if spread is not None:
            self.ideal_covariance_ = spread**2 * np.eye(law.mean.size)
        else:
            self.ideal_covariance_ = 0.25 * inverse @ law.covariance @ inverse

    def _by_gradients(self, d: int) -> bool:
        """Return whether outer products of scores are out of the question, for their size or their precision."""
        return self._is_single() or degrees_of_freedom(d) > LARGEST_SCORING

    def _is_single(self) -> bool:
        return isinstance(self.engine, TorchEngine) and not self.engine.is_double

    def _scanned(self, scan: ComparisonScan, loss: Loss) -> Crowd:
        """Return the people of a scan, of whom as many are kept in memory as its limit allows."""
        self._check(loss, check_items(self.items).shape[1])
        if self.item_effects:
            raise DataError(
                "item_effects is not for scanned comparisons; read them into memory with Comparisons.from_scan, or "
                "leave it out"
            )
        return crowd_on_disk(scan, self.items, loss, Kept(self.memory_plan(scan).room))

    def memory_plan(self, scan: ComparisonScan) -> MemoryPlan:
        """Return how much memory a fit to a scan will take, before it starts; a limit that is too low is an error."""
        limit = read_memory(self.memory)
        N, d = check_items(self.items).shape
        theta = d * min(self.rank or d, d) + d + (d * d if self.covariance == "free" else 1)
        jobs = LocalEngine(self.jobs).jobs
        chunk_rows = max((chunk.rows for chunk in scan.chunks), default=0)
        return MemoryPlan.of(scan.n_users, len(scan), N, d, theta, jobs, limit, chunk_rows)

    def _check(self, loss: Loss, d: int) -> None:
        if not (loss.needs_binary and loss.is_smooth):
            raise DataError(f"loss={loss.name!r} is not a likelihood of binary answers; use 'logistic' or 'probit'")
        for name, known in (
            ("covariance", tuple(STRUCTURES)),
            ("constraint", ("psd", "symmetric")),
            ("integration", INTEGRATIONS),
        ):
            if getattr(self, name) not in known:
                raise DataError(f"{name}={getattr(self, name)!r} is unknown; use {' or '.join(map(repr, known))}")
        if self.rank is not None and (isinstance(self.rank, bool) or not 1 <= self.rank <= d):
            raise DataError(f"rank={self.rank!r} is not between 1 and the {d} features of the items")
        if self.rank is not None and self.constraint == "symmetric":
            raise DataError(f"rank={self.rank} has no use with constraint='symmetric'; leave one of them out")
        if isinstance(self.ridge, str) and self.ridge != "evidence":
            raise DataError(f"ridge={self.ridge!r} is unknown; use 'evidence', a number or None")
        if not isinstance(self.ridge, str) and self.ridge not in (None, 0):
            positive_number(self.ridge, "ridge")
        if self.item_effects not in (True, False):
            raise DataError(f"item_effects={self.item_effects!r} is unknown; use True or False")
        if self.item_effects and self.ridge != "evidence":
            raise DataError(
                f"item_effects are shrunk by the evidence, which ridge={self.ridge!r} rules out; use ridge='evidence'"
            )
        check_options(self.tol, self.max_iter, 2, self.random_state)
        if isinstance(self.starts, bool) or not isinstance(self.starts, int) or self.starts < 1:
            raise DataError(f"starts={self.starts!r} is not a whole number of at least 1")

    def _watched(self, problem: PopulationProblem) -> PopulationProblem:
        """Return the problem with a checkpoint, and with somebody who is told how the fit is coming along."""
        checkpoint = after_pass = None
        if self.checkpoint is not None:
            options = {name: value for name, value in self.get_params(deep=False).items() if name not in NOT_THE_FIT}
            options["loss"] = self._loss().name
            checkpoint = Checkpoint(self.checkpoint, fingerprint([sorted(options.items()), problem.digest()]))
        if self.progress is not None:
            after_pass = Passes(self.progress, problem.n_people, USUAL_PASSES)
        return replace(problem, checkpoint=checkpoint, after_pass=after_pass)

    def _chart(self, problem: PopulationProblem) -> Chart:
        rank = None if self.constraint == "symmetric" else self.rank or problem.d
        return Chart(problem.d, rank, self.covariance == "free", problem.n_items)

    def _previous(self, problem: PopulationProblem, crowd: Crowd) -> Array | None:
        """Return where an earlier fit ended, in the units of these people; None where it is not to be used."""
        if not (self.warm_start and hasattr(self, "pseudo_ideal_mean_")):
            return None
        d = crowd.d
        if self.metric_.shape[0] != d:
            raise DataError(
                f"warm_start has a metric of {self.metric_.shape[0]} features to go on from, but items have {d}; use "
                "the items of the earlier fit, or warm_start=False"
            )
        law = crowd.units.law_inside(Law(self.metric_, self.pseudo_ideal_mean_, self.pseudo_ideal_covariance_))
        # a direction that the metric has lost has no gradient, and could never be found again
        metric = (1.0 - LIFT) * law.metric + LIFT * np.trace(law.metric) / d * np.eye(d)
        spread = float(np.sqrt(np.trace(self.ideal_covariance_) / d)) / crowd.units.size
        free = self.covariance == "free"
        effects = self._item_effects(problem.n_items)
        return self._chart(problem).theta(
            metric, law.mean, law.covariance if free else np.array([np.log(spread)]), effects
        )

    def _best_of_starts(self, problem: PopulationProblem, previous: Array | None) -> PopulationFit:
        """Fit from every start, all under the ridge of the first, and return the best end.

        With many people the starts are compared, and the ridge is found, on some of them; the fit to all then begins
        where those ended. A warm start has one: where the earlier fit ended.
        """
        chart, saved = self._chart(problem), problem.checkpoint
        some = problem.thinned()
        state = None if saved is None else saved.state("starts")
        if saved is None or state is None:
            best = self._from_starts(some, chart, previous)
            state = best.result.state
            ridges = _ridges(best)
            if saved is not None:
                saved.save("starts", state, values=self.starts_, **ridges)
            if some is problem:
                return best
        else:
            self.starts_ = saved.value("values")
            ridges = {name: float(saved.value(name)) for name in ("ridge", "size_ridge", "item_ridge")}
        start = state if some is problem else state.point
        return problem.fit("fit", chart, start, **ridges, **self._options())

    def _from_starts(self, some: PopulationProblem, chart: Chart, previous: Array | None) -> PopulationFit:
        options = self._options()
        rng = np.random.default_rng(self.random_state)
        given = 0.0 if self.ridge is None or isinstance(self.ridge, str) else float(self.ridge)
        ends: list[PopulationFit] = []
        for number in range(self.starts if previous is None else 1):
            start = _start(chart, rng if number else None) if previous is None else previous
            if self.ridge == "evidence" and not ends:
                ends.append(fit_with_evidence(some.total, chart, start, take_up=some.take_up, **options))
            elif not ends:
                ends.append(some.fit("start", chart, start, ridge=given, **options))
            else:
                ends.append(self._another_end(some, chart, start, ends))
        self.starts_ = np.array([-end.result.at.value for end in ends])
        return ends[int(np.argmax(self.starts_))]

    def _another_end(
        self, some: PopulationProblem, chart: Chart, start: Array, ends: list[PopulationFit]
    ) -> PopulationFit:
        """Return where a later start ends: as closely as it takes to say whether it agrees, all the way if it wins."""
        loosely = self._options() | {"tolerance": max(self.tol, AGREEMENT_KNOWN)}
        stage = f"start {len(ends)}"
        end = some.fit(stage, chart, start, **_ridges(ends[0]), **loosely)
        if end.result.at.value < min(other.result.at.value for other in ends) - AGREEMENT_KNOWN:
            end = some.fit(f"{stage}, closely", chart, end.theta, **_ridges(ends[0]), **self._options())
        return end

    def _options(self) -> dict[str, Any]:
        return {"tolerance": self.tol, "max_iterations": self.max_iter}

    def _check_integration(
        self, problem: PopulationProblem, fit: PopulationFit
    ) -> tuple[PopulationProblem, PopulationFit]:
        """Set `approximation_error_`, and refit on grids where propagation is not good enough and grids are possible.

        The error is how far an exact integral would move the metric, in its standard errors (the largest entry).
        """
        d, p = problem.d, degrees_of_freedom(problem.d)
        information = with_ridge(fit.information, fit, d)
        self.approximation_error_ = 0.0
        if problem.widest > problem.largest_grid:
            shift = problem.method_shift(fit.natural, information)[:p]
            errors = np.sqrt(np.maximum(np.diag(_inverse(information))[:p], 1e-300))
            self.approximation_error_ = float(np.max(np.abs(shift) / errors))
            if self.integration == "auto" and self.approximation_error_ > GOOD_ENOUGH and problem.widest <= 2:
                problem = replace(problem, largest_grid=2)
                fit = problem.fit("grid", self._chart(problem), fit.theta, **_ridges(fit), **self._options())
                self.approximation_error_ = 0.0
        grids = "on a grid" if problem.widest <= problem.largest_grid else "by expectation propagation"
        self.integration_ = f"people were integrated out {grids}"
        return problem, fit

    def _corrected(self, problem: PopulationProblem, fit: PopulationFit) -> PopulationFit:
        """Return the fit with the scale's small-sample bias taken out; the shape stays."""
        d, p = problem.d, degrees_of_freedom(problem.d)
        self.scale_correction_, path = 0.0, np.zeros(fit.natural.size)
        if self.constraint == "psd":
            self.scale_correction_, path = scale_correction(problem.total, fit, d)
        natural = fit.natural + self.scale_correction_ * path
        natural[:p] = np.exp(self.scale_correction_) * fit.natural[:p]
        if self.covariance == "free":  # along the path, but within the cone
            of = slice(p + d, fit.own)
            Sigma = fit.natural[of]
            natural[of] = np.exp(self.scale_correction_ * float(path[of] @ Sigma / (Sigma @ Sigma))) * Sigma
        return replace(fit, natural=natural)

    def _describe_metric(self, problem: PopulationProblem, fit: PopulationFit, units: Units) -> None:
        """Set what is known of the metric, in the items' own units."""
        d, p = problem.d, degrees_of_freedom(problem.d)
        metric = problem.structure.law(fit.natural, d).metric / units.size**2
        self.scale_ = float(np.trace(metric)) / d
        self.shape_ = metric / self.scale_ if self.scale_ != 0 else metric
        self.ridge_, self.size_ridge_ = fit.ridge, fit.size_ridge
        self.determined_, self.log_likelihood_ = fit.determined, fit.value
        self.scale_error_ = self.question_bias_ = float("nan")
        if self.uncertainty:
            symmetric, information = self._without_constraint(problem, fit)
            self.symmetric_metric_ = smat(symmetric[:p]) / units.size**2
            self.metric_covariance_ = _inverse(information)[:p, :p] / units.size**4
            self.standard_errors_ = smat(np.sqrt(np.maximum(np.diag(self.metric_covariance_), 0.0)))
            trace = svec(np.eye(d)) / d
            error = max(float(trace @ self.metric_covariance_ @ trace), 0.0) ** 0.5
            self.scale_error_ = error / abs(self.scale_) if self.scale_ != 0 else float("inf")
            self.question_bias_ = problem.question_bias(fit.natural)

    def _without_constraint(self, problem: PopulationProblem, fit: PopulationFit) -> tuple[Array, Array]:
        """Return natural parameters and information of the fit over all symmetric matrices, without a ridge.

        Neither the boundary of the cone nor shrinkage then bends intervals. Where the answers leave it undetermined
        the ridges of the fit are kept.
        """
        d = problem.d
        law = problem.structure.law(fit.natural, d)
        free = self.covariance == "free"
        chart = Chart(d, None, free, problem.n_items)
        # a crowd that prefers what is far has no metric to start from, and an isotropic fit cannot cross zero
        metric = law.metric if np.trace(law.metric) > NO_METRIC * d else -0.5 * np.eye(d)
        spread = law.covariance if free else fit.natural[fit.own - 1 : fit.own]
        start = chart.theta(metric, law.mean, spread, law.effects)
        ridges = {"ridge": 0.0, "item_ridge": fit.item_ridge}  # without a ridge, items alone would explain everything
        unbound = problem.fit("symmetric", chart, start, **ridges, **self._options())
        if not unbound.result.converged:
            unbound = problem.fit("symmetric with ridge", chart, start, **_ridges(fit), **self._options())
        information = unbound.information
        if problem.n_people < PEOPLE_A_PARAMETER * information.shape[0]:
            information = observed_information(problem.total, unbound.natural)
        return unbound.natural, with_ridge(information, unbound, d)

    def _describe_people(self, problem: PopulationProblem, fit: PopulationFit, crowd: Crowd) -> Array:
        """Set the law of people and return everybody's v (K, d), in the items' own units.

        Of a scan nobody's is returned: they may be too many to keep.
        """
        units, inside = crowd.units, problem.structure.law(fit.natural, problem.d)
        law = units.law_outside(inside)
        isotropic = self.covariance == "isotropic"
        self._describe_law(law, units.size * float(np.exp(fit.natural[fit.own - 1])) if isotropic else None)
        if inside.effects is not None:
            self.item_effects_, self.item_effect_spread_ = inside.effects.copy(), float(fit.item_ridge**-0.5)
        self.spread_ = problem.spread(inside)
        self.pseudo_ideal_covariances_ = None
        if crowd.users is None:
            return np.empty((0, problem.d))
        points, spreads = problem.people(inside, crowd.n_users)
        self.pseudo_ideal_covariances_ = None if spreads is None else spreads / units.size**2
        return points / units.size - 2.0 * units.centre @ law.metric

    def _solution(self, fit: PopulationFit, answers: float, clock: float) -> Solution:
        """Return how the fit ended, with a warning for everything it cannot know."""
        done = fit.result.converged
        status = "Solved" if done else f"Stopped after {self.max_iter} iterations, short of tol={self.tol:g}"
        apart = float(np.ptp(self.starts_))
        n = self.starts_.size
        status += f"; {n} starts agree." if n > 1 and apart < AGREEMENT else "."
        status += f" {self.integration_.capitalize()}"
        if self.approximation_error_ > 0:
            status += (
                f", which moves no entry of the metric by more than {self.approximation_error_:.2g} standard errors"
            )
        status += "."
        notes: list[tuple[type[CrowdmetricWarning], str]] = []
        if not done:
            notes.append((ConvergenceWarning, "the fit has not converged; raise max_iter"))
        if apart >= AGREEMENT:
            text = f"{n} starts ended up to {apart:.2g} nats apart, and the best is kept; raise starts"
            notes.append((ConvergenceWarning, text))
        if self.scale_error_ > LOOSE_SCALE or self.spread_ > NOISELESS:
            text = (
                "the scale of the metric is not known: the answers look free of noise, or say too little about it; "
                "rely on shape_, not on metric_"
            )
            notes.append((NotIdentifiedWarning, text))
        if abs(self.question_bias_) > BIASED:
            text = (
                f"questions look chosen for the people who answered them (z = {self.question_bias_:.1f}), which "
                "biases the metric; ask at random, or use MatchedMetric"
            )
            notes.append((NotIdentifiedWarning, text))
        for kind, text in notes:
            warnings.warn(text, kind, stacklevel=3)
        p = degrees_of_freedom(self.shape_.shape[0])
        if self.determined_ < 0.95 * (p - 1):
            status += (
                f" The answers determine {self.determined_:.0f} of the {p - 1} parameters of the metric's shape; "
                "a ridge towards a multiple of the identity stands in for the rest."
            )
        size = float(svec(np.eye(self.shape_.shape[0])) @ fit.natural[:p]) / self.shape_.shape[0]
        if self.size_ridge_ > 0 and size < NO_METRIC:
            status += " The answers do not support a metric: it is drawn to nothing, and people have linear utilities."
        status += "".join(f" {text[0].upper()}{text[1:]}." for _, text in notes)
        seconds = perf_counter() - clock
        return Solution(status, done, -fit.value / answers, float("nan"), fit.result.iterations, seconds)

    # ------------------------------------------------------------------------------------- predictions

    def _unknown_point(self) -> Array:
        return self.pseudo_ideal_mean_

    def _item_effects(self, n_items: int) -> Array | None:
        """Return the utilities of so many items, None where there are none or those of other items."""
        effects: Array | None = getattr(self, "item_effects_", None)
        return effects if effects is not None and effects.size == n_items else None

    def decision_function(self, pairs: Any, users: Any = None) -> Array:
        """Return ``ψ = ‖x − u‖²_M − ‖x' − u‖²_M − (b − b')`` (T,): negative where the left item is preferred.

        People who were not in the data are the average person; items given as vectors, not as rows, are new: b = 0.
        """
        psi = super().decision_function(pairs, users)
        numbers = pairs.pairs if isinstance(pairs, Comparisons) else np.asarray(pairs)
        effects = None if self.items is None or numbers.ndim != 2 else self._item_effects(len(check_items(self.items)))
        return psi if effects is None else psi - (effects[numbers[:, 0]] - effects[numbers[:, 1]])

    def predict_proba(self, pairs: Any, users: Any = None) -> Array:
        """Return ``Pr[y = −1], Pr[y = +1]`` (T, 2), averaged over where the person may stand.

        For people of whom nothing is known that is the whole population.
        """
        psi = self.decision_function(pairs, users)
        right = mean_probability(psi, self._variance(pairs, users), self._loss())
        return np.column_stack([1.0 - right, right])

    def _variance(self, pairs: Any, users: Any) -> Array:
        """Return the variance of ψ (T,) given what is known of each person."""
        items, numbers, people = self._read(pairs, users)
        delta = items[numbers[:, 0]] - items[numbers[:, 1]]
        prior = np.einsum("td,td->t", delta @ self.pseudo_ideal_covariance_, delta)
        if people is None:
            return prior
        known, place = self._find(people)
        spreads: Array | None = getattr(self, "pseudo_ideal_covariances_", None)  # None is not saved with a model
        if not np.any(known):
            return prior
        if spreads is None:  # too many people to keep
            own = np.einsum("td,td->t", delta[known] @ self._usual_spread(), delta[known])
        else:
            own = np.einsum("td,tde,te->t", delta[known], spreads[place[known]], delta[known])
        prior[known] = np.maximum(own, 0.0)
        return prior

    def _usual_spread(self) -> Array:
        """Return what answers leave unknown of v on average, ``E[Cov(v | answers)] = Cov(v) − Cov(E[v | answers])``."""
        told = np.atleast_2d(np.cov(self.pseudo_ideal_points_.T, ddof=0))
        values, vectors = np.linalg.eigh(self.pseudo_ideal_covariance_ - told)
        return (vectors * np.maximum(values, 0.0)) @ vectors.T


def _start(chart: Chart, rng: np.random.Generator | None) -> Array:
    """Return where to begin, for items of size one: twice the identity, or (with `rng`) a metric drawn at random."""
    d = chart.d
    metric, spread = 2.0 * np.eye(d), 1.0 / np.sqrt(d)
    if rng is not None:
        G = rng.standard_normal((d, d))
        metric, spread = 2.0 * d * (G @ G.T) / np.sum(G * G), spread * float(np.exp(0.25 * rng.standard_normal()))
    covariance = 4.0 * spread**2 * metric @ metric
    return chart.theta(metric, np.zeros(d), covariance if chart.free else np.array([np.log(spread)]))


def _ridges(fit: PopulationFit) -> dict[str, Any]:
    return {"ridge": fit.ridge, "size_ridge": fit.size_ridge, "item_ridge": fit.item_ridge}


def _inverse(information: Array) -> Array:
    """Return the inverse, with directions of no information given an infinite variance in effect."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(information), 1e-300))
    values, vectors = np.linalg.eigh(information * scale[:, None] * scale)
    values = np.maximum(values, 1e-12 * values[-1])
    return (vectors / values) @ vectors.T * scale[:, None] * scale
