"""`PopulationMetric`: people drawn from one population and integrated out.

The class is the story of a fit; each chapter has a module: what may be asked (`population_options`), where people are
(`crowd`) and the sums over them (`problem`), where to begin (`starts`), how people are integrated out
(`integration_check`), how sure the metric is (`uncertainty`), what to say of it (`doubts`), and the fit by gradients
alone (`many_features`).
"""

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
from crowdmetric.engines.contract import DeviceEngine, Engine, device_of
from crowdmetric.engines.local import LocalEngine
from crowdmetric.engines.named import engine_of
from crowdmetric.engines.threads import threads_for
from crowdmetric.errors import ConvergenceWarning, CrowdmetricWarning, DataError
from crowdmetric.estimators.base import CrowdMetric
from crowdmetric.estimators.population_options import (
    check_for_gradients,
    check_items_are_named,
    check_population_options,
    items_with_effects,
)
from crowdmetric.estimators.similarity_inputs import read_judgements
from crowdmetric.fits.checkpoints import Checkpoint, fingerprint
from crowdmetric.fits.crowd import ChunkCache, Crowd, crowd_in_memory, crowd_on_disk
from crowdmetric.fits.doubts import NOT_CONVERGED, doubts_about, has_no_metric, status_of
from crowdmetric.fits.factor_uncertainty import factor_draws, factor_errors, why_no_errors
from crowdmetric.fits.hidden_items import personal_variance_of
from crowdmetric.fits.integration_check import INTEGRATIONS, check_integration, largest_grid
from crowdmetric.fits.many_features import (
    DEFAULT_RANK,
    LARGEST_SCORING,
    NUMBERS,
    QuestionStream,
    announce_points,
    asked_in_memory,
    asked_on_disk,
    axes_of_people,
    expected_seconds,
    fit_low_rank_law,
    low_rank_plan,
    places_of,
)
from crowdmetric.fits.memory import MemoryPlan, read_memory
from crowdmetric.fits.on_device import asked_on_device
from crowdmetric.fits.passes import Passes, after_steps, duration
from crowdmetric.fits.problem import PopulationProblem
from crowdmetric.fits.starts import best_of_starts, start_from
from crowdmetric.fits.uncertainty import uncertainty_of
from crowdmetric.fits.unknowns import MOST_PEOPLE, SeenItems, Unknowns, unknowns_of
from crowdmetric.inputs import CONSTRAINTS, Rows, check_items, check_nothing_beside_scan, read_rows
from crowdmetric.losses import Loss
from crowdmetric.similarity.judgement_term import JudgementsBeside
from crowdmetric.similarity.likelihood import AnswerModel
from crowdmetric.similarity.objective import SimilarityObjective
from crowdmetric.similarity.pair_choices import questions_of
from crowdmetric.similarity.structures import Full
from crowdmetric.solvers.law_fit import PopulationFit, items_determined
from crowdmetric.solvers.parametrization import Parametrization
from crowdmetric.solvers.solution import Solution
from crowdmetric.symmetric import degrees_of_freedom, invertible
from crowdmetric.tables import ComparisonScan
from crowdmetric.users.first_order import IsotropicPeople, covariance_matrix
from crowdmetric.users.integrals import mean_probability
from crowdmetric.users.item_effects import WithItemEffects
from crowdmetric.users.population_sums import STRUCTURES, Law

__all__ = ["INTEGRATIONS", "PopulationMetric"]

Array = NDArray[Any]

# Parameters that are not in a checkpoint's fingerprint: a fit may be resumed with other values of them.
NOT_THE_FIT = {"items", "engine", "loss", "max_iter", "jobs", "memory", "checkpoint", "progress", "warm_start"}
# Attributes that only some fits set; removed before the next fit.
NOT_ALWAYS_FOUND = (
    "metric_draws_",
    "symmetric_metric_",
    "symmetric_covariance_",
    "symmetric_log_likelihood_",
    "judgement_scale_",
    "judgement_log_likelihood_",
    "metric_covariance_",
    "standard_errors_",
    "item_effects_",
    "item_effect_spread_",
    "item_effects_determined_",
    "item_effect_variances_",
    "offset_covariance_",
    "asked_items_",
    "personal_spread_",
    "determined_",
    "integration_",
    "people_coordinates_",
    "people_axes_",
    "factor_",
    "factor_draws_",
    "pseudo_ideal_points_",
    "ideal_points_",
)
# Typical number of passes over all people, from which the expected time is computed.
USUAL_PASSES = 15
# The same for fits by gradients alone.
USUAL_GRADIENTS = 60
# Relative decrease of the loss at which fits by gradients stop, in single and double precision: below it, single
# precision only sees rounding.
SINGLE_TOLERANCE, DOUBLE_TOLERANCE = 1e-6, 1e-8


