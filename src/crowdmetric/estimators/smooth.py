"""One metric from smooth tastes: nobody needs an ideal point, and items are close if the same people like them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from crowdmetric.base import CrowdMetric
from crowdmetric.canonical import canonical_of_pairs
from crowdmetric.checks import function_or_none, one_of, true_or_false
from crowdmetric.engines.threads import threads_for
from crowdmetric.errors import ConvergenceWarning, DataError, NotIdentifiedWarning
from crowdmetric.inputs import Rows, check_items, check_options, origin_of, read_asked, read_rows
from crowdmetric.losses import Loss
from crowdmetric.preprocess import spreads_of
from crowdmetric.smooth.ahead import ANEW, HIDDEN, Ahead
from crowdmetric.smooth.calibration import KINDS, find_sharpness, probability_of, sharpened
from crowdmetric.smooth.covariances import SCALES, Covariances
from crowdmetric.smooth.effects import Effect
from crowdmetric.smooth.evidence import SmoothFit, curvature, revived
from crowdmetric.smooth.inducing import InducedCovariances, choose_inducing, shown_to
from crowdmetric.smooth.joint_propagation import Propagation
from crowdmetric.smooth.kernel import SHAPES
from crowdmetric.smooth.kernel_metrics import STRUCTURES, structure_of
from crowdmetric.smooth.kernel_search import Candidates, FoundKernels, Kernel, find_kernels, go_on_with
from crowdmetric.smooth.mixture import Mixture
from crowdmetric.smooth.parameter_information import MOST_WORK
from crowdmetric.smooth.people_blocks import DistinctAnswers, arrange, merged, some_people
from crowdmetric.smooth.prediction import kernel_coordinates
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
# Draws of a parameter (mostly logarithms) are kept within this distance of the estimate.
LONGEST_DRAW = 4.0
# Smallest precision in a direction of θ: rounding can make it smaller, or negative.
LEAST_CURVATURE = 1e-3


class TasteMetric(CrowdMetric):
    """Learn M from utilities that are smooth over the items, people integrated out.

    Person k finds item x as good as ``u_k(x) = b_x + μ(x) + g_k(x)`` and prefers x' to x with the probability
    ``σ(u_k(x') − u_k(x))``. The effects b of items, the crowd's taste μ and everybody's own taste g_k are Gaussian;
    the covariance of ``g_k(x)`` and ``g_k(x')`` falls with the distance ``‖x − x'‖_M``. A linear part and an effect for
    each person and item are added (`crowdmetric.smooth.covariances`). Two items are close if the same people like them.
    M and all scales are those under which the answers are most likely. Where the answers leave several kernels
    (structures and shapes) possible, predictions are averaged over these, each with the probability that its evidence
    gives it.

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
        Whether a second `fit` begins where the first ended, with its kernels.
    sharpen : bool
        Whether `fit` finds the sharpness of all kinds of questions. If not, that of a kind is found when a question of
        that kind is first asked, and is NaN until then.
    engine : None
        Anything else is an error: everybody's Gaussian factors are renewed together, in memory and on one thread,
        because a pass over people takes milliseconds to seconds. The fits of one evaluation run in parallel
        (``evaluate(jobs=…)``).
    progress : function of a str, optional
        Called during a fit with what it does, and how long the rest will take.

    Attributes
    ----------
    metric_, components_, users_, objective_, solution_
        See `CrowdMetric`. A distance of one is one length of the kernel. The metric is that of the most probable
        kernel.
    standard_errors_ : (d, d) array
        Of the entries of M, from the curvature of the evidence; zero if the structure leaves no freedom. The law of
        an entry is skewed: intervals of its logarithm, with the error ``standard_errors_ / metric_``, hold better.
    metric_draws_ : (n, p) array
        svec of metrics drawn from the posterior, from which intervals are made (`crowdmetric.intervals`). The same
        length is another distance under another shape, so draws and errors cover all kernels that the answers allow.
    kernels_, kernel_weights_ : (k, 2) array of str, (k,) array
        Structure and shape of every kernel that the answers allow, the most probable first, and their probabilities.
        Predictions and utilities are averaged over these.
    structure_, shape_ : str
        Of the most probable kernel.
    evidence_, shape_evidence_ : dict
        Highest log evidence of every structure that was tried, and of every shape.
    log_likelihood_ : float
        Of all answers under the most probable kernel, people and the crowd integrated out; never positive.
    scales_ : dict
        Standard deviations of the parts of a utility, in units of the answers' noise, and the crowd's sharpness.
        Under the most probable kernel.
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
    theta_ : list of (p,) arrays
        Logarithms of the scales and the metric's parameters, by kernel.
    answers_, factors_ : (T, 5), (k, T, 2) array
        Distinct answers, and their Gaussian factors by kernel. A saved model predicts from these.

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
        progress: Callable[[str], None] | None = None,
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
        self.progress = progress

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
        ahead = Ahead(self.progress)
        has_errors = self.uncertainty and origin == ASKED
        if has_errors:
            ahead.expect(ANEW)
        if self.sharpen:
            ahead.expect(HIDDEN * len(KINDS))
        found = self._search(self._inside(self.shown_items_), answers, ahead)
        fits = list(found.fits.values())
        best = fits[0]
        self.log_likelihood_ = best.log_likelihood
        if has_errors:
            ahead.begin("standard errors", ANEW)
            curved = [self._curvature(fit, answers, ahead) for fit in fits]
            self._describe_uncertainty(list(zip(found.weights, fits, curved, strict=True)))
        else:
            self.__dict__.pop("standard_errors_", None)
            self.__dict__.pop("metric_draws_", None)
        if isinstance(best.family, InducedCovariances):
            often = shown_to(answers, len(best.Z))
            self.not_shared_ = best.family.at(best.theta, best.Z).not_shared(often)
        else:
            self.not_shared_ = 0.0
        ahead.begin("sharpness of predictions", HIDDEN * len(KINDS))
        self.sharpness_ = find_sharpness(best, ahead=ahead) if self.sharpen else np.full(len(KINDS), np.nan)
        self.theta_ = [fit.theta for fit in fits]
        self._inverses = [fit.inverse for fit in fits]
        self.factors_ = np.stack([fit.propagation.factors(len(answers.person)) for fit in fits])
        loss = -best.log_likelihood / float(rows.weight.sum())
        metric = self._outside(best.family.metric(best.theta))
        self._finish(metric, rows.users, None, self._solution(best, loss, clock), rows.labels)
        self._tastes = self._of_fits(fits, rows.items)
        self.utilities_, self.utility_errors_ = self._tastes.utilities()
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

    def _family(self, kernel: Kernel) -> Covariances:
        """Return the covariances of the items shown."""
        exact = Covariances.of(kernel.structure, self.shown_items_.shape[1], kernel.shape)
        if len(self.inducing_) == len(self.shown_):
            return exact
        return InducedCovariances(exact.structure, exact.shape, self.inducing_)

    def _of_fits(self, fits: Sequence[SmoothFit], items: Array) -> Mixture:
        """Return the utilities of a catalog (N, d), of which those shown come first in the fields."""
        unseen = np.setdiff1d(np.arange(len(items)), self.shown_)
        number = np.empty(len(items), dtype=np.intp)
        number[np.concatenate([self.shown_, unseen])] = np.arange(len(items))
        return Mixture.of(fits, self.kernel_weights_, self._inside(items[unseen]), number)

    def _learned(self) -> Mixture:
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
            Z = self._inside(self.shown_items_)
            kernels = zip(self._kernels(), self.theta_, self.factors_, strict=True)
            fits = [revived(self._family(kernel), theta, Z, blocks, factors) for kernel, theta, factors in kernels]
            self._tastes = self._of_fits(fits, self.shown_items_ if self.items is None else check_items(self.items))
        return self._tastes

    def _kernels(self) -> list[Kernel]:
        return [Kernel(str(structure), str(shape)) for structure, shape in self.kernels_]

    def _search(self, Z: Array, answers: DistinctAnswers, ahead: Ahead) -> FoundKernels:
        """Return the kernels that the answers allow, and note which these are."""
        candidates = Candidates(
            path=_path(self.structure, Z.shape[1]), structures=_candidates(self.structure, Z.shape[1]),
            shapes=tuple(SHAPES) if self.shape == "auto" else (self.shape,), family=self._family,
            tolerance=self.tol, max_steps=self.max_iter,
        )  # fmt: skip
        ends = self._earlier_ends(Z)
        if ends:
            found = go_on_with(ends, candidates, Z, answers, ahead)
        else:
            found = find_kernels(candidates, Z, answers, ahead)
            for name, place in (("evidence_", 0), ("shape_evidence_", 1)):
                highest: dict[str, float] = {}
                for kernel, value in found.evidence.items():
                    highest[kernel[place]] = max(value, highest.get(kernel[place], -np.inf))
                setattr(self, name, highest)
        self.kernels_, self.kernel_weights_ = np.array(list(found.fits)), found.weights
        self.structure_, self.shape_ = self._kernels()[0]
        return found

    def _earlier_ends(self, Z: Array) -> dict[Kernel, SmoothFit]:
        """Return the ends of an earlier fit to go on from; nothing if it is not to be used."""
        if not (self.warm_start and hasattr(self, "_inverses")):
            return {}
        ends = {}
        for kernel, theta, inverse in zip(self._kernels(), self.theta_, self._inverses, strict=True):
            family = self._family(kernel)
            if family.start.size != theta.size:
                raise DataError(
                    f"warm_start has {theta.size} parameters to go on from, but items of {Z.shape[1]} features have "
                    f"{family.start.size}; use the items of the earlier fit, or warm_start=False"
                )
            nothing = Propagation([], len(Z))
            ends[kernel] = SmoothFit(family, theta, nothing, Z, 0.0, 0.0, inverse, 0, converged=True)
        return ends

    def _curvature(self, fit: SmoothFit, answers: DistinctAnswers, ahead: Ahead) -> Array:
        """Return the curvature (p, p) at the fit, that of some people where everybody would take too long."""
        some = some_people(answers, max(MOST_WORK, float(len(self.inducing_)) ** 3))
        more = np.unique(answers.person).size / some.size
        few = None if more == 1.0 else Propagation(arrange(answers.of(some), len(fit.Z)), len(fit.Z))
        return curvature(fit, few, more, ahead)

    @property
    def scales_(self) -> dict[str, float]:
        """Standard deviations of the parts of a utility, and the crowd's sharpness."""
        size = float(np.exp(self.theta_[0][0]))
        relative = np.exp(self.theta_[0][: len(SCALES)])
        scales = dict(zip((name for name, _, _ in SCALES), (size * relative).tolist(), strict=True))
        return scales | {"size": size, "crowd_sharpness": float(relative[-1])}

    def _describe_uncertainty(self, laws: Sequence[tuple[float, SmoothFit, Array]]) -> None:
        """Set standard errors of M, and draws of it for intervals, from laws N(θ, H⁻¹) with their probabilities.

        The first is that of the metric itself.
        """
        here = laws[0][1].family.metric(laws[0][1].theta)
        d, rng = len(here), np.random.default_rng(0)
        numbers = rng.multinomial(number_of_draws(d), [probability for probability, _, _ in laws])
        square, drawn = np.zeros((d, d)), []
        for (probability, fit, H), number in zip(laws, numbers, strict=True):
            family, theta = fit.family, fit.theta
            square += probability * (_variances(family, theta, H) + (family.metric(theta) - here) ** 2)
            # the inverse of H would have lost its smallest eigenvalues to rounding
            values, vectors = np.linalg.eigh(H)
            normal = rng.standard_normal((number, H.shape[0]))
            steps = (normal / np.sqrt(np.maximum(values, LEAST_CURVATURE))) @ vectors.T
            drawn += [
                family.metric(theta + np.clip(step, -LONGEST_DRAW, LONGEST_DRAW))
                for step in steps @ family.moving(theta)
            ]
        self.standard_errors_ = self._outside(np.sqrt(square))
        self.metric_draws_ = np.array([svec(self._outside(metric)) for metric in drawn])

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
        function_or_none(self.progress, "progress", "a sentence")
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
        seen = self.shown_items_[:, feature]
        at = np.linspace(seen.min(), seen.max(), 15) if values is None else np.asarray(values, dtype=np.float64)
        inside = (at - seen.mean()) / self._units()[feature]
        return replace(self._learned().effect(feature, inside), values=at)

    def utilities_of(self, items: ArrayLike) -> tuple[Array, Array]:
        """Return how good the crowd finds any items (n, d) by their features, less their mean, and standard errors."""
        return self._learned().utilities_of(self._inside(check_items(items)))

    def item_coordinates(self, items: ArrayLike | None = None, rank: int | None = None) -> Array:
        """Return coordinates (N, k) of items in which the same people like what is close: kernel principal components.

        ``‖y − y'‖²`` is the variance over people of the smooth and linear part of ``g(x) − g(x')``, exactly for the
        items shown where `rank` is None, else as far as k = `rank` coordinates go.
        """
        fits = [part.fit for part in self._learned().parts]
        Z = self._inside(check_items(self.shown_items_ if items is None else items))
        return kernel_coordinates(fits, self.kernel_weights_, Z, rank)

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
        placed._tastes = tastes.after_answers(answers)
        return placed

    def mean_utilities(self) -> Array:
        """Return the expected utilities of the items (K, N) of everybody in `users_`; only differences matter."""
        return self._learned().means(len(self.users_))

    def people(self) -> Iterator[tuple[Indices, Array, Array]]:
        """Yield rows of `users_` (P,), and mean (P, N) and covariance (P, N, N) of their utilities of the items."""
        tastes = self._learned()
        met = np.zeros(len(self.users_), dtype=bool)
        for who, mean, covariance in tastes.people():
            met[who] = True
            yield who, mean, covariance
        for person in np.flatnonzero(~met):  # no answer of these people is known
            mean, covariance = tastes.anybody()
            yield np.array([person]), mean[None], covariance[None]

    def decision_function(self, pairs: Any, users: Any = None) -> Array:
        """Return the mean of ψ = u(right) − u(left) (T,): negative where the left item is preferred."""
        return self.moments_of(pairs, users)[0]

    def moments_of(self, pairs: Any, users: Any = None) -> tuple[Array, Array]:
        """Return mean and variance of ψ = u(right) − u(left), (T,) each, given the answers."""
        return self._learned().merged(self._moments(pairs, users)[0])

    def predict_proba(self, pairs: Any, users: Any = None) -> Array:
        """Return ``Pr[left], Pr[right]`` (T, 2), averaged over all that the answers leave open."""
        moments, sharpness = self._moments(pairs, users)
        weighed = zip(self.kernel_weights_, moments, strict=True)
        right = sharpened(sum(weight * probability_of(*found) for weight, found in weighed), sharpness)
        return np.column_stack([1.0 - right, right])

    def _moments(self, pairs: Any, users: Any) -> tuple[list[tuple[Array, Array]], Array]:
        """Return mean and variance of ψ under every kernel, and the sharpness of questions of its kind, (T,) each."""
        tastes = self._learned()
        questions = read_asked(pairs, users, self.items)
        items, numbers, people = questions.items, questions.pairs, questions.people
        who = np.full(len(numbers), -1, dtype=np.intp)
        if people is not None:
            known, found = self._find(people)
            who[known] = found[known]
        if questions.by_row:
            asked = tastes.number[numbers]
            return tastes.moments(asked[:, 0], asked[:, 1], who), self._sharpness(asked, who)
        if not hasattr(self, "answers_"):
            raise DataError("people who were placed are known by rows of items only; give (T, 2) row numbers")
        moments, sharpness = np.empty((len(tastes.parts), 2, len(numbers))), np.empty(len(numbers))
        for rows in np.array_split(np.arange(len(numbers)), -(-len(numbers) // PAIRS_AT_ONCE)):
            moments[:, :, rows], sharpness[rows] = self._of_vectors(tastes, items[numbers[rows]], who[rows])
        return [(mean, variance) for mean, variance in moments], sharpness

    def _sharpness(self, asked: Indices, who: Indices) -> Array:
        """Return the sharpness (T,) of questions about numbers (T, 2) of the field; the less sure of two kinds."""
        best = self._learned().best
        met = np.unique(np.concatenate([block.who for block in best.field.blocks]))
        is_new_item, is_new_person = np.max(asked, axis=1) >= len(self.shown_), ~np.isin(who, met)
        found = np.full(len(who), np.inf)
        for kind, rows in (
            ("items", is_new_item), ("people", is_new_person), ("answers", ~(is_new_item | is_new_person))
        ):  # fmt: skip
            number = KINDS.index(kind)
            if rows.any() and np.isnan(self.sharpness_[number]):
                self.sharpness_[number] = find_sharpness(best.fit, (kind,))[0]
            found[rows] = np.minimum(found[rows], self.sharpness_[number])
        return found

    def _of_vectors(self, tastes: Mixture, vectors: Array, who: Indices) -> tuple[Array, Array]:
        """Return the moments (k, 2, T) for pairs (T, 2, d) of vectors: items of the fit, or new ones; and sharpness."""
        n, known = len(self.shown_), {row.tobytes(): place for place, row in enumerate(self.shown_items_)}
        flat = check_items(vectors.reshape(-1, vectors.shape[2]))
        others, own = np.unique(flat, axis=0, return_inverse=True)
        place = np.array([known.get(row.tobytes(), n + j) for j, row in enumerate(others)], dtype=np.intp)
        asked = place[own.reshape(-1)].reshape(-1, 2)
        moments = tastes.at(self._inside(others)).moments(asked[:, 0], asked[:, 1], who)
        return np.array(moments), self._sharpness(asked, who)


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
