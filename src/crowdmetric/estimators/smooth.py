"""One metric from smooth tastes: nobody needs an ideal point, and items are close if the same people like them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from crowdmetric.base import CrowdMetric
from crowdmetric.canonical import canonical_of_pairs
from crowdmetric.checks import one_of, true_or_false
from crowdmetric.engines.threads import threads_for
from crowdmetric.errors import ConvergenceWarning, DataError, NotIdentifiedWarning
from crowdmetric.inputs import Rows, check_items, check_options, origin_of, read_asked, read_rows
from crowdmetric.losses import Loss
from crowdmetric.preprocess import spreads_of
from crowdmetric.smooth.calibration import KINDS, find_sharpness, probability_of
from crowdmetric.smooth.covariances import SCALES, Covariances
from crowdmetric.smooth.effects import Effect, effects_along, utilities_over
from crowdmetric.smooth.evidence import (
    SmoothFit,
    curvature,
    fit_evidence,
    go_on,
    log_evidence,
    revived,
)
from crowdmetric.smooth.inducing import InducedCovariances, choose_inducing, shown_to
from crowdmetric.smooth.joint_propagation import Propagation
from crowdmetric.smooth.kernel import SHAPES
from crowdmetric.smooth.kernel_metrics import STRUCTURES, structure_of
from crowdmetric.smooth.people_blocks import DistinctAnswers, PeopleBlock, arrange, merged, some_people
from crowdmetric.smooth.prediction import UtilityField, field_of, kernel_coordinates
from crowdmetric.solvers.posterior import number_of_draws
from crowdmetric.solvers.solution import Solution
from crowdmetric.symmetric import svec
from crowdmetric.tables import ASKED, cut_sentence

__all__ = ["MOST_SHOWN", "TasteMetric"]

Array = NDArray[Any]
Indices = NDArray[np.intp]

# Up to this many items the crowd's utility of each item is a parameter (the work grows with the cube of their number).
# If there are more, the crowd's utilities are computed from those of this many items (`crowdmetric.smooth.inducing`).
MOST_SHOWN, INDUCING = 2_000, 500
# Features up to which 'auto' tries a full metric: it has d(d+1)/2 parameters, and a fit takes that much longer.
MOST_FEATURES_IF_FULL = 8
# Number of pairs of vectors predicted at once.
PAIRS_AT_ONCE = 500
# Scales and structure are searched on part of the crowd: its work (`people_blocks.work_of`, summed over people), the
# tolerance of the search in nats, and the work of the part from which the curvature is computed.
SEARCH_WORK, SEARCH_TOLERANCE, CURVATURE_WORK = 2e6, 0.2, 6e6
# Draws of a parameter (mostly logarithms) are kept within this distance of the estimate.
LONGEST_DRAW = 4.0
# Smallest precision in a direction of θ: rounding can make it smaller, or negative.
LEAST_CURVATURE = 1e-3
# Smallest probability of a shape, given the answers, that counts in standard errors and draws.
LEAST_PROBABLE = 0.01
# Factor between the sizes of the parts of the crowd that are fitted in turn. The whole crowd comes after a part that is
# at most three quarters of it.
GROWTH, LARGEST_PART = 4.0, 0.75


class TasteMetric(CrowdMetric):
    """Learn M from utilities that are smooth over the items, people integrated out.

    Person k finds item x as good as ``u_k(x) = b_x + μ(x) + g_k(x)`` and prefers x' to x with the probability
    ``σ(u_k(x') − u_k(x))``. The effects b of items, the crowd's taste μ and everybody's own taste g_k are Gaussian;
    the covariance of ``g_k(x)`` and ``g_k(x')`` falls with the distance ``‖x − x'‖_M``. A linear part and an effect for
    each person and item are added (`crowdmetric.smooth.covariances`). Two items are close if the same people like them.
    M and all scales are those under which the answers are most likely.

    Parameters
    ----------
    items : (N, d) array, data frame or Items
        Shared, not copied, by `clone`; ids as in `PopulationMetric`. May be None if pairs are given as vectors. Where
        more than 2,000 are compared, people share the crowd's utilities through 500 of them
        (`crowdmetric.smooth.inducing`).
    structure : {"auto", "isotropic", "diagonal", "shrunk", "full", "rank-1", "rank-2", …}
        What M may be, for standardized features. "shrunk" is any matrix, shrunk toward the isotropic one. "rank-r" is a
        matrix of rank r, any number up to d. "auto": by the evidence among the first four, with "shrunk" and "full" for
        at most 8 features.
    shape : {"auto", "matern52", "matern32", "squared-exponential"}
        How covariances fall with distance, that is, how smooth tastes are. "auto": by the evidence.
    tol : float
        Nats of evidence: the fit ends when several steps in a row gain less than this each.
    max_iter : int
    uncertainty : bool
        Whether to find standard errors of M, which takes about as long as the rest.
    warm_start : bool
        Whether a second `fit` begins where the first ended, with its structure and shape.
    sharpen : bool
        Whether `fit` finds the sharpness of all kinds of questions. If not, that of a kind is found when a question of
        that kind is first asked, and is NaN until then.
    engine : None
        Anything else is an error: everybody's Gaussian factors are renewed together, in memory and on one thread,
        because a pass over people takes milliseconds to seconds. The fits of one evaluation run in parallel
        (``evaluate(jobs=…)``).

    Attributes
    ----------
    metric_, components_, users_, objective_, solution_
        See `CrowdMetric`. A distance of one is one length of the kernel.
    standard_errors_ : (d, d) array
        Of the entries of M, from the curvature of the evidence; zero if the structure leaves no freedom. The law of
        an entry is skewed: intervals of its logarithm, with the error ``standard_errors_ / metric_``, hold better.
    metric_draws_ : (n, p) array
        svec of metrics drawn from the posterior, from which intervals are made (`crowdmetric.intervals`). The same
        length is another distance under another shape, so draws and errors cover all shapes that the answers allow.
    structure_, shape_ : str
    evidence_, shape_evidence_ : dict
        Log evidence of every structure that was tried, and of every shape with the structure chosen.
    log_likelihood_ : float
        Of all answers, people and the crowd integrated out; never positive.
    scales_ : dict
        Standard deviations of the parts of a utility, in units of the answers' noise, and the crowd's sharpness.
    sharpness_ : (3,) array
        Factor on the log-odds of predictions, for questions to known people about known items, to new people, and about
        new items. It is 1 if the model alone is as sure as it should be (`crowdmetric.smooth.calibration`).
    utilities_, utility_errors_ : (N,) array
        How good the crowd finds each item, ``b + μ``, and how sure that is; only differences matter.
    shown_, shown_items_ : (n,), (n, d) array
        Rows and features of the items that were compared, in an order that comes from the answers.
    inducing_ : (m,) array
        Numbers, among the items shown, of those that determine the crowd's utilities: all of them up to 2,000 items.
    not_shared_ : float
        Share of the variance of the crowd's utilities that is lost by this, with items counted as often as they were
        shown; 0 up to 2,000 items.
    theta_, answers_, factors_ : (p,), (T, 5), (T, 2) array
        Logarithms of the scales and the metric's parameters; distinct answers and their Gaussian factors. A saved model
        predicts from these.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric import TasteMetric
    >>> rng = np.random.default_rng(0)
    >>> items = rng.standard_normal((15, 2))
    >>> users, pairs = np.repeat(np.arange(80), 15), rng.integers(0, 15, (1200, 2))
    >>> taste = 3.0 * np.sin(2.0 * items[:, 0] + rng.uniform(0.0, 6.3, (80, 1)))  # feature 1 does not matter
    >>> gap = taste[users, pairs[:, 1]] - taste[users, pairs[:, 0]]
    >>> y = np.where(rng.random(1200) < 1.0 / (1.0 + np.exp(-gap)), 1, -1)
    >>> model = TasteMetric(items).fit(pairs, y, users=users)
    >>> bool(model.metric_[0, 0] > 4.0 * model.metric_[1, 1])
    True
    """

    # answers are logistic, and their sharpness is one of the scales that are learned
    loss: ClassVar[str | Loss] = "logistic"  # type: ignore[misc]
    beta: ClassVar[float] = 1.0  # type: ignore[misc]

    def __init__(
        self,
        items: ArrayLike | None = None,
        *,
        structure: str = "auto",
        shape: str = "auto",
        tol: float = 0.05,
        max_iter: int = 60,
        uncertainty: bool = True,
        warm_start: bool = False,
        sharpen: bool = True,
        engine: None = None,
    ) -> None:
        self.items = items
        self.structure = structure
        self.shape = shape
        self.tol = tol
        self.max_iter = max_iter
        self.uncertainty = uncertainty
        self.warm_start = warm_start
        self.sharpen = sharpen
        self.engine = engine

    def fit(self, pairs: Any, y: Any = None, users: Any = None, sample_weight: Any = None) -> Self:
        """Learn the metric.

        Parameters
        ----------
        pairs : data frame, Comparisons, ComparisonScan, (T, 2) int or str array, (T, 2, d) array
            As in `PopulationMetric.fit`. A scan is read into memory.
        y : (T,) array
            −1 left preferred, +1 right preferred; or 0 and 1, booleans (True: right), or 'left' and 'right'.
        users : (T,) array
            Who answered; None: one person.
        sample_weight : (T,) array
            How often an answer was given.
        """
        self._check_parameters()
        clock = time.perf_counter()
        rows = _distinct(read_rows(pairs, y, users, sample_weight, self.items, self._loss()))
        answers = self._prepare(rows)
        with threads_for(len(self.shown_)):
            return self._fit(rows, answers, clock, origin_of(pairs, rows))

    def _fit(self, rows: Rows, answers: DistinctAnswers, clock: float, origin: str) -> Self:
        self.made_of_ = origin
        if origin != ASKED and self.uncertainty:
            warnings.warn(cut_sentence(origin, clause=True), NotIdentifiedWarning, stacklevel=3)
        fit, shapes = self._search(self._inside(self.shown_items_), answers)
        self.log_likelihood_ = fit.log_likelihood
        if self.uncertainty and origin == ASKED:
            self._describe_uncertainty(fit, self._laws(fit, answers, shapes))
        else:
            self.__dict__.pop("standard_errors_", None)
            self.__dict__.pop("metric_draws_", None)
        if isinstance(fit.family, InducedCovariances):
            often = shown_to(answers, len(fit.Z))
            self.not_shared_ = fit.family.at(fit.theta, fit.Z).not_shared(often)
        else:
            self.not_shared_ = 0.0
        self.sharpness_ = find_sharpness(fit) if self.sharpen else np.full(len(KINDS), np.nan)
        self.theta_, self._inverse = fit.theta, fit.inverse
        self.factors_ = fit.propagation.factors(len(answers.person))
        loss = -fit.log_likelihood / float(rows.weight.sum())
        metric = self._outside(fit.family.metric(fit.theta))
        self._finish(metric, rows.users, None, self._solution(fit, loss, clock), rows.labels)
        self._tastes = self._of_fit(fit, rows.items)
        field, number = self._tastes.field, self._tastes.number
        self.utilities_ = field.mean[number]
        self.utility_errors_ = field.error[number]
        return self

    def _prepare(self, rows: Rows) -> DistinctAnswers:
        """Set which items were shown, their units and the answers about them; return these."""
        by_content = canonical_of_pairs(
            rows.person, rows.pairs, rows.response, rows.weight, rows.users.size, len(rows.items), rows.items
        )
        # whatever is drawn or sampled below goes by these numbers, not by the order of a table
        shown = by_content.sorted_items(np.unique(rows.pairs))
        number = np.empty(len(rows.items), dtype=np.intp)
        number[shown] = np.arange(shown.size)
        self.shown_, self.shown_items_ = shown, rows.items[shown]
        if not _is_auto(self.structure):
            structure_of(self.structure, rows.items.shape[1])  # refuses what it does not know
        answers = merged(rows.person, number[rows.pairs], rows.response, rows.weight)
        columns = (answers.person, answers.low, answers.high, answers.sign, answers.weight)
        self.answers_ = np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])
        self.inducing_: Indices = np.arange(shown.size, dtype=np.intp)
        if shown.size > MOST_SHOWN:
            Z = self._inside(self.shown_items_)
            simplest = Covariances.of("isotropic", Z.shape[1], next(iter(SHAPES)))
            self.inducing_ = choose_inducing(simplest, Z, shown_to(answers, shown.size), INDUCING)
        return answers

    def _family(self, structure: str, shape: str) -> Covariances:
        """Return the covariances of the items shown."""
        exact = Covariances.of(structure, self.shown_items_.shape[1], shape)
        if len(self.inducing_) == len(self.shown_):
            return exact
        return InducedCovariances(exact.structure, shape, self.inducing_)

    def _of_fit(self, fit: SmoothFit, items: Array) -> _Tastes:
        """Return the utilities of a catalog (N, d), of which those shown come first in the field."""
        unseen = np.setdiff1d(np.arange(len(items)), self.shown_)
        number = np.empty(len(items), dtype=np.intp)
        number[np.concatenate([self.shown_, unseen])] = np.arange(len(items))
        return _Tastes(fit, field_of(fit, self._inside(items[unseen])), number)

    def _learned(self) -> _Tastes:
        """Return what predictions need; of a model that was saved and loaded, made again from what was kept."""
        check_is_fitted(self)
        if not hasattr(self, "_tastes"):
            if not hasattr(self, "answers_"):
                raise DataError(
                    "people who were placed are not kept in a saved model; save the model of the fit, and place them "
                    "again after loading it"
                )
            person, low, high = self.answers_[:, :3].T.astype(np.intp)
            blocks = arrange(
                DistinctAnswers(person, low, high, self.answers_[:, 3], self.answers_[:, 4]), len(self.shown_)
            )
            family = self._family(str(self.structure_), str(self.shape_))
            fit = revived(family, self.theta_, self._inside(self.shown_items_), blocks, self.factors_)
            self._tastes = self._of_fit(fit, self.shown_items_ if self.items is None else check_items(self.items))
        return self._tastes

    def _search(self, Z: Array, answers: DistinctAnswers) -> tuple[SmoothFit, _Shapes]:
        """Return the fit to everybody, of the structure of the highest evidence among some people, and their shapes.

        Each fit begins where the fit to a quarter of its people ended.
        """
        n_people = np.unique(answers.person).size
        fit, size, work, shapes = self._earlier_end(Z), n_people, SEARCH_WORK, _Shapes({}, 1.0)
        if fit is None:
            some = some_people(answers, work)
            shapes = self._choose(Z, arrange(answers.of(some), len(Z)), n_people / some.size)
            fit, size = shapes.fits[self.shape_], some.size
            if size == n_people:
                return fit, shapes
        while size < n_people:
            work *= GROWTH
            some = some_people(answers, work)
            if some.size > LARGEST_PART * n_people:
                break
            if some.size == size:
                continue
            tolerance = max(self.tol, SEARCH_TOLERANCE)
            blocks = arrange(answers.of(some), len(Z))
            fit = go_on(fit, Z, blocks, some.size / size, tolerance=tolerance, max_steps=self.max_iter)
            size = some.size
        everybody = arrange(answers, len(Z))
        return go_on(fit, Z, everybody, n_people / size, tolerance=self.tol, max_steps=self.max_iter), shapes

    def _choose(self, Z: Array, blocks: list[PeopleBlock], more: float) -> _Shapes:
        """Choose structure, then shape, of the highest evidence for `more` times the people; return all shapes."""
        tolerance = self.tol if more == 1.0 else max(self.tol, SEARCH_TOLERANCE)

        def fitted(structure: str, shape: str, before: SmoothFit | None) -> SmoothFit:
            family = self._family(structure, shape)
            start = inverse = None
            if before is not None and before.family.structure == family.structure:
                start, inverse = before.theta, before.inverse
            elif before is not None:
                start = family.like(before.family, before.theta)
            return fit_evidence(
                family, Z, blocks, start=start, inverse=inverse, tolerance=tolerance, max_steps=self.max_iter
            )

        shapes = list(SHAPES) if self.shape == "auto" else [self.shape]
        structures: dict[str, SmoothFit] = {}
        fit: SmoothFit | None = None
        for name in _path(self.structure, Z.shape[1]):
            fit = structures[name] = fitted(name, shapes[0], fit)
        candidates = _candidates(self.structure, Z.shape[1])
        self.evidence_ = {name: log_evidence(structures[name], more) for name in candidates}
        self.structure_ = max(self.evidence_, key=lambda name: self.evidence_[name])
        found = {shapes[0]: structures[self.structure_]}
        found |= {shape: fitted(self.structure_, shape, found[shapes[0]]) for shape in shapes[1:]}
        self.shape_evidence_ = {shapes[0]: self.evidence_[self.structure_]}
        self.shape_evidence_ |= {shape: log_evidence(found[shape], more) for shape in shapes[1:]}
        self.shape_ = max(self.shape_evidence_, key=lambda shape: self.shape_evidence_[shape])
        return _Shapes(found, more)

    def _earlier_end(self, Z: Array) -> SmoothFit | None:
        """Return the end of an earlier fit to go on from; None if it is not to be used."""
        if not (self.warm_start and hasattr(self, "_inverse")):
            return None
        family = self._family(str(self.structure_), str(self.shape_))
        if family.start.size != self.theta_.size:
            raise DataError(
                f"warm_start has {self.theta_.size} parameters to go on from, but items of {Z.shape[1]} features have "
                f"{family.start.size}; use the items of the earlier fit, or warm_start=False"
            )
        nothing = Propagation([], len(Z))
        return SmoothFit(family, self.theta_, nothing, Z, 0.0, 0.0, self._inverse, 0, converged=True)

    def _curvature(self, fit: SmoothFit, answers: DistinctAnswers) -> Array:
        """Return the curvature (p, p) at the fit, that of some people where everybody would take too long."""
        some = some_people(answers, CURVATURE_WORK)
        more = np.unique(answers.person).size / some.size
        if more == 1.0:
            return curvature(fit)
        few = Propagation(arrange(answers.of(some), len(fit.Z)), len(fit.Z))
        return curvature(replace(fit, propagation=few), more)

    @property
    def scales_(self) -> dict[str, float]:
        """Standard deviations of the parts of a utility, and the crowd's sharpness."""
        size = float(np.exp(self.theta_[0]))
        relative = np.exp(self.theta_[: len(SCALES)])
        scales = dict(zip((name for name, _, _ in SCALES), (size * relative).tolist(), strict=True))
        return scales | {"size": size, "crowd_sharpness": float(relative[-1])}

    def _laws(self, fit: SmoothFit, answers: DistinctAnswers, shapes: _Shapes) -> list[tuple[float, Array, Array]]:
        """Return probability, mean and precision of θ under every shape that the answers leave possible.

        Shapes were compared on some of the people. Under another shape θ differs from the fit by as much as it did
        there.
        """
        laws = [(1.0, fit.theta, self._curvature(fit, answers))]
        for shape, other in shapes.fits.items():
            odds = np.exp(self.shape_evidence_[shape] - self.shape_evidence_[self.shape_])
            if shape != self.shape_ and odds > LEAST_PROBABLE:
                theta = fit.theta + other.theta - shapes.fits[self.shape_].theta
                laws.append((float(odds), theta, curvature(other, shapes.more)))
        total = sum(odds for odds, _, _ in laws)
        return [(odds / total, theta, H) for odds, theta, H in laws]

    def _describe_uncertainty(self, fit: SmoothFit, laws: list[tuple[float, Array, Array]]) -> None:
        """Set standard errors of M, and draws of it for intervals, from laws N(θ, H⁻¹) with their probabilities."""
        d, rng = fit.Z.shape[1], np.random.default_rng(0)
        numbers = rng.multinomial(number_of_draws(d), [probability for probability, _, _ in laws])
        square, drawn = np.zeros((d, d)), []
        for (probability, theta, H), number in zip(laws, numbers, strict=True):
            apart = fit.family.metric(theta) - fit.family.metric(fit.theta)
            square += probability * (_variances(fit.family, theta, H) + apart**2)
            # the inverse of H would have lost its smallest eigenvalues to rounding
            values, vectors = np.linalg.eigh(H)
            normal = rng.standard_normal((number, H.shape[0]))
            steps = (normal / np.sqrt(np.maximum(values, LEAST_CURVATURE))) @ vectors.T
            drawn += list(theta + np.clip(steps @ fit.family.moving(theta), -LONGEST_DRAW, LONGEST_DRAW))
        self.standard_errors_ = self._outside(np.sqrt(square))
        self.metric_draws_ = np.array([svec(self._outside(fit.family.metric(theta))) for theta in drawn])

    def _solution(self, fit: SmoothFit, loss: float, clock: float) -> Solution:
        if fit.converged:
            status = f"The last steps gained less than {self.tol:g} nats of evidence each."
        else:
            status = f"Stopped after {fit.steps} steps, before the evidence was highest; raise max_iter or tol."
            warnings.warn(status, ConvergenceWarning, stacklevel=3)
        return Solution(status, fit.converged, loss, float("nan"), fit.steps, time.perf_counter() - clock)

    def _units(self) -> Array:
        """Return the spread (d,) of every feature over the items shown; 1 where they are all alike."""
        return spreads_of(self.shown_items_)

    def _inside(self, items: Array) -> Array:
        """Return items in standardized features."""
        return np.asarray((items - self.shown_items_.mean(axis=0)) / self._units())

    def _outside(self, matrix: Array) -> Array:
        """Return a matrix (d, d) of standardized features for features in their own units."""
        return np.asarray(matrix / np.outer(self._units(), self._units()))

    def _check_parameters(self) -> None:
        one_of(self.shape, "shape", ("auto", *SHAPES))
        for name in ("uncertainty", "warm_start", "sharpen"):
            true_or_false(getattr(self, name), name)
        check_options(self.tol, self.max_iter, 2, 0)
        if self.engine is not None:
            raise DataError(
                f"engine={self.engine!r} has no effect here: what people answered and what they share are found "
                "together, on one thread of this machine; leave engine out, or fit a PopulationMetric on it"
            )

    # ------------------------------------------------------------------------------------- what tastes look like

    def effect_of(self, feature: int, values: ArrayLike | None = None) -> Effect:
        """Return the crowd's utility along a feature, by its column, with errors and how people scatter around it.

        Averaged over items with their other features as they are; values are in the items' own units, by default 15
        from the least to the largest of the items shown.
        """
        fit, seen = self._learned().fit, self.shown_items_[:, feature]
        at = np.linspace(seen.min(), seen.max(), 15) if values is None else np.asarray(values, dtype=np.float64)
        inside = (at - seen.mean()) / self._units()[feature]
        return replace(effects_along(fit, feature, inside), values=at)

    def utilities_of(self, items: ArrayLike) -> tuple[Array, Array]:
        """Return how good the crowd finds any items (n, d) by their features, less their mean, and standard errors."""
        return utilities_over(self._learned().fit, self._inside(check_items(items)))

    def item_coordinates(self, items: ArrayLike | None = None, rank: int | None = None) -> Array:
        """Return coordinates (N, k) of items in which the same people like what is close: kernel principal components.

        ``‖y − y'‖²`` is the variance over people of the smooth and linear part of ``g(x) − g(x')``, exactly for the
        items shown where `rank` is None, else as far as k = `rank` coordinates go.
        """
        fit = self._learned().fit
        Z = self._inside(check_items(self.shown_items_ if items is None else items))
        return kernel_coordinates(fit, Z, rank)

    # ------------------------------------------------------------------------------------- predictions

    def place(self, pairs: Any, y: Any = None, users: Any = None) -> Self:
        """Return a model that knows new people by these answers, and nobody else; the crowd stays as it is.

        Pairs are row numbers into the items of the fit, or Comparisons.
        """
        tastes = self._learned()
        rows = read_rows(pairs, y, users, None, self.items, self._loss())
        if not rows.by_row:
            raise DataError("place needs pairs of row numbers into items; give (T, 2) numbers or Comparisons")
        answers = merged(rows.person, tastes.number[rows.pairs], rows.response, rows.weight)
        placed = copy(self)
        placed.users_ = rows.users
        placed.__dict__.pop("answers_", None)  # other people: a saved model must not confuse them
        placed._tastes = _Tastes(tastes.fit, tastes.field.after_answers(answers), tastes.number)
        return placed

    def mean_utilities(self) -> Array:
        """Return the expected utilities of the items (K, N) of everybody in `users_`; only differences matter."""
        tastes = self._learned()
        found = np.tile(tastes.field.mean[tastes.number], (len(self.users_), 1))  # no answer of these people is known
        for who, mean in tastes.field.means():
            found[who] = mean[:, tastes.number]
        return found

    def people(self) -> Iterator[tuple[Indices, Array, Array]]:
        """Yield rows of `users_` (P,), and mean (P, N) and covariance (P, N, N) of their utilities of the items."""
        tastes = self._learned()
        met = np.zeros(len(self.users_), dtype=bool)
        for who, mean, covariance in tastes.field.utilities():
            met[who] = True
            yield who, mean[:, tastes.number], covariance[:, tastes.number[:, None], tastes.number]
        for person in np.flatnonzero(~met):  # no answer of these people is known
            both = np.asarray(tastes.field.person) + np.asarray(tastes.field.crowd)
            anybody = both[tastes.number[:, None], tastes.number]
            yield np.array([person]), tastes.field.mean[tastes.number][None], anybody[None]

    def decision_function(self, pairs: Any, users: Any = None) -> Array:
        """Return the mean of ψ = u(right) − u(left) (T,): negative where the left item is preferred."""
        return self._moments(pairs, users)[0]

    def moments_of(self, pairs: Any, users: Any = None) -> tuple[Array, Array]:
        """Return mean and variance of ψ = u(right) − u(left), (T,) each, given the answers."""
        mean, variance, _ = self._moments(pairs, users)
        return mean, variance

    def predict_proba(self, pairs: Any, users: Any = None) -> Array:
        """Return ``Pr[left], Pr[right]`` (T, 2), averaged over all that the answers leave open."""
        right = probability_of(*self._moments(pairs, users))
        return np.column_stack([1.0 - right, right])

    def _moments(self, pairs: Any, users: Any) -> tuple[Array, Array, Array]:
        """Return mean and variance of ψ and the sharpness of questions of its kind, (T,) each."""
        tastes = self._learned()
        questions = read_asked(pairs, users, self.items)
        items, numbers, people = questions.items, questions.pairs, questions.people
        who = np.full(len(numbers), -1, dtype=np.intp)
        if people is not None:
            known, found = self._find(people)
            who[known] = found[known]
        if questions.by_row:
            asked = tastes.number[numbers]
            return *tastes.field.moments(asked[:, 0], asked[:, 1], who), self._sharpness(asked, who)
        if not hasattr(self, "answers_"):
            raise DataError("people who were placed are known by rows of items only; give (T, 2) row numbers")
        moments = np.empty((3, len(numbers)))
        for rows in np.array_split(np.arange(len(numbers)), -(-len(numbers) // PAIRS_AT_ONCE)):
            moments[:, rows] = self._of_vectors(tastes.fit, items[numbers[rows]], who[rows])
        return moments[0], moments[1], moments[2]

    def _sharpness(self, asked: Indices, who: Indices) -> Array:
        """Return the sharpness (T,) of questions about numbers (T, 2) of the field; the less sure of two kinds."""
        field = self._learned().field
        met = np.unique(np.concatenate([block.who for block in field.blocks]))
        is_new_item, is_new_person = np.max(asked, axis=1) >= len(self.shown_), ~np.isin(who, met)
        found = np.full(len(who), np.inf)
        for kind, rows in (
            ("items", is_new_item), ("people", is_new_person), ("answers", ~(is_new_item | is_new_person))
        ):  # fmt: skip
            number = KINDS.index(kind)
            if rows.any() and np.isnan(self.sharpness_[number]):
                self.sharpness_[number] = find_sharpness(self._learned().fit, (kind,))[0]
            found[rows] = np.minimum(found[rows], self.sharpness_[number])
        return found

    def _of_vectors(self, fit: SmoothFit, vectors: Array, who: Indices) -> tuple[Array, Array, Array]:
        """Return the moments for pairs (T, 2, d) of vectors: items of the fit, or new ones."""
        n, known = len(fit.Z), {row.tobytes(): place for place, row in enumerate(self.shown_items_)}
        flat = check_items(vectors.reshape(-1, vectors.shape[2]))
        others, own = np.unique(flat, axis=0, return_inverse=True)
        place = np.array([known.get(row.tobytes(), n + j) for j, row in enumerate(others)], dtype=np.intp)
        asked = place[own.reshape(-1)].reshape(-1, 2)
        moments = field_of(fit, self._inside(others)).moments(asked[:, 0], asked[:, 1], who)
        return *moments, self._sharpness(asked, who)


@dataclass(frozen=True)
class _Tastes:
    """What predictions need: the fit, utilities of the catalog, and where its items (N,) stand in them."""

    fit: SmoothFit
    field: UtilityField
    number: Indices


@dataclass(frozen=True)
class _Shapes:
    """Fits of one structure with every shape, to one of `more` parts of the people."""

    fits: dict[str, SmoothFit]
    more: float


def _variances(family: Covariances, theta: Array, H: Array) -> Array:
    """Return variances (d, d) of the entries of M by the delta method."""
    d = len(family.metric(theta))
    entries, change = family.changes(theta)
    there = np.linalg.solve(H, change)
    variances = np.zeros(d * d)
    variances[entries] = np.maximum(np.sum(change * there, axis=0), 0.0)
    return variances.reshape(d, d)


def _path(structure: str, d: int) -> tuple[str, ...]:
    """Return the structures to fit, each from the end of the one before: candidates, or the way to a low rank."""
    candidates = _candidates(structure, d)
    return candidates if structure in ("auto", *STRUCTURES) else ("diagonal", *candidates)


def _is_auto(structure: Any) -> bool:
    return isinstance(structure, str) and structure == "auto"


def _candidates(structure: str, d: int) -> tuple[str, ...]:
    """Return the structures to try, the simplest first; with one feature all are isotropic."""
    if structure != "auto":
        return (structure,)
    if d == 1:
        return ("isotropic",)
    return tuple(STRUCTURES) if d <= MOST_FEATURES_IF_FULL else ("isotropic", "diagonal")


def _distinct(rows: Rows) -> Rows:
    """Return rows whose items are distinct where they were given as vectors; those of a catalog stay as they are."""
    if rows.by_row:
        return rows
    items, place = np.unique(rows.items, axis=0, return_inverse=True)
    return replace(rows, items=items, pairs=place.reshape(-1)[rows.pairs])