class PopulationMetric(CrowdMetric):
    """Learn a metric from people drawn from one population, without knowing anybody's place.

    Everybody's ideal point is drawn from one Gaussian law and integrated out, so a few answers per person, even
    one, teach the metric: no bound on people, no subspaces, nothing taken from the truth. See
    `crowdmetric.users.population_sums` for the likelihood and docs/explanation/algorithms.md for the reasoning.

    Parameters
    ----------
    items : (N, d) array
        Item vectors; shared, not copied.
    loss : {'logistic', 'probit'}, default 'logistic'
        How answers scatter around the model's ψ.
    beta : float, default 1.0
        Sharpness of the answers. Only βM is identified: a larger β gives a smaller metric of the same shape.
    covariance : {'isotropic', 'free'}, default 'isotropic'
        Ideal points N(u₀, s²I) or N(u₀, Σ_u). Free when people form clusters or stretch along some features. In a fit
        by gradients (see `rank`) people differ only within the span of the metric.
    rank : int, optional
        Largest rank of the metric; None: d, but at most 32 where it has more than 3,000 parameters (d > 76) or
        precision is single: there only gradients are used, from one start.
    constraint : {'psd', 'symmetric', 'identity', 'zero'}, default 'psd'
        A metric, or any symmetric matrix: a crowd that fits only the latter has no ideal points. With 'identity' M is a
        multiple of the identity, with 'zero' there is none and people have linear utilities (only under a free
        covariance): models without a learned metric, and without uncertainty of one.
    ridge : 'evidence', 'hidden-people', float or None, default 'evidence'
        Draws the metric's shape towards the identity: ½ ridge ‖M/c − I‖², c = tr M / d. The strength is found from
        the data, given, or none. Found from the data under a free covariance, it comes with another that draws the
        size c towards zero, where people have linear utilities and no metric (`crowdmetric.solvers.law_fit`). A fit by
        gradients (see `rank`) has no ridge by default. A number puts ½ ridge ‖L‖² on the factor L of the metric
        (``M = LLᵀ``, items of root mean square length one); 'hidden-people', for such fits only, finds the number by
        hiding one person in five (`crowdmetric.solvers.low_rank_ridges`), unless there are more than 500 answers per
        entry of L.
    integration : {'auto', 'grid', 'propagation'}, default 'auto'
        How people are integrated out. A grid is exact and slow beyond one dimension (three at most); expectation
        propagation is fast in any. Auto: propagation where a person's answers span more than a line, checked
        against a slow method, and a grid instead where the difference would show and the answers span planes.
    uncertainty : bool, default True
        Whether to find out how sure the metric is: draws from its posterior, and a second fit without constraints.
    starts : int, default 2
        From how many points to begin; the best end is kept, and a disagreement is said.
    tol : float, default 1e-4
        Stop when a step would gain less log-likelihood (in nats, over all people).
    max_iter : int, default 200
    jobs : int, optional
        Threads; None: one a core. Results do not depend on it. A fit by gradients (see `rank`) has one.
    engine : optional
        Where sums over people are taken: None for this machine, `crowdmetric.engines.dask_engine.DaskEngine` for a
        cluster, 'torch' or `crowdmetric.engines.torch_engine.TorchEngine` for a GPU.
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
        (`crowdmetric.users.item_effects`): what is popular for other reasons is then not put into the metric. For items
        given by row numbers; at most 500, with answers in memory and without a GPU, except in a fit by gradients (see
        `rank`), which has no such limits.
    adaptive : bool, default False
        Whether later questions to a person were chosen by their own earlier answers. The likelihood ignores that, and
        may; the test for questions chosen near people's ideal points may not, and is left out (`question_bias_` NaN).
    warm_start : bool, default False
        Whether a second `fit` begins where the first ended, with its people and new ones, instead of at `starts`.
    progress : function of a str, optional
        Told after every pass over all people how fast it was and how long it may take.

    Attributes
    ----------
    metric_, components_, users_, pseudo_ideal_points_, ideal_points_, objective_, solution_
        See `CrowdMetric`. People are at their posterior mean. Items that differ in fewer dimensions than they have
        features say nothing of the others: there `metric_` is the prior's multiple of the identity, with intervals as
        wide as the prior (`crowdmetric.fits.item_span`), unless `rank` is given.
    scale_, shape_ : float, (d, d) array
        ``metric_ = scale_ × shape_``, the shape with trace d. The scale is known only through β and the noise.
    scale_error_ : float
        Standard error of log scale.
    metric_draws_ : (n, p) array
        svec of metrics drawn from the posterior (`crowdmetric.solvers.posterior`), from which intervals are made.
    standard_errors_ : (d, d) array
        Standard deviations of the entries of the metric over these draws.
    metric_covariance_ : (p, p) array
        Covariance of the draws.
    symmetric_metric_, symmetric_covariance_ : (d, d), (p, p) array
        The fit without the PSD constraint and the covariance of its svec, to test whether there is a metric.
    symmetric_log_likelihood_ : float
        Of all answers at that fit; NaN if a ridge had to hold it.
    judgement_scale_, judgement_log_likelihood_ : float
        With judgements: they are answered by ``judgement_scale_ × metric_``, and how likely they are.
    ideal_mean_, ideal_covariance_ : (d,), (d, d)
        u₀ and Σ_u (least norm where the metric is singular; under 'free' only MΣ_uM is well determined).
    pseudo_ideal_mean_, pseudo_ideal_covariance_ : (d,), (d, d)
        The law of ``v = −2Mu``, which is what the likelihood sees.
    factor_, factor_draws_ : (d, k), (n, d, k) array
        After a fit by gradients: L with ``metric_ = L @ L.T``, and draws of it (`crowdmetric.fits.factor_uncertainty`),
        from which `crowdmetric.intervals` makes intervals of distances. There are no ``metric_draws_`` then.
    people_coordinates_, people_axes_ : (K, k), (k, d) array
        After a fit by gradients (see `rank`), in place of everybody's points: ``pseudo_ideal_points_`` is
        ``pseudo_ideal_mean_ + people_coordinates_ @ people_axes_``, and like ``ideal_points_`` made anew whenever it is
        read. Predictions need neither.
    pseudo_ideal_covariances_ : (K, d, d) array or None
        Of everybody's v given their answers, where that fits in memory; predictions take their average where not.
    ridge_, size_ridge_, people_ridge_, determined_ : float
        The strengths used on the shape and the size of the metric and on the shape of people's covariance, and how many
        of the p − 1 parameters of the metric's shape the answers determine.
    item_effects_, item_effect_spread_, item_effects_determined_ : (N,) array, float, float
        With `item_effects`: b, positive where an item is liked better than its features say, zero if nobody has
        answered about it; ω; and how many of the N the answers determine, the others being held by ω (their effective
        number). Predictions about items given by row number use b.
    item_effect_variances_ : (N,) array
        After a fit by gradients: what is not known of each b.
    offset_covariance_ : (n, n) array
        What is not known of (svec M, μ, b), b only with `item_effects`; not kept for more than 1,500 of them.
    personal_spread_ : float
        τ, how much people differ about one item beyond the model, from items hidden in turn
        (`crowdmetric.fits.unknowns`).
    asked_items_ : (R, 2) array
        Rows of `users_` and of the items that these people have compared. Predictions average over all three: over what
        is not known of the law, over ω² for items that nobody has compared, and over τ² for each item that is new to
        somebody who has answered.
    log_likelihood_ : float
        Of all answers, at its maximum.
    approximation_error_, integration_ : float, str
        How far an exact integral would move the metric, in standard errors (the worst entry); how it was done.
    spread_ : float
        How much people differ in ψ (root mean square), in units of the noise of an answer.
    question_bias_ : float
        z-score of the test that questions were chosen near people's ideal points; NaN if nobody can tell, where
        questions were `adaptive`, or without `uncertainty`.

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
        adaptive: bool = False,
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
        self.adaptive = adaptive
        self.warm_start = warm_start
        self.progress = progress

    def fit(
        self, pairs: Any, y: Any = None, users: Any = None, sample_weight: Any = None, *, judgements: Any = None
    ) -> Self:
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
        judgements : Judgements or sequence of Judgements, optional
            Similarity judgements about the same items, by the same metric up to a scale: one metric from both kinds
            (`crowdmetric.similarity.judgement_term`; `crowdmetric.agreement.one_metric` tests whether they share it).
        """
        clock = perf_counter()
        loss, card = self._loss(), self._card()
        if isinstance(pairs, ComparisonScan):
            check_nothing_beside_scan(y, users, sample_weight)
            kept = ChunkCache(self.memory_plan(pairs).room)
            if self.by_gradients_alone(check_items(self.items).shape[1]):
                self._refuse_judgements(judgements)
                return self._fit_by_gradients(asked_on_disk(pairs, self.items, loss, kept, card), loss, clock)
            n_items = self._items_with_effects(pairs, pairs.n_items)
            crowd = crowd_on_disk(pairs, self.items, loss, kept, reduced=self.rank is None and judgements is None)
            rows = read_rows(Comparisons.from_scan(pairs, MOST_PEOPLE), None, None, None, self.items, loss)
        else:
            if self.memory is not None:
                read_memory(self.memory)  # not needed here, but validated: it may be a mistake
            asked = self._asked_on_device(pairs, y, users, sample_weight, loss, card)
            if asked is not None:
                return self._fit_by_gradients(asked, loss, clock)
            rows = read_rows(pairs, y, users, sample_weight, self.items, loss)
            self._check(loss, rows.items.shape[1])
            if self.by_gradients_alone(rows.items.shape[1]):
                self._refuse_judgements(judgements)
                if self.item_effects:
                    check_items_are_named(pairs)
                return self._fit_by_gradients(asked_in_memory(rows, card), loss, clock)
            n_items = self._items_with_effects(pairs, rows.items.shape[0])
            crowd = crowd_in_memory(
                rows, 1 if card is None else card.blocks, shown=n_items > 0,
                reduced=self.rank is None and judgements is None,  # judged items may differ in other dimensions
            )  # fmt: skip
        beside = None if judgements is None else self._beside(judgements, crowd)
        with threads_for(degrees_of_freedom(crowd.d) + n_items):
            return self._fit_by_scoring(crowd, rows, loss, n_items, beside, clock, by_row=_is_by_row(pairs))

    def _fit_by_scoring(
        self,
        crowd: Crowd,
        rows: Rows,
        loss: Loss,
        n_items: int,
        beside: JudgementsBeside | None,
        clock: float,
        *,
        by_row: bool,
    ) -> Self:
        """Fit to a crowd by outer products of scores; `rows` are the answers of some of the people, or of all."""
        problem, chart = self._problem(crowd, loss, n_items, beside), self._chart(crowd.d, n_items)
        stopping: dict[str, Any] = {"tolerance": self.tol, "max_iterations": self.max_iter}
        best = best_of_starts(
            problem, chart, self._earlier_end(chart, crowd), starts=self.starts, ridge=self.ridge,
            random_state=self.random_state, **stopping,
        )  # fmt: skip
        self._forget()
        self.starts_ = best.values
        integrated = check_integration(problem, best.fit, chart, self.integration, **stopping)
        problem, fit = integrated.problem, integrated.fit
        self.approximation_error_, self.integration_ = integrated.error, integrated.words
        self._describe_fit(problem, fit, crowd)
        self._describe_unknowns(problem, fit, crowd, rows, by_row=by_row)
        if self.uncertainty and self.constraint in CONSTRAINTS:
            self._describe_uncertainty(problem, fit, crowd, stopping)
        points = self._describe_people(problem, fit, crowd)
        answers = crowd.weight + (0.0 if beside is None else beside.n_answers)
        solution = self._solution(fit, crowd, answers, clock)
        nobody = np.empty(0, dtype=np.int64)
        self._finish(self.scale_ * self.shape_, nobody if crowd.users is None else crowd.users, points, solution)
        return self

    # ------------------------------------------------------------------------------------- the answers and the problem

    def _asked_on_device(
        self, pairs: Any, y: Any, users: Any, sample_weight: Any, loss: Loss, card: DeviceEngine | None
    ) -> QuestionStream | None:
        """Return the questions of a fit by gradients, read on the device; None where `read_rows` has to read them."""
        shape: tuple[int, ...] = getattr(self.items, "shape", ())
        if card is None or len(shape) != 2 or not self.by_gradients_alone(shape[1]):
            return None
        self._check(loss, shape[1])
        self._check_for_gradients(shape[1])
        return asked_on_device(pairs, y, users, sample_weight, self.items, card, NUMBERS)

    def _check(self, loss: Loss, d: int) -> None:
        check_population_options(
            d, loss, covariance=self.covariance, rank=self.rank, constraint=self.constraint, ridge=self.ridge,
            integration=self.integration, starts=self.starts, tol=self.tol, max_iter=self.max_iter,
            random_state=self.random_state, item_effects=self.item_effects, engine=self._engine,
            by_gradients=self.by_gradients_alone(d),
        )  # fmt: skip

    def by_gradients_alone(self, d: int) -> bool:
        """Return whether outer products of scores are out of the question for d features, by size or precision."""
        return self._is_single() or degrees_of_freedom(d) > LARGEST_SCORING

    def _is_single(self) -> bool:
        card = self._card()
        return card is not None and not card.is_double

    @property
    def _engine(self) -> Engine | None:
        return engine_of(self.engine)

    def _card(self) -> DeviceEngine | None:
        return device_of(self._engine)

    def _items_with_effects(self, pairs: Any, n_items: int) -> int:
        """Return the number of items with per-item effects."""
        return items_with_effects(pairs, n_items, self._engine) if self.item_effects else 0

    def memory_plan(self, scan: ComparisonScan) -> MemoryPlan:
        """Return how much memory a fit to a scan will take, before it starts; a limit that is too low is an error."""
        N, d = check_items(self.items).shape
        self._check(self._loss(), d)
        limit = read_memory(self.memory)
        if self.by_gradients_alone(d):
            return low_rank_plan(scan, N, d, self._rank_by_gradients(d), limit)
        theta = d * min(self.rank or d, d) + d + (d * d if self.covariance == "free" else 1)
        natural, jobs = STRUCTURES[self.covariance].layout(d).size, LocalEngine(self.jobs).jobs
        chunk_rows = max((chunk.rows for chunk in scan.chunks), default=0)
        return MemoryPlan.of(scan.n_users, len(scan), N, d, theta, natural, jobs, limit, chunk_rows)

    @staticmethod
    def _refuse_judgements(judgements: Any) -> None:
        if judgements is not None:
            raise DataError(
                "judgements cannot be added to a fit by gradients alone (more than 76 features, or single precision); "
                "reduce the features, or fit the judgements with SimilarityMetric"
            )

    def _beside(self, judgements: Any, crowd: Crowd) -> JudgementsBeside:
        """Return judgements about the items in the units of the fit."""
        items, tables = read_judgements(judgements, None, None, self.items, merge=True)
        inside = crowd.units.inside(items)
        objective = SimilarityObjective(inside, questions_of(tables), AnswerModel(), Full(crowd.d))
        return JudgementsBeside(objective)

    def _problem(
        self, crowd: Crowd, loss: Loss, n_items: int, beside: JudgementsBeside | None = None
    ) -> PopulationProblem:
        """Return the sums over people, with a checkpoint and a report of progress if asked for."""
        structure = STRUCTURES[self.covariance]
        if n_items:
            structure = WithItemEffects(structure, n_items)
        engine = self._engine or LocalEngine(self.jobs)
        problem = PopulationProblem.of(crowd, structure, loss, engine, largest_grid(self.integration))
        problem = replace(problem, beside=beside)
        checkpoint = after_pass = None
        if self.checkpoint is not None:
            options = {name: value for name, value in self.get_params(deep=False).items() if name not in NOT_THE_FIT}
            options["loss"] = loss.name
            checkpoint = Checkpoint(self.checkpoint, fingerprint([sorted(options.items()), problem.digest()]))
        if self.progress is not None:
            after_pass = Passes(self.progress, problem.n_people, USUAL_PASSES)
        return replace(problem, checkpoint=checkpoint, after_pass=after_pass)

    def _chart(self, d: int, n_items: int) -> Parametrization:
        kind = "none" if self.constraint == "zero" else self.constraint
        return Parametrization(d, kind, self.covariance == "free", n_items, self.rank)

    def _earlier_end(self, chart: Parametrization, crowd: Crowd) -> Array | None:
        """Return where an earlier fit ended, in the units of these people; None if it is not to be used."""
        if not (self.warm_start and hasattr(self, "pseudo_ideal_mean_")):
            return None
        d, units = crowd.span.features, crowd.units
        if self.metric_.shape[0] != d:
            raise DataError(
                f"warm_start has a metric of {self.metric_.shape[0]} features to go on from, but items have {d}; "
                "use the items of the earlier fit, or warm_start=False"
            )
        effects = self._item_effects(chart.n_items)
        law = Law(self.metric_, self.pseudo_ideal_mean_, self.pseudo_ideal_covariance_, effects)
        spread = float(np.sqrt(np.trace(self.ideal_covariance_) / d)) / units.size
        return start_from(chart, crowd.span.law_inside(units.law_inside(law)), float(np.log(spread)))

    # ------------------------------------------------------------------------------------- what was found

    def _forget(self) -> None:
        """Take away what an earlier fit found and this one may not."""
        for name in NOT_ALWAYS_FOUND:
            if hasattr(self, name):
                delattr(self, name)

    def _describe_law(self, law: Law, spread: float | None) -> None:
        """Set the attributes of the metric and the population; `spread` is s if people are isotropic."""
        d = law.mean.size
        self.scale_ = float(np.trace(law.metric)) / d
        self.shape_ = law.metric / self.scale_ if self.scale_ != 0 else law.metric
        self.pseudo_ideal_mean_, self.pseudo_ideal_covariance_ = law.mean, law.covariance
        inverse = np.linalg.pinv(law.metric, rcond=1e-6, hermitian=True)
        self.ideal_mean_ = -0.5 * inverse @ law.mean
        if spread is not None:
            self.ideal_covariance_ = spread**2 * np.eye(d)
        else:
            self.ideal_covariance_ = 0.25 * inverse @ law.covariance @ inverse

    def _describe_fit(self, problem: PopulationProblem, fit: PopulationFit, crowd: Crowd) -> None:
        """Set what a fit by scoring finds, in the items' own units."""
        law, free = problem.structure.law(fit.natural, problem.d), self.covariance == "free"
        spread = None if free else crowd.units.size * float(np.exp(fit.natural[fit.layout.spread][0]))
        self._describe_law(crowd.law_outside(law, free=free), spread)
        if law.effects is not None:
            self.item_effects_, self.item_effect_spread_ = law.effects.copy(), float(fit.ridges.items**-0.5)
            self.item_effects_determined_ = items_determined(fit)
        self.ridge_, self.size_ridge_, self.people_ridge_ = fit.ridges.shape, fit.ridges.size, fit.ridges.people
        self.log_likelihood_ = fit.value
        if self.constraint in CONSTRAINTS:
            self.determined_ = fit.determined
        if problem.beside is not None:
            term = problem.beside(fit.natural[fit.layout.metric], information=False)
            self.judgement_scale_, self.judgement_log_likelihood_ = term.scale, term.value
        self.spread_ = problem.spread(law)
        self.scale_error_ = self.question_bias_ = float("nan")

    def _describe_unknowns(
        self, problem: PopulationProblem, fit: PopulationFit, crowd: Crowd, rows: Rows, *, by_row: bool
    ) -> None:
        """Set what predictions do not know, from the answers of everybody or of some people."""
        covariance, metric = unknowns_of(fit).covariance, problem.structure.law(fit.natural, problem.d).metric
        self.personal_spread_ = personal_variance_of(problem, fit, crowd.answers(rows)) ** 0.5
        if covariance is not None:
            self.offset_covariance_ = crowd.units.offsets_outside(crowd.span.offsets_outside(covariance, metric))
        if crowd.users is not None:
            # items given as vectors are new: row numbers cannot name them
            first = 0 if by_row or self.items is None else np.shape(self.items)[0]
            self.asked_items_ = SeenItems.of(rows.person, rows.pairs + first).rows

    def _describe_uncertainty(
        self, problem: PopulationProblem, fit: PopulationFit, crowd: Crowd, stopping: dict[str, Any]
    ) -> None:
        """Set how sure the metric is, and whether the questions were chosen for people."""
        free = self.covariance == "free"
        psd = self.constraint == "psd"
        uncertainty = uncertainty_of(problem, fit, crowd.units.size, free=free, psd=psd, **stopping)
        self.scale_error_ = uncertainty.scale_error
        uncertainty = uncertainty.outside(crowd.span, psd=psd)
        self.metric_draws_ = uncertainty.draws
        self.metric_covariance_, self.standard_errors_ = uncertainty.covariance, uncertainty.standard_errors
        self.symmetric_metric_ = uncertainty.symmetric
        self.symmetric_covariance_ = uncertainty.symmetric_covariance
        self.symmetric_log_likelihood_ = uncertainty.symmetric_value
        if not self.adaptive:
            self.question_bias_ = problem.question_bias(fit.natural)

    def _describe_people(self, problem: PopulationProblem, fit: PopulationFit, crowd: Crowd) -> Array:
        """Set how well people are known, and return everybody's v (K, d), in the items' own units.

        Of a scan nobody's is returned: they may be too many to keep.
        """
        self.pseudo_ideal_covariances_: Array | None = None
        if crowd.users is None:
            return np.empty((0, crowd.span.features))
        law, units, free = problem.structure.law(fit.natural, problem.d), crowd.units, self.covariance == "free"
        # people who differ in every direction: importance._people_covariance needs the part that is next to nothing
        points, spreads = problem.people(replace(law, covariance=invertible(law.covariance)), crowd.n_users)
        if spreads is not None:
            self.pseudo_ideal_covariances_ = crowd.span.spreads_outside(spreads, law, free=free) / units.size**2
        return units.points_outside(crowd.span.points_outside(points), crowd.law_outside(law, free=free).metric)

    def _solution(self, fit: PopulationFit, crowd: Crowd, answers: float, clock: float) -> Solution:
        """Return how the fit ended, with a warning for everything it cannot know."""
        done = fit.result.converged
        doubts = doubts_about(
            converged=done, starts=self.starts_, scale_error=self.scale_error_, spread=self.spread_,
            question_bias=self.question_bias_, no_metric=has_no_metric(fit),
        )  # fmt: skip
        for doubt in doubts:
            warnings.warn(doubt.text, doubt.kind, stacklevel=3)
        status = status_of(
            fit, crowd.span.features, doubts, starts=self.starts_, integration=self.integration_,
            approximation_error=self.approximation_error_,
            unfinished=f"Stopped after {self.max_iter} iterations, short of tol={self.tol:g}",
            constraint=self.constraint,
        )  # fmt: skip
        seconds = perf_counter() - clock
        return Solution(status, done, -fit.value / answers, float("nan"), fit.result.iterations, seconds)

    # ------------------------------------------------------------------------------------- by gradients alone

    def _rank_by_gradients(self, d: int) -> int:
        return self.rank or min(d, DEFAULT_RANK)

    def _say(self, words: str) -> None:
        """Report a sentence as progress; without `progress=`, warn."""
        if self.progress is not None:
            self.progress(words)
        else:
            warnings.warn(words, CrowdmetricWarning, stacklevel=4)

    def _check_for_gradients(self, d: int) -> None:
        check_for_gradients(
            d, constraint=self.constraint, integration=self.integration, checkpoint=self.checkpoint,
            warm_start=self.warm_start, engine=self._engine,
        )  # fmt: skip

    def _fit_by_gradients(self, asked: QuestionStream, loss: Loss, clock: float) -> Self:
        """Fit many features, or in single precision."""
        (n_items, d), units, card = asked.items.shape, asked.units, self._card()
        self._check_for_gradients(d)
        rank, free = self._rank_by_gradients(d), self.covariance == "free"
        no_errors = "not asked for"
        if self.uncertainty:
            n_effects = n_items if self.item_effects else 0
            no_errors = why_no_errors(asked.n_users, d, rank, card, free=free, n_effects=n_effects)
        if no_errors and self.uncertainty:
            warnings.warn(f"{no_errors}; uncertainty=False leaves them out", CrowdmetricWarning, stacklevel=3)
        if self.engine == "torch" and card is None:
            seconds = expected_seconds(asked, rank, loss, USUAL_GRADIENTS)
            self._say(f"no GPU was found: the CPU will take about {duration(seconds)}")
        elif card is not None and card.precision:
            self._say(card.precision)
        told = None if self.progress is None else after_steps(Passes(self.progress, asked.n_users, USUAL_GRADIENTS))
        fit = fit_low_rank_law(
            asked, rank, loss, engine=card, ridge=self.ridge, free=free, item_effects=bool(self.item_effects),
            max_iterations=self.max_iter, tolerance=SINGLE_TOLERANCE if self._is_single() else DOUBLE_TOLERANCE,
            after_step=told,
        )  # fmt: skip
        law, result = units.law_outside(fit.law), fit.result
        people = result.at.people
        self._forget()
        spread = float(np.exp(people.log_spread)) * units.size if isinstance(people, IsotropicPeople) else None
        self._describe_law(law, spread)
        if law.effects is not None:
            ridge = result.prior.items
            self.item_effects_, self.item_effect_spread_ = law.effects, float(ridge**-0.5)
            self.item_effects_determined_ = fit.items_determined
            self.item_effect_variances_ = 1.0 / (fit.items_known + ridge)
        self.log_likelihood_, self.starts_ = result.value, np.array([result.value])
        self.ridge_, self.size_ridge_, self.people_ridge_ = result.prior.shape, 0.0, 0.0
        self.scale_error_ = self.question_bias_ = self.approximation_error_ = self.spread_ = float("nan")
        self.pseudo_ideal_covariances_ = None
        status = "Solved by" if result.converged else "Stopped after"
        status += f" {result.passes} passes for a metric of rank {rank}"
        status += "; standard errors were not found." if no_errors else "."
        if not result.converged:
            warnings.warn(NOT_CONVERGED, ConvergenceWarning, stacklevel=3)
        self.factor_ = result.at.factor / units.size
        if not no_errors:
            put = np.asarray if card is None else card.asarray
            self.factor_draws_ = factor_draws(asked, result.at, result.prior, loss, put(asked.items), put) / units.size
            self.standard_errors_ = factor_errors(self.factor_, self.factor_draws_)
        self.people_coordinates_ = places_of(asked, fit, loss, card)
        self.people_axes_ = axes_of_people(fit) / units.size
        objective, seconds = -result.value / asked.weight, perf_counter() - clock
        solution = Solution(status, result.converged, objective, float("nan"), result.passes, seconds)
        self._finish(self.scale_ * self.shape_, asked.users, None, solution)
        return self

    def __getattr__(self, name: str) -> Any:
        """Return (K, d) points that are made when they are asked for, from `people_coordinates_`."""
        if name in ("pseudo_ideal_points_", "ideal_points_") and "people_coordinates_" in vars(self):
            announce_points(len(self.people_coordinates_), len(self.pseudo_ideal_mean_), name)
            points = self._points_at(slice(None))
            return points if name == "pseudo_ideal_points_" else self._ideal(points)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _points_at(self, rows: Any) -> Array:
        if "people_coordinates_" not in vars(self):
            return super()._points_at(rows)
        return self.pseudo_ideal_mean_ + self.people_coordinates_[rows] @ self.people_axes_

    # ------------------------------------------------------------------------------------- predictions

    def _unknown_point(self) -> Array:
        return self.pseudo_ideal_mean_

    def _item_effects(self, n_items: int) -> Array | None:
        """Return the effects of `n_items` items; None if there are none or they belong to other items."""
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
        """Return ``Pr[y = −1], Pr[y = +1]`` (T, 2), averaged over everything that is not known.

        That is where the person stands (for people of whom nothing is known, the whole population), the law itself,
        and what this person may think of items new to them; see `crowdmetric.fits.unknowns`.
        """
        psi = self.decision_function(pairs, users)
        variance = self._variance(pairs, users) + self._variance_beside(pairs, users)
        right = mean_probability(psi, variance, self._loss())
        return np.column_stack([1.0 - right, right])

    def unknowns(self) -> Unknowns:
        """Return what predictions do not know, other than where a person stands."""
        found = vars(self)
        return Unknowns(
            found.get("offset_covariance_"),
            float(found.get("item_effect_spread_", 0.0)) ** 2,
            float(found.get("personal_spread_", 0.0)) ** 2,
            found.get("item_effect_variances_"),
        )

    def _variance_beside(self, pairs: Any, users: Any) -> Array:
        """Return the variance of ψ (T,) from everything unknown except where the person stands."""
        items, numbers, people = self._read(pairs, users)
        by_row = _is_by_row(pairs)
        unknowns = self.unknowns()
        variance = unknowns.variance(items[numbers[:, 0]], items[numbers[:, 1]], numbers if by_row else None)
        asked: Array | None = getattr(self, "asked_items_", None)
        if people is None or asked is None:
            return variance
        known, place = self._find(people)
        new = SeenItems(asked).new_items(np.where(known, place, -1), numbers if by_row else None)
        return variance + unknowns.personal * new

    def _variance(self, pairs: Any, users: Any) -> Array:
        """Return the variance of ψ (T,) given what is known of each person."""
        items, numbers, people = self._read(pairs, users)
        delta = items[numbers[:, 0]] - items[numbers[:, 1]]
        prior = np.einsum("td,td->t", delta @ self.pseudo_ideal_covariance_, delta)
        if people is None:
            return prior
        known, place = self._find(people)
        spreads: Array | None = getattr(self, "pseudo_ideal_covariances_", None)  # a saved model omits None
        if not np.any(known):
            return prior
        if spreads is None:  # too many people: covariances were not kept
            own = np.einsum("td,td->t", delta[known] @ self._usual_spread(), delta[known])
        else:
            own = np.einsum("td,tde,te->t", delta[known], spreads[place[known]], delta[known])
        prior[known] = np.maximum(own, 0.0)
        return prior

    def _usual_spread(self) -> Array:
        """Return what answers leave unknown of v on average, ``E[Cov(v | answers)] = Cov(v) − Cov(E[v | answers])``."""
        if "people_coordinates_" in vars(self):
            told = self.people_axes_.T @ covariance_matrix(self.people_coordinates_) @ self.people_axes_
        else:
            told = np.atleast_2d(np.cov(self.pseudo_ideal_points_.T, ddof=0))
        values, vectors = np.linalg.eigh(self.pseudo_ideal_covariance_ - told)
        return (vectors * np.maximum(values, 0.0)) @ vectors.T


def _is_by_row(pairs: Any) -> bool:
    """Return whether pairs name items by their row numbers, not by their vectors."""
    return isinstance(pairs, Comparisons | ComparisonScan) or np.ndim(pairs) == 2
