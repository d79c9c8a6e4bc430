"""`PopulationMetric`: people drawn from one population and integrated out.

Its parameters are checked in `population_options`. The two kinds of fits are `crowdmetric.fits.scoring_fit` and, for
many features or single precision, `crowdmetric.fits.many_features`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from crowdmetric.base import CrowdMetric
from crowdmetric.choices import Choices
from crowdmetric.comparisons import Comparisons
from crowdmetric.engines.contract import DeviceEngine, Engine, device_of
from crowdmetric.engines.local import LocalEngine
from crowdmetric.engines.named import engine_of
from crowdmetric.engines.threads import threads_beside, threads_for
from crowdmetric.errors import ConvergenceWarning, CrowdmetricWarning, DataError, NotIdentifiedWarning
from crowdmetric.estimators.population_options import (
    check_for_gradients,
    check_for_sets,
    check_items_are_named,
    check_population_options,
    items_with_effects,
    refuse_judgements,
    refuse_scan_of_pooled,
)
from crowdmetric.estimators.similarity_inputs import read_judgements
from crowdmetric.fits.checkpoints import Checkpoint, fingerprint
from crowdmetric.fits.common_utility import Tally, fit_popularity, fit_quadratic
from crowdmetric.fits.correction import INTEGRATIONS, largest_grid
from crowdmetric.fits.crowd import ChunkCache, Crowd, crowd_in_memory, crowd_on_disk
from crowdmetric.fits.doubts import (
    NOT_CONVERGED,
    PEOPLE_ALIKE,
    WITHOUT_LEARNED_METRIC,
    doubts_about,
    has_no_metric,
    knows_shape,
    status_of,
)
from crowdmetric.fits.linear_utilities import fit_linear_utilities, people_of
from crowdmetric.fits.many_features import (
    DEFAULT_RANK,
    LARGE_POINTS,
    LARGEST_SCORING,
    MOST_FEATURES,
    USUAL_GRADIENTS,
    LowRankFit,
    announce_points,
    coordinates_of_people,
    expected_seconds,
    fit_low_rank_law,
    places_of_people,
    too_much_work,
)
from crowdmetric.fits.memory import MemoryPlan, read_memory
from crowdmetric.fits.on_device import asked_on_device
from crowdmetric.fits.passes import Passes, duration
from crowdmetric.fits.problem import PopulationProblem
from crowdmetric.fits.question_stream import NUMBERS, QuestionStream, asked_in_memory, asked_on_disk, low_rank_plan
from crowdmetric.fits.scoring_fit import ScoringFit, fit_by_scoring, scoring_plan
from crowdmetric.fits.set_probabilities import covariance_of_gaps, mean_shares, sets_by_size
from crowdmetric.fits.starts import Start, start_from
from crowdmetric.fits.unknowns import MOST_PARAMETERS, MOST_PEOPLE, SeenItems, Unknowns
from crowdmetric.inputs import (
    CONSTRAINTS,
    SIGNS,
    AskedRows,
    Rows,
    check_items,
    check_scan,
    check_scan_alone,
    is_by_row,
    origin_of,
    read_asked,
    read_rows,
    read_sets,
    refuse_none,
    sets_in,
    some_questions,
)
from crowdmetric.losses import Logistic, Loss
from crowdmetric.similarity.judgement_term import JudgementsBeside
from crowdmetric.similarity.likelihood import AnswerModel
from crowdmetric.similarity.objective import SimilarityObjective
from crowdmetric.similarity.pair_choices import questions_of
from crowdmetric.similarity.structures import Full
from crowdmetric.solvers.law_fit import items_determined
from crowdmetric.solvers.parametrization import Parametrization
from crowdmetric.solvers.solution import Solution
from crowdmetric.symmetric import degrees_of_freedom, smat
from crowdmetric.tables import ASKED, ComparisonScan, check_same_order, cut_sentence, features_of, matched
from crowdmetric.users.blocks import arrange
from crowdmetric.users.first_order import covariance_matrix
from crowdmetric.users.integrals import mean_probability
from crowdmetric.users.item_effects import WithItemEffects
from crowdmetric.users.people import posteriors
from crowdmetric.users.population_sums import STRUCTURES, Law, blocks_of

__all__ = ["INTEGRATIONS", "PopulationMetric"]

Array = NDArray[Any]
Indices = NDArray[np.intp]

# Parameters that are not in a checkpoint's fingerprint: a fit may be resumed with other values of them.
NOT_THE_FIT = {"items", "engine", "loss", "max_iter", "jobs", "memory", "checkpoint", "progress", "warm_start"}
# Draws of a metric with at most so many parameters are kept as matrices.
LARGEST_KEPT = 3_000
# Typical number of passes over all people, from which the expected time is computed.
USUAL_PASSES = 15


class PopulationMetric(CrowdMetric):
    """Learn a metric from people drawn from one population, without locating anybody first.

    Everybody's ideal point is drawn from one Gaussian law and integrated out. So a few answers per person are enough,
    even one, and neither bounds nor subspaces are needed. See `crowdmetric.users.population_sums` for the likelihood
    and docs/explanation/algorithms.md for the reasoning.

    Parameters
    ----------
    items : (N, d) array, data frame or Items
        Item vectors; shared, not copied. The index or the column ``item_id`` of a data frame are the ids by which
        answers are matched to items.
    loss : {'logistic', 'probit'}, default 'logistic'
        How answers scatter around the model's ψ.
    beta : float, default 1.0
        Sharpness of the answers. Only βM is identified: a larger β gives a smaller metric of the same shape.
    covariance : {'isotropic', 'free', 'none'}, default 'isotropic'
        Ideal points N(u₀, s²I) or N(u₀, Σ_u). Use 'free' if people form clusters or differ more along some features. In
        a fit by gradients (see `rank`) people differ only within the span of the metric. 'none' is for baselines in
        which people do not differ: with constraint='zero' and item effects, how popular items are (Bradley–Terry), and
        with constraint='symmetric' one quadratic utility, both with one ridge by cross-validation over people.
    rank : int, optional
        Largest rank of the metric. None: d, up to 20 features; beyond, ``M = LLᵀ + γI`` with a number of columns of L
        that the evidence finds (`crowdmetric.fits.low_rank_posterior`). Such fits, and all in single precision, use
        gradients alone, from one start.
    constraint : {'psd', 'symmetric', 'identity', 'zero'}, default 'psd'
        A metric, or any symmetric matrix: a crowd that fits only the latter has no ideal points. 'identity' and 'zero'
        have no learned metric, and no uncertainty of one: M is a multiple of the identity, or zero. With 'zero' people
        have linear utilities. With covariance='isotropic' their weights then differ equally in all directions, and
        three variances are all that is found, for any number of items and features
        (`crowdmetric.fits.linear_utilities`).
    ridge : 'evidence', float or None, default 'evidence'
        Strength of the penalty ½ ridge ‖M/c − I‖², c = tr M / d, which shrinks the metric's shape toward the identity.
        'evidence' finds it from the data. Under a free covariance it then also finds a second ridge, which shrinks the
        size c toward zero, where people have linear utilities and no metric (`crowdmetric.solvers.law_fit`).
        In fits by gradients (see `rank`) the ridge is ½ ridge ‖L‖² (items of root mean square length one), from the
        evidence or a number.
    integration : {'auto', 'grid', 'propagation'}, default 'auto'
        How people are integrated out. A grid is exact, has at most three dimensions and is slow beyond one. Expectation
        propagation is fast in any dimension, and errs a little for every person. 'auto' uses it if a person's answers
        span more than a line, and corrects the fit and its draws by what exact integrals change on a sample of the
        people (`crowdmetric.fits.correction`). 'propagation' only measures that.
    uncertainty : bool, default True
        Whether to compute how sure the metric is: draws from its posterior, and a second fit without constraints.
    starts : int, default 2
        Number of starting points. The best end is kept, and the fit warns if the ends differ.
    tol : float, default 1e-4
        Stop when a step would gain less log-likelihood (in nats, over all people).
    max_iter : int, default 200
    jobs : int, optional
        Threads; None: one per core. Results do not depend on it. A fit by gradients (see `rank`) has one.
    engine : optional
        Where sums over people are taken: None for this machine, `crowdmetric.engines.dask_engine.DaskEngine` for a
        cluster, 'torch' or `crowdmetric.engines.torch_engine.TorchEngine` for a GPU.
    random_state : int, default 0
        Seed of the starts after the first.
    memory : int or str, optional
        Limit for a fit to scanned comparisons, in bytes or as text such as '2GB'; None: half of the free memory. See
        `memory_plan`.
    checkpoint : path, optional
        File in which the fit is saved after every step over all people. If the file exists, the fit goes on from it, to
        exactly the same end. It must belong to the same answers and options.
    item_effects : bool, default False
        Whether items have utilities beyond their features, ``b_i ~ N(0, ω²)`` with ω from the evidence
        (`crowdmetric.users.item_effects`), so that the metric need not explain popularity that has other reasons. Items
        must be given by row numbers. Where items and the parameters of the metric are more than 3,000 together, the fit
        uses gradients alone (see `rank`), for any number of items; other fits need answers in memory, and no GPU.
    adaptive : bool, default False
        Whether later questions to a person were chosen by their own earlier answers. The likelihood stays valid, but
        the test for questions chosen near people's ideal points does not, and is skipped (`question_bias_` is NaN).
    warm_start : bool, default False
        Whether a second `fit` begins where the first ended, with its people and new ones, instead of at `starts`.
    progress : function of a str, optional
        Called after every pass over all people with a sentence on its speed and the time left.

    Attributes
    ----------
    metric_, components_, users_, pseudo_ideal_points_, ideal_points_, objective_, solution_
        See `CrowdMetric`. People are at their posterior mean. In dimensions in which items do not differ, `metric_` is
        the prior's multiple of the identity, with intervals as wide as the prior (`crowdmetric.fits.item_span`), unless
        `rank` is given.
    scale_, shape_ : float, (d, d) array
        ``metric_ = scale_ × shape_``; the shape has trace d. The scale is identified only through β and the noise.
    scale_error_ : float
        Standard error of log scale.
    metric_draws_ : (n, p) array
        svec of matrices drawn from the posterior (`crowdmetric.fits.size_posterior`), the source of all intervals. In
        directions about which the answers say little, a draw may have negative eigenvalues.
    law_draws_ : (n, 2p + d) array, or (n, 2p + d + N) with item effects
        The same draws with all that goes with them: svec M, μ, svec Σ, and the items' effects.
    standard_errors_ : (d, d) array
        Standard deviations of the entries of the metric over these draws.
    metric_covariance_ : (p, p) array
        Covariance of the draws.
    symmetric_metric_, symmetric_covariance_ : (d, d), (p, p) array
        The fit without the PSD constraint and the covariance of its svec, to test whether there is a metric.
    symmetric_log_likelihood_ : float
        Log-likelihood of all answers at that fit; NaN if it needed a ridge.
    judgement_scale_, judgement_log_likelihood_ : float
        With judgements: people judge similarity by ``judgement_scale_ × metric_``; the log-likelihood of judgements.
    ideal_mean_, ideal_covariance_ : (d,), (d, d)
        u₀ and Σ_u (least norm where the metric is singular; under 'free' only MΣ_uM is well determined).
    pseudo_ideal_mean_, pseudo_ideal_covariance_ : (d,), (d, d)
        The law of ``v = −2Mu``, in which the likelihood is written.
    factor_, rest_ : (d, k) array, float
        After a fit by gradients: L and γ with ``metric_ = L @ L.T + γ I``, the posterior mean.
    factor_draws_, rest_draws_ : (n, d, k), (n,) array
        Draws of them, if features are more than 76, in place of `metric_draws_`; `crowdmetric.intervals` makes
        intervals of distances of them.
    people_coordinates_, people_axes_ : (K, k), (k, d) array
        After a fit by gradients (see `rank`) to so many people that their points would take more than 1 GB, in place of
        these: ``pseudo_ideal_points_`` is ``pseudo_ideal_mean_ + people_coordinates_ @ people_axes_``. It and
        ``ideal_points_`` are computed whenever they are read. Predictions need neither.
    pseudo_ideal_covariances_ : (K, d, d) array or None
        Covariance of everybody's v given their answers; None if that takes too much memory, and predictions then use
        the average.
    ridge_, size_ridge_, people_ridge_, determined_ : float
        The ridges on the shape of the metric, on its size and on the shape of people's covariance, and how many of the
        p − 1 parameters of the metric's shape the answers determine.
    item_effects_, item_effect_spread_, item_effects_determined_ : (N,) array, float, float
        With `item_effects`: b, positive if an item is liked better than its features predict, zero if nobody has
        answered about it; ω; and the effective number of parameters among b. Predictions about items given by row
        number use b.
    item_effect_variances_ : (N,) array
        After a fit by gradients: posterior variance of each b.
    offset_covariance_ : (n, n) array
        Posterior covariance of (svec M, μ, b), with b only under `item_effects`; not kept if n > 1,500.
    new_item_spread_, new_item_doubt_ : float
        How much less sure predictions have to be about items that a person has not compared: the standard deviation τ
        that each such item adds to ψ, and that relative to the root mean square of ψ, found by hiding items
        (`crowdmetric.fits.unknowns`). Zero if the law and the person's answers are as sure as they should be, and after
        a fit to answers about more than two items, which are not hidden. It does not measure tastes for single items:
        most of those look like noise of the answers, which the law counts on.
    asked_items_ : (R, 2) array
        Rows of `users_`, and of the items that these people have compared. Predictions average over the uncertainty of
        the law, over ω² for each item that nobody has compared, and over τ² for each item that is new to a person who
        has answered.
    log_likelihood_ : float
        Log-likelihood of all answers at the fit. Corrections count from the law at which they were measured.
    alternatives_ : (k, r, 1 + p + d + p) array, or (k, r, 1 + p + d + p + N) with item effects
        Other laws at which starts ended and that explain the answers about as well, each followed by draws around it:
        by how many nats the law is worse, svec M, μ, svec Σ, and the items' effects. A fit that has any warns;
        `crowdmetric.importance` covers them.
    approximation_error_, integration_ : float, str
        How far exact integrals may still move the law, in standard errors (the worst parameter): what a correction has
        left, with its own error. The fit warns above one half. How people were integrated out.
    spread_ : float
        How much people differ in ψ (root mean square), in units of the noise of an answer.
    question_bias_ : float
        z-score of the test that questions were chosen near people's ideal points. NaN if the answers cannot tell, if
        questions were `adaptive`, without `uncertainty`, or after a fit to answers about more than two items.
    made_of_ : str
        'pairs', or what the answers were cut from (`Comparisons.origin`): then there are no standard errors.

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
        self,
        pairs: Any,
        y: Any = None,
        users: Any = None,
        sample_weight: Any = None,
        *,
        judgements: Any = None,
        begin: Start | None = None,
    ) -> Self:
        """Learn the metric and the law of people.

        Parameters
        ----------
        pairs : data frame, Comparisons, ComparisonScan, Choices, list, (T, 2) int or str array, (T, 2, d) array
            A data frame has the columns of `Comparisons.from_table` (user, left, right, choice, …). Its items are
            matched to `items` by id, and so are those of Comparisons. Arrays hold row numbers into items, their ids as
            text, or the vectors themselves, left and right. A scan (`Comparisons.scan_parquet`) is read in chunks, and
            people's places are not kept: `users_` is empty, and `crowdmetric.locate` finds the places that are needed.
            `Choices` are choices among several, rankings, best and worst; a list holds tables of Choices and
            Comparisons of the same people, or of others.
        y : (T,) array
            −1 left preferred, +1 right preferred; or 0 and 1, booleans (True: right), or 'left' and 'right'.
        users : (T,) array
            Who answered; None: one person.
        sample_weight : (T,) array
            How often an answer counts; a tie is two opposite answers of half a weight each.
        judgements : Judgements, sequence of Judgements or data frame, optional
            Similarity judgements about the same items. Both kinds of answers then determine one metric, up to a scale
            (`crowdmetric.similarity.judgement_term`). `crowdmetric.agreement.one_metric` tests whether they share it.
        begin : Start, optional
            Where a fit to similar answers ended (`end`), to begin there in place of the first of `starts`. A fit by
            gradients begins anew.
        """
        clock = perf_counter()
        loss, device = self._loss(), device_of(self._engine)
        reduced = self.rank is None and judgements is None  # judged items may differ in other dimensions
        sets = sets_in(pairs)
        if judgements is not None:
            tables = judgements if isinstance(judgements, Sequence) else [judgements]
            check_same_order([*(sets or [pairs]), *tables], self.item_ids)
        if sets is not None:
            (N, d), n_items = check_items(self.items).shape, 0
            by_gradients = self.by_gradients_alone(d, N, only_scoring=True)
            given, options = (y, users, sample_weight), self.get_params(deep=False)
            check_for_sets(options, d, loss, given, by_gradients=by_gradients)
            self._check(loss, d, N)
            rows = read_sets(sets, self.items)
            crowd = crowd_in_memory(rows, reduced=reduced)
        elif isinstance(pairs, ComparisonScan):
            check_scan_alone(y, users, sample_weight)
            refuse_scan_of_pooled(self.covariance)
            cache, items = ChunkCache(self.memory_plan(pairs).room), check_scan(pairs, self.items, loss)
            if self.by_gradients_alone(items.shape[1], items.shape[0], only_scoring=judgements is not None):
                refuse_judgements(judgements)
                some = read_rows(Comparisons.from_scan(pairs, MOST_PEOPLE), None, None, None, items, loss)
                asked = asked_on_disk(pairs, items, cache, device)
                return self._fit_by_gradients(asked, loss, clock, origin_of(pairs, some), by_row=True)
            n_items = self._items_with_effects(pairs, pairs.n_items)
            crowd = crowd_on_disk(pairs, items, cache, reduced=reduced)
            rows = read_rows(Comparisons.from_scan(pairs, MOST_PEOPLE), None, None, None, items, loss)
        else:
            if self.memory is not None:
                read_memory(self.memory)  # not needed here, but validated: it may be a mistake
            on_device = None
            if judgements is None:
                on_device = self._asked_on_device(pairs, y, users, sample_weight, loss, device)
            if on_device is not None:
                made_of = pairs.origin if isinstance(pairs, Comparisons) else ASKED
                return self._fit_by_gradients(on_device, loss, clock, made_of, by_row=is_by_row(pairs))
            rows = read_rows(pairs, y, users, sample_weight, self.items, loss)
            self._check(loss, rows.items.shape[1], rows.items.shape[0])
            if self.covariance == "none":
                refuse_judgements(judgements)
                check_items_are_named(rows)
                return self._fit_pooled(rows, loss, clock, origin_of(pairs, rows))
            if self.by_gradients_alone(*rows.items.shape[::-1], only_scoring=judgements is not None):
                refuse_judgements(judgements)
                if self.item_effects:
                    check_items_are_named(rows)
                stream = asked_in_memory(rows, device)
                made_of = origin_of(pairs, rows)
                return self._fit_by_gradients(stream, loss, clock, made_of, rows.labels, by_row=rows.by_row)
            n_items = self._items_with_effects(rows, rows.items.shape[0])
            crowd = crowd_in_memory(rows, 1 if device is None else device.blocks, shown=n_items > 0, reduced=reduced)
        with threads_for(degrees_of_freedom(crowd.d) + n_items):
            return self._fit_by_scoring(
                crowd, rows, loss, n_items, judgements, begin, clock, origin=origin_of(pairs, rows)
            )

    def memory_plan(self, scan: ComparisonScan) -> MemoryPlan:
        """Return how much memory a fit to a scan will take, before it starts; a limit that is too low is an error."""
        N, d = check_items(self.items).shape
        self._check(self._loss(), d, N)
        limit = read_memory(self.memory)
        if self.by_gradients_alone(d, N):
            return low_rank_plan(scan, N, d, self.rank or min(d, DEFAULT_RANK), limit)
        free, jobs = self.covariance == "free", LocalEngine(self.jobs).jobs
        return scoring_plan(scan, N, d, free=free, rank=self.rank, jobs=jobs, limit=limit)

    def by_gradients_alone(self, d: int, n_items: int = 0, *, only_scoring: bool = False) -> bool:
        """Return whether d features, or items with effects, are fitted by gradients alone.

        They are where features are too many for fits by scoring, or for a right size from these, if nothing is asked
        for that only fits by scoring can do (`only_scoring`: nor more than options say). The engine's
        precision may be too low too.
        Linear utilities with three variances are always fitted so.
        """
        parameters = degrees_of_freedom(d) + (
            n_items if isinstance(self.item_effects, bool | np.bool_) and self.item_effects else 0
        )
        if self._is_linear() or self._is_single() or parameters > LARGEST_SCORING:
            return True
        asked = self.constraint == "psd" and self.ridge == "evidence" and self.covariance != "none" and not only_scoring
        plain = self.checkpoint is None and not self.warm_start and self.integration != "grid"
        engine = self._engine
        return d > MOST_FEATURES and asked and plain and (engine is None or not engine.is_remote)

    def _is_linear(self) -> bool:
        """Return whether people have linear utilities whose weights differ equally in all directions."""
        kind = (self.constraint, self.covariance)
        return all(isinstance(name, str) for name in kind) and kind == ("zero", "isotropic")

    # ------------------------------------------------------------------------------------- options and answers

    @property
    def _engine(self) -> Engine | None:
        return engine_of(self.engine)

    def _is_single(self) -> bool:
        device = device_of(self._engine)
        return device is not None and not device.is_double

    def _check(self, loss: Loss, d: int, n_items: int) -> None:
        check_population_options(self.get_params(deep=False), d, loss, self._engine)

    def _items_with_effects(self, answers: ComparisonScan | Rows, n_items: int) -> int:
        """Return the number of items with per-item effects."""
        return items_with_effects(answers, n_items, self._engine) if self.item_effects else 0

    def _asked_on_device(
        self, pairs: Any, y: Any, users: Any, sample_weight: Any, loss: Loss, device: DeviceEngine | None
    ) -> QuestionStream | None:
        """Return the questions of a fit by gradients, read on the device; None if `read_rows` has to read them."""
        items = features_of(self.items)
        shape: tuple[int, ...] = getattr(items, "shape", ())
        if device is None or len(shape) != 2 or not self.by_gradients_alone(shape[1], shape[0]):
            return None
        if self._is_linear():  # in memory, and on this machine
            return None
        self._check(loss, shape[1], shape[0])
        check_for_gradients(self.get_params(deep=False), shape[1], shape[0], self._engine)
        return asked_on_device(pairs, y, users, sample_weight, items, device, NUMBERS)

    # ------------------------------------------------------------------------------------- by scoring

    def _fit_by_scoring(
        self,
        crowd: Crowd,
        rows: Rows,
        loss: Loss,
        n_items: int,
        judgements: Any,
        begin: Start | None,
        clock: float,
        *,
        origin: str,
    ) -> Self:
        """Fit to a crowd by outer products of scores; `rows` are the answers of some of the people, or of all."""
        problem = self._problem(crowd, loss, n_items, judgements)
        kind = "none" if self.constraint == "zero" else self.constraint
        chart = Parametrization(crowd.d, kind, self.covariance == "free", n_items, self.rank)
        stopping: dict[str, Any] = {"tolerance": self.tol, "max_iterations": self.max_iter}
        found = fit_by_scoring(
            crowd, problem, chart, self._earlier_end(chart, crowd), starts=self.starts, ridge=self.ridge,
            random_state=self.random_state, integration=self.integration, begin=begin, **stopping,
        )  # fmt: skip
        self._forget()
        self.made_of_ = origin
        self._describe_fit(found)
        self._describe_unknowns(found, rows)
        if self.uncertainty and self.constraint in CONSTRAINTS and origin == ASKED:
            self._describe_uncertainty(found, stopping)
        points, self.pseudo_ideal_covariances_ = found.people()
        nobody = np.empty(0, dtype=np.int64)
        users = nobody if crowd.users is None else crowd.users
        self._finish(self.scale_ * self.shape_, users, points, self._solution(found, clock), rows.labels)
        if rows.by_row:
            self.questions_ = some_questions(rows.pairs, rows.weight)
        return self

    def _problem(self, crowd: Crowd, loss: Loss, n_items: int, judgements: Any) -> PopulationProblem:
        """Return the sums over people, with judgements, a checkpoint and a report of progress if asked for."""
        structure = STRUCTURES[self.covariance]
        if n_items:
            structure = WithItemEffects(structure, n_items)
        beside = checkpoint = None
        if judgements is not None:
            items, tables = read_judgements(judgements, None, None, self.items, merge=True)
            inside = crowd.units.inside(items)
            beside = JudgementsBeside(SimilarityObjective(inside, questions_of(tables), AnswerModel(), Full(crowd.d)))
        engine = self._engine or LocalEngine(self.jobs)
        problem = PopulationProblem.of(crowd, structure, loss, engine, largest_grid(self.integration))
        problem = replace(problem, beside=beside)
        if self.checkpoint is not None:
            options = {name: value for name, value in self.get_params(deep=False).items() if name not in NOT_THE_FIT}
            options["loss"] = loss.name
            checkpoint = Checkpoint(self.checkpoint, fingerprint([sorted(options.items()), problem.digest()]))
        after_pass = Passes.of(self.progress, problem.n_people, USUAL_PASSES)
        return replace(problem, checkpoint=checkpoint, after_pass=after_pass)

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
        return start_from(chart, crowd.law_inside(law), float(np.log(spread)))

    # ------------------------------------------------------------------------------------- attributes

    def _describe_law(self, law: Law, spread: float | None) -> None:
        """Set the attributes of the metric and the population; `spread` is s if people are isotropic."""
        d = law.mean.size
        self._end: Start | None = None
        self.scale_ = float(np.trace(law.metric)) / d
        self.shape_ = law.metric / self.scale_ if self.scale_ != 0 else law.metric
        self.pseudo_ideal_mean_, self.pseudo_ideal_covariance_ = law.mean, law.covariance
        inverse = np.linalg.pinv(law.metric, rcond=1e-6, hermitian=True)
        self.ideal_mean_ = -0.5 * inverse @ law.mean
        if spread is not None:
            self.ideal_covariance_ = spread**2 * np.eye(d)
        else:
            self.ideal_covariance_ = 0.25 * inverse @ law.covariance @ inverse
        self.scale_error_ = self.question_bias_ = self.approximation_error_ = self.spread_ = float("nan")

    def _describe_fit(self, found: ScoringFit) -> None:
        """Set what a fit by scoring finds, in the items' own units."""
        fit, problem = found.fit, found.problem
        self._describe_law(found.law_outside, found.spread)
        self._end = Start(found.law_outside, fit.ridges)
        self.starts_, self.alternatives_ = found.starts, found.alternatives
        self.approximation_error_, self.integration_ = found.integrated.error, found.integrated.words
        if found.law.effects is not None:
            self.item_effects_, self.item_effect_spread_ = found.law.effects.copy(), float(fit.ridges.items**-0.5)
            self.item_effects_determined_ = items_determined(fit)
        self.ridge_, self.size_ridge_, self.people_ridge_ = fit.ridges.shape, fit.ridges.size, fit.ridges.people
        self.log_likelihood_, self.spread_ = fit.value, problem.spread(found.law)
        if self.constraint in CONSTRAINTS:
            self.determined_ = fit.determined
        if problem.beside is not None:
            term = problem.beside(fit.natural[fit.layout.metric], information=False)
            self.judgement_scale_, self.judgement_log_likelihood_ = term.scale, term.value

    def _describe_unknowns(self, found: ScoringFit, rows: Rows) -> None:
        """Set what predictions do not know, from the answers of everybody or of some people."""
        self.new_item_spread_, size = found.new_items(rows)
        self.new_item_doubt_ = self.new_item_spread_ / size if size > 0.0 else 0.0
        covariance = found.offset_covariance()
        if covariance is not None:
            self.offset_covariance_ = covariance
        if found.crowd.users is not None:
            # items given as vectors are new: row numbers cannot name them
            first = 0 if rows.by_row or self.items is None else len(check_items(self.items))
            self.asked_items_ = SeenItems.of(rows.person, rows.pairs + first).rows

    def _describe_uncertainty(self, found: ScoringFit, stopping: dict[str, Any]) -> None:
        """Set how sure the metric is, and whether questions look chosen for people."""
        psd = self.constraint == "psd"
        uncertainty, span, size = found.uncertainty(psd=psd, **stopping), found.crowd.span, found.crowd.units.size
        self.scale_error_ = uncertainty.scale_error
        self.law_draws_ = found.laws_outside(uncertainty.draws)
        p = degrees_of_freedom(span.features)
        self.metric_draws_ = self.law_draws_[:, :p].copy()
        self.metric_covariance_ = np.cov(self.metric_draws_.T).reshape(p, p)
        self.standard_errors_ = smat(self.metric_draws_.std(axis=0, ddof=1))
        symmetric, covariance = uncertainty.symmetric / size**2, uncertainty.symmetric_covariance / size**4
        self.symmetric_metric_ = span.matrix_outside(symmetric)
        self.symmetric_covariance_ = span.covariance_outside(symmetric, covariance)
        self.symmetric_log_likelihood_ = uncertainty.symmetric_value
        sets_differ = any(block.size > 1 for block in found.problem.sample.blocks)
        if not self.adaptive and not sets_differ:  # which rows a set has depends on which item was the first
            self.question_bias_ = found.problem.question_bias(found.fit.natural)

    def _solution(self, found: ScoringFit, clock: float) -> Solution:
        """Return how the fit ended, with a warning for every doubt."""
        fit, done = found.fit, found.fit.result.converged
        doubts = doubts_about(
            converged=done, starts=self.starts_, alternatives=self.alternatives_[:, 0, 0],
            scale_error=self.scale_error_, spread=self.spread_,
            question_bias=self.question_bias_, approximation_error=self.approximation_error_,
            no_metric=has_no_metric(fit), knows_shape=knows_shape(fit),
            cut=cut_sentence(self.made_of_, clause=True),
        )  # fmt: skip
        for doubt in doubts:
            warnings.warn(doubt.text, doubt.kind, stacklevel=4)
        status = status_of(
            fit, found.crowd.span.features, doubts, starts=self.starts_, alternatives=self.alternatives_[:, 0, 0],
            integration=self.integration_,
            approximation_error=self.approximation_error_,
            unfinished=f"Stopped after {self.max_iter} iterations, short of tol={self.tol:g}",
            constraint=self.constraint,
        )  # fmt: skip
        seconds = perf_counter() - clock
        return Solution(status, done, -fit.value / found.answers, float("nan"), fit.result.iterations, seconds)

    # ------------------------------------------------------------------------------------- by gradients alone

    def _fit_by_gradients(
        self,
        asked: QuestionStream,
        loss: Loss,
        clock: float,
        origin: str,
        labels: NDArray[Any] = SIGNS,
        *,
        by_row: bool,
    ) -> Self:
        """Fit many features, or many items with effects, or in single precision, or linear utilities."""
        (n_items, d), device = asked.items.shape, device_of(self._engine)
        check_for_gradients(self.get_params(deep=False), d, n_items, self._engine)
        if self._is_linear():
            return self._fit_linear(asked, loss, clock, origin, labels, by_row=by_row)
        free, item_effects = self.covariance == "free", bool(self.item_effects)
        if origin != ASKED:
            warnings.warn(cut_sentence(origin, clause=True), NotIdentifiedWarning, stacklevel=3)
        self._announce(asked, self.rank or min(d, DEFAULT_RANK), loss, device)
        progress = Passes.of(self.progress, asked.n_users, USUAL_GRADIENTS)
        with threads_beside(device):
            fit = fit_low_rank_law(
                asked, self.rank, loss, engine=device, ridge=self.ridge, free=free, item_effects=item_effects,
                max_iterations=self.max_iter, after_step=None if progress is None else progress.after_step,
            )  # fmt: skip
        result, rank = fit.result, fit.result.at.factor.shape[1]
        self._forget()
        self.made_of_ = origin
        self._describe_low_rank_fit(fit)
        points: Array | None = None
        if 8 * asked.n_users * d < LARGE_POINTS or asked.people is None:
            points, self.pseudo_ideal_covariances_ = places_of_people(asked, fit, loss, device)
        else:
            self.people_coordinates_ = coordinates_of_people(asked, fit, loss, device)
        if not result.converged:
            warnings.warn(NOT_CONVERGED, ConvergenceWarning, stacklevel=3)
        if origin == ASKED and self.uncertainty:
            self._describe_low_rank_draws(fit, too_much_work(asked, d, result.at.flat().size, device))
        found = (
            ""
            if self.rank or result.at.rest is None
            else (", found by its evidence, and the same in all other directions")
        )
        status = (
            f"{'Solved by' if result.converged else 'Stopped after'} {result.passes} passes for a metric of rank "
            f"{rank}{found}. {cut_sentence(origin)}".rstrip()
        )
        objective, seconds = -result.value / asked.weight, perf_counter() - clock
        solution = Solution(status, result.converged, objective, float("nan"), result.passes, seconds)
        self._finish(self.scale_ * self.shape_, asked.users, points, solution, labels)
        if by_row:
            self.questions_ = some_questions(*asked.some())
        return self

    def _fit_pooled(self, rows: Rows, loss: Loss, clock: float, origin: str) -> Self:
        """Fit one utility for everybody (`crowdmetric.fits.common_utility`)."""
        X, (N, d) = rows.items, rows.items.shape
        tally = Tally.of_rows(rows.pairs, rows.person, rows.response, rows.weight, N)
        metric, mean, effects = np.zeros((d, d)), np.zeros(d), None
        if self.constraint == "zero":
            popularity = fit_popularity(tally, N)
            effects, utilities, ridge = popularity.strength, popularity.strength, popularity.precision
        else:
            quadratic = fit_quadratic(X, tally)
            (metric, mean), utilities, ridge = quadratic.as_law(), quadratic.utilities(X), quadratic.precision
        psi = utilities[rows.pairs[:, 1]] - utilities[rows.pairs[:, 0]]
        value = float(rows.weight @ np.log(np.maximum(loss.probability(rows.response * psi), 1e-300)))
        self._forget()
        self.made_of_ = origin
        self._describe_law(Law(metric, mean, np.zeros((d, d)), effects), None)
        if effects is not None:
            self.item_effects_ = effects
        self.log_likelihood_, self.starts_ = value, np.array([value])
        self.ridge_, self.size_ridge_, self.people_ridge_ = (ridge if np.isfinite(ridge) else 0.0), 0.0, 0.0
        seconds, loss_per_answer = perf_counter() - clock, -value / float(rows.weight.sum())
        solution = Solution(f"Solved. {PEOPLE_ALIKE}", True, loss_per_answer, float("nan"), 0, seconds)
        self._finish(metric, rows.users, np.tile(mean, (rows.users.size, 1)), solution, rows.labels)
        return self

    def _fit_linear(
        self, asked: QuestionStream, loss: Loss, clock: float, origin: str, labels: NDArray[Any], *, by_row: bool
    ) -> Self:
        """Fit linear utilities with three variances (`crowdmetric.fits.linear_utilities`)."""
        progress = Passes.of(self.progress, asked.n_users, USUAL_GRADIENTS)
        with threads_beside(None):
            fit = fit_linear_utilities(
                asked, loss, item_effects=bool(self.item_effects), max_iterations=self.max_iter,
                after_step=None if progress is None else progress.after_step,
            )  # fmt: skip
            points, spreads = people_of(asked, fit, loss)
        self._forget()
        self.made_of_ = origin
        self._describe_law(fit.law_outside, None)
        if fit.effects.size:
            self.item_effects_, self.item_effect_spread_ = fit.effects, float(fit.new_item**0.5)
            self.item_effects_determined_, self.item_effect_variances_ = fit.determined, fit.item_variances
        self.log_likelihood_, self.starts_ = fit.value, np.array([fit.value])
        self.ridge_, self.size_ridge_, self.people_ridge_ = 0.0, 0.0, 0.0
        self.pseudo_ideal_covariances_ = None if spreads is None else spreads / asked.units.size**2
        if not fit.converged:
            warnings.warn(NOT_CONVERGED, ConvergenceWarning, stacklevel=4)
        status = (
            f"{'Solved by' if fit.converged else 'Stopped after'} {fit.passes} passes. {WITHOUT_LEARNED_METRIC['zero']}"
        )
        solution = Solution(
            status, fit.converged, -fit.value / asked.weight, float("nan"), fit.passes, perf_counter() - clock
        )
        points = asked.units.points_outside(points, self.shape_)
        self._finish(self.scale_ * self.shape_, asked.users, points, solution, labels)
        if by_row:
            self.questions_ = some_questions(*asked.some())
        return self

    def _describe_low_rank_fit(self, fit: LowRankFit) -> None:
        """Set what a fit by gradients finds, in the items' own units."""
        self._describe_law(fit.law_outside, fit.spread)
        result = fit.result
        if fit.law.effects is not None:
            self.item_effects_, self.item_effect_spread_ = fit.law.effects, float(result.prior.items**-0.5)
            self.item_effects_determined_, self.item_effect_variances_ = fit.items_determined, fit.item_variances
        self.log_likelihood_, self.starts_ = result.value, np.array([result.value])
        self.ridge_, self.size_ridge_, self.people_ridge_ = result.prior.shape, 0.0, 0.0
        self.factor_, self.pseudo_ideal_covariances_ = result.at.factor / fit.units.size, None
        self.rest_ = (result.at.rest or 0.0) / fit.units.size**2
        self.people_axes_ = fit.axes_of_people
        if fit.posterior is not None:
            self.determined_ = fit.posterior.determined

    def _describe_low_rank_draws(self, fit: LowRankFit, why_none: str) -> None:
        """Set how sure a fit by gradients is of its law, or warn why that is not known."""
        if fit.posterior is None:
            warnings.warn(f"{why_none}; uncertainty=False leaves them out", CrowdmetricWarning, stacklevel=4)
            return
        size, d = fit.units.size, len(self.factor_)
        p, traces = degrees_of_freedom(d), fit.traces_outside
        self.scale_error_ = 0.5 * float(np.ptp(np.quantile(np.log(traces), [0.16, 0.84])))
        if p > LARGEST_KEPT:
            self.factor_draws_, self.rest_draws_ = fit.posterior.factors / size, fit.posterior.rests / size**2
            self.standard_errors_ = fit.posterior.entry_errors() / size**2
            return
        self.law_draws_ = fit.laws_outside()
        self.metric_draws_ = self.law_draws_[:, :p].copy()
        self.standard_errors_ = smat(self.metric_draws_.std(axis=0, ddof=1))
        if p + d <= MOST_PARAMETERS:
            self.metric_covariance_ = np.cov(self.metric_draws_.T).reshape(p, p)
            self.offset_covariance_ = np.cov(self.law_draws_[:, : p + d].T)

    def _announce(self, asked: QuestionStream, rank: int, loss: Loss, device: DeviceEngine | None) -> None:
        """Say that there is no GPU, or what its precision costs: as progress, or as a warning without `progress=`."""
        if self.engine == "torch" and device is None:
            words = f"no GPU was found: the CPU will take about {duration(expected_seconds(asked, rank, loss))}"
        else:
            words = "" if device is None else device.precision
        if words and self.progress is not None:
            self.progress(words)
        elif words:
            warnings.warn(words, CrowdmetricWarning, stacklevel=4)

    def __getattr__(self, name: str) -> Any:
        """Return (K, d) points, computed from `people_coordinates_` whenever they are read."""
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
        return super().decision_function(pairs, users)

    def _gaps(self, asked: AskedRows) -> Array:
        psi = super()._gaps(asked)
        effects = self._item_effects(len(asked.items)) if asked.by_row else None
        if effects is None:
            return psi
        return psi - (effects[asked.pairs[:, 0]] - effects[asked.pairs[:, 1]])

    def predict_proba(self, pairs: Any, users: Any = None) -> Array:
        """Return ``Pr[left], Pr[right]`` (T, 2), averaged over everything that is unknown.

        Unknown are where the person stands (an unknown person is anyone in the population), the law itself, and what
        this person thinks of items new to them; see `crowdmetric.fits.unknowns`.
        """
        check_is_fitted(self)
        asked = read_asked(pairs, users, self.items)
        psi = self._gaps(asked)
        variance = self._variance(asked) + self._variance_of_unknowns(asked)
        right = mean_probability(psi, variance, self._loss())
        return np.column_stack([1.0 - right, right])

    def choice_probabilities(self, choices: Choices) -> Array:
        """Return how likely each alternative of each question is to come first, averaged over everything unknown.

        Parameters
        ----------
        choices : Choices
            Whose answers are not used. People who were not in the data are anyone in the population.

        Returns
        -------
        (R,) array
            In the order of ``choices.item``; those of question q, at ``choices.offsets[q]`` up to the next offset, sum
            to one.
        """
        check_is_fitted(self)
        if not isinstance(choices, Choices):
            raise DataError(
                f"choices is of type {type(choices).__name__}; give Choices, or use predict_proba for pairs"
            )
        if not isinstance(self._loss(), Logistic):
            raise DataError(f"loss={self._loss().name!r} has no probabilities for sets; fit with loss='logistic'")
        items = check_items(self.items)
        table = matched(choices, self.item_ids, len(items))
        refuse_none([table])
        people, out = table.user_ids[table.user], np.empty(len(table.item))
        effects = self._item_effects(len(items))
        for some, places in sets_by_size(table.offsets, degrees_of_freedom(items.shape[1])):
            rows = table.item[places]
            x, known = items[rows], self._find(people[some])
            first, others = x[:, :1], x[:, 1:]
            pull = (first + others) @ self.metric_ + self._points_of(people[some])[:, None, :]
            gaps = np.einsum("nkd,nkd->nk", first - others, pull)
            if effects is not None:
                gaps += effects[rows[:, 1:]] - effects[rows[:, :1]]
            new = self._variances_of_items(rows, np.where(*known, -1))
            covariance = covariance_of_gaps(x, self._spreads_of(*known), self.unknowns(), rows, new)
            out[places] = mean_shares(gaps, covariance, self._loss().beta)
        return out

    def _spreads_of(self, known: NDArray[np.bool_], place: Indices) -> Array:
        """Return the covariance of v (n, d, d) of people who are known, at their rows of `users_`, or not."""
        spreads: Array | None = getattr(self, "pseudo_ideal_covariances_", None)
        out = np.tile(self.pseudo_ideal_covariance_, (len(known), 1, 1))
        if known.any():
            out[known] = self._usual_spread() if spreads is None else spreads[place[known]]
        return out

    def _variances_of_items(self, rows: Indices, person: Indices) -> Array:
        """Return the variance (n, k) of each item's utility that is neither the law's nor the person's."""
        unknowns, own = self.unknowns(), np.zeros(rows.shape)
        if unknowns.covariance is None:
            own += unknowns.new_item if unknowns.items is None else unknowns.items[rows]
        asked: Array | None = getattr(self, "asked_items_", None)
        if asked is None:
            return own
        return np.asarray(own + unknowns.personal * SeenItems(asked).are_new(person, rows))

    def unknowns(self) -> Unknowns:
        """Return what predictions do not know, other than where a person stands."""
        found = vars(self)
        return Unknowns(
            found.get("offset_covariance_"),
            float(found.get("item_effect_spread_", 0.0)) ** 2,
            float(found.get("new_item_spread_", 0.0)) ** 2,
            found.get("item_effect_variances_"),
        )

    def _variance_of_unknowns(self, questions: AskedRows) -> Array:
        """Return the variance of ψ (T,) from everything unknown except where the person stands."""
        unknowns, items, numbers, people = self.unknowns(), questions.items, questions.pairs, questions.people
        by_row = questions.by_row
        variance = unknowns.variance(items[numbers[:, 0]], items[numbers[:, 1]], numbers if by_row else None)
        asked: Array | None = getattr(self, "asked_items_", None)
        if people is None or asked is None:
            return variance
        known, place = self._find(people)
        new = SeenItems(asked).new_items(np.where(known, place, -1), numbers if by_row else None)
        return variance + unknowns.personal * new

    def _variance(self, questions: AskedRows) -> Array:
        """Return the variance of ψ (T,) given what is known of each person."""
        items, numbers, people = questions.items, questions.pairs, questions.people
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

    # ------------------------------------------------------------------------------------- other people and other fits

    def place(self, pairs: Any, y: Any = None, users: Any = None, sample_weight: Any = None) -> Self:
        """Return a model that knows new people by these answers, and nobody else; metric and law stay as they are.

        Parameters
        ----------
        pairs, y, users, sample_weight
            Answers as for `fit`, of known or new people. For known people give *all* their answers.
        """
        check_is_fitted(self)
        loss = self._loss()
        rows = read_rows(pairs, y, users, sample_weight, self.items, loss, everybody=True)
        if rows.items.shape[1] != self.metric_.shape[0]:
            raise DataError(
                f"pairs hold {rows.items.shape[1]} features, but the metric has {self.metric_.shape[0]}; use one space"
            )
        law = Law(self.metric_, self.pseudo_ideal_mean_, self.pseudo_ideal_covariance_)
        numbers = rows.pairs
        if rows.by_row:
            law = replace(law, effects=getattr(self, "item_effects_", None))
        elif self.items is not None:  # items as vectors are new
            numbers = numbers + len(check_items(self.items))
        answers = rows.jointly().merged()
        blocks = blocks_of(arrange(answers), answers.pairs)
        grid = largest_grid(self.integration)
        placed = copy(self)
        for name in ("people_coordinates_", "people_axes_"):
            placed.__dict__.pop(name, None)
        placed.users_ = rows.users
        placed.pseudo_ideal_points_, placed.pseudo_ideal_covariances_ = posteriors(
            blocks, law, loss, rows.users.size, grid
        )
        placed.ideal_points_ = placed._ideal(placed.pseudo_ideal_points_)
        placed.asked_items_ = SeenItems.of(rows.person, numbers).rows
        return placed

    @property
    def end(self) -> Start | None:
        """Where the fit ended, for a fit to similar answers to begin there; None where there is no such place."""
        return getattr(self, "_end", None)

    def _usual_spread(self) -> Array:
        """Return the average posterior covariance ``E[Cov(v | answers)] = Cov(v) − Cov(E[v | answers])``."""
        if "people_coordinates_" in vars(self):
            explained = self.people_axes_.T @ covariance_matrix(self.people_coordinates_) @ self.people_axes_
        else:
            explained = np.atleast_2d(np.cov(self.pseudo_ideal_points_.T, ddof=0))
        values, vectors = np.linalg.eigh(self.pseudo_ideal_covariance_ - explained)
        return (vectors * np.maximum(values, 0.0)) @ vectors.T
