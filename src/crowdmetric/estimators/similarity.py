"""`SimilarityMetric`: a metric from judgements of similarity, "which is more like this?".

The class holds the steps of a fit. The mathematics is in `crowdmetric.similarity`, whose docstring lists the modules.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from sklearn.utils.validation import check_is_fitted

from crowdmetric.base import CrowdMetric
from crowdmetric.checks import one_of, positive_number, real_number, seed_number, shown, true_or_false, whole_number
from crowdmetric.engines.threads import one_thread_each
from crowdmetric.errors import ConvergenceWarning, DataError, NotIdentifiedWarning
from crowdmetric.estimators.similarity_inputs import read_judgements
from crowdmetric.fits.doubts import LOOSE_SCALE
from crowdmetric.inputs import weights_of
from crowdmetric.judgements import Judgements
from crowdmetric.similarity.clustering import clustering_of
from crowdmetric.similarity.factored import FactoredFit, fit_factored
from crowdmetric.similarity.likelihood import LINKS, AnswerModel
from crowdmetric.similarity.metric_draws import draw_judged, draw_structured
from crowdmetric.similarity.newton import fit_with_evidence, posterior_covariance
from crowdmetric.similarity.objective import CHUNK, SimilarityObjective
from crowdmetric.similarity.pair_choices import PairChoices, questions_of
from crowdmetric.similarity.personal_metrics import OwnMetrics, fit_people
from crowdmetric.similarity.structure_choice import BETTER, LEFT_OUT, StructureChoice, choose_structure
from crowdmetric.similarity.structures import STRUCTURES, MetricStructure
from crowdmetric.similarity.symmetric_fit import symmetric_fit
from crowdmetric.solvers.shape_draws import draw_around
from crowdmetric.solvers.solution import Solution
from crowdmetric.symmetric import degrees_of_freedom, smat, svec
from crowdmetric.tables import is_data_frame

__all__ = ["SimilarityMetric"]

Array = NDArray[Any]

# Up to this many parameters curvature is used (a full metric of d ≤ 44 features); beyond, only gradients.
LARGEST_NEWTON = 1_000
# Maximum number of rounds that alternate between the lapse rate and the metric, and the change of the rate at which
# they stop.
LAPSE_ROUNDS, LAPSE_SETTLED = 8, 1e-3
LARGEST_LAPSE = 0.5
PEOPLE = ("shared", "own")
# If features differ by less than this share of their size, all items count as equal.
SAME_FEATURES = 1e-14
# With fewer people than this, intervals that count people are known poorly themselves.
FEW_PEOPLE = 10
SEPARABLE = (
    "the answers are separable: some metric explains every one of them, and the larger it is, the better, so that only "
    "a weak prior limits its size; rely on ratios of distances, not on metric_ itself"
)
SIZE_UNKNOWN = (
    "the size of the metric is not known: the answers say too little about it; rely on ratios of distances, not on "
    "metric_ itself"
)
# Attributes that only some fits set; removed before the next fit.
NOT_ALWAYS_FOUND = (
    "standard_errors_", "symmetric_metric_", "symmetric_covariance_", "symmetric_log_likelihood_",
    "metric_covariance_", "metric_draws_",
    "person_metrics_", "people_spread_",
    "people_spread_interval_", "people_differ_", "parameter_covariance_",
    "candidates_", "determined_", "rank_", "scale_error_", "clustering_",
)  # fmt: skip


class SimilarityMetric(CrowdMetric):
    """Learn a metric from similarity judgements: triplets, odd-one-outs and quadruplets.

    Of the pairs that a question offers, the one of the smallest distance is the most likely to be called the closest:
    ``Pr[j] ∝ exp(−β d²_M(pair j))``, a logistic model for two pairs and a softmax for three. The log-likelihood is
    concave in M, so the optimum over positive semi-definite matrices is found and certified.

    Parameters
    ----------
    items : (N, d) array, data frame or Items
        Item vectors; shared, not copied; ids as in `PopulationMetric`. Features in different units should be
        standardized first (`crowdmetric.preprocess.ItemMap`).
    structure : {'auto', 'full', 'diagonal', 'identity'}, default 'auto'
        Auto: the structure that best predicts judgements about items left out. Off-diagonal entries are shrunk toward
        zero by as much as improves these predictions. If there are too few items to leave some out, the evidence
        decides.
    left_out : {'items', 'questions'}, default 'items'
        With structure='auto': what is left out to choose it. Use 'questions' if nobody will ask about other items than
        these: a full metric may then learn what is particular to them.
    rank : int or 'auto', optional
        Largest rank of the metric; 'auto' finds the one that best predicts judgements about items left out. The fit
        then uses gradients alone and has no standard errors.
    link : {'squared', 'distance', 'auto'}, default 'squared'
        Whether people compare squared distances or distances. The latter often predicts probabilities better, but the
        problem is then no longer convex: there is no certificate. Auto: as the structure, by what predicts answers that
        were left out.
    lapse : None, float, 'estimate' or 'checks', default None
        Share of careless answers: none, a given number, estimated (not convex), or from check questions.
    people : {'shared', 'own'}, default 'shared'
        One metric for all, or a metric per person, shrunk toward the crowd's by as much as the evidence requires.
    beta : float, default 1.0
        Sharpness of the answers. Only βM is identified: a larger β gives a smaller metric of the same shape.
    uncertainty : bool, default True
        Whether to draw from the posterior of the metric, for standard errors and intervals; for up to 44 features.
        `metric_` is not the mean of these draws but the most likely shape at the most likely size, which is certified
        where that is possible.
    folds : int, default 5
        Groups of items or questions that are left out in turn to choose a structure.
    tol : float, default 1e-8
        Stop when a step would gain less log-likelihood (in nats, over all answers).
    max_iter : int, default 200
    random_state : int, default 0
        Random seed of the groups that are left out, and of the start of a fit of low rank.

    Attributes
    ----------
    metric_, components_, objective_, solution_
        See `CrowdMetric`.
    users_ : (K,) array
        Who answered; with people='own', in the order of `person_metrics_`.
    structure_, link_, lapse_ : str, str, float
        What was chosen, given or estimated.
    candidates_ : list of str
        With structure='auto': what was tried, and the mean log-likelihood of answers that were left out.
    log_likelihood_ : float
        Log-likelihood of all answers at the metric found.
    ridge_ : float
        Strength τ of the ridge ``½τ‖M/c − I‖²``, c = tr M / d, on the metric's diagonal (its off-diagonal entries
        have a strength of their own); zero if there is none. The size c is the one that the evidence asks for, with
        the shape integrated out (`crowdmetric.similarity.size`).
    determined_ : float
        How many shape parameters the answers determine; absent if the fit uses gradients alone.
    rank_ : int
        The largest rank that was allowed; only if the fit uses gradients alone.
    clustering_ : float
        How many answers of one person tell as much as one of somebody else; intervals count answers accordingly. 1 if
        it is not known who answered, or answers of one person do not go together. Absent if the fit uses gradients
        alone.
    scale_error_ : float
        Standard error of the logarithm of the metric's size, its mean eigenvalue; infinite if that is not known, absent
        if the fit uses gradients alone. It agrees with the evidence at half and at twice the size.
    parameter_covariance_ : (n, n) array
        Covariance of the parameters of the chosen structure, over which predictions are averaged; absent with
        people='own'.
    metric_draws_, standard_errors_, metric_covariance_ : (n, p), (d, d), (p, p) arrays
        svec of metrics drawn from the posterior, from which intervals are made; standard deviations of the entries and
        covariance of svec over them. With people='own' they include how much people differ.
    symmetric_metric_, symmetric_covariance_ : (d, d), (p, p) arrays
        The fit without the cone, and the covariance of its svec.
    symmetric_log_likelihood_ : float
        Log-likelihood of all answers at that fit; NaN if it needed a ridge.
    person_metrics_ : (K, d, d) array
        With people='own': everybody's metric.
    people_spread_, people_spread_interval_, people_differ_ : float, (2,) array, bool
        With people='own': the root mean square of ``‖M_k − M‖ / ‖M‖`` under the law ``M_k = L (I + E_k)² Lᵀ``, with a
        90 % interval, and whether one metric is not enough.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric import SimilarityMetric
    >>> from crowdmetric.simulate_judgements import simulate_judgements
    >>> from crowdmetric.symmetric import shape_error
    >>> study = simulate_judgements(30, 3, 5000, seed=0)
    >>> model = SimilarityMetric(study.items).fit(study.judgements)
    >>> shape_error(model.metric_, study.metric) < 0.15
    True
    >>> model.predict([[0, 1, 2]]).shape
    (1,)
    """

    loss = "logistic"

    def __init__(
        self,
        items: ArrayLike | None = None,
        *,
        structure: str = "auto",
        left_out: str = "items",
        rank: int | str | None = None,
        link: str = "squared",
        lapse: float | str | None = None,
        people: str = "shared",
        beta: float = 1.0,
        uncertainty: bool = True,
        folds: int = 5,
        tol: float = 1e-8,
        max_iter: int = 200,
        random_state: int = 0,
    ) -> None:
        self.items = items
        self.structure = structure
        self.left_out = left_out
        self.rank = rank
        self.link = link
        self.lapse = lapse
        self.people = people
        self.beta = beta
        self.uncertainty = uncertainty
        self.folds = folds
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    # ------------------------------------------------------------------------------------- the fit

    def fit(self, judgements: Any, y: Any = None, users: Any = None) -> Self:
        """Learn the metric.

        Parameters
        ----------
        judgements : data frame, Judgements, sequence of Judgements, (T, 3 or 4) array, (T, 3 or 4, d) array
            A data frame has the columns of `Judgements.from_table`, and its items are matched to `items` by id. Arrays
            hold rows of items, their ids as text, or the vectors: anchor, closer, farther; or the closer pair, then the
            other one.
        y : (T,) array, optional
            With arrays: −1 where the first option (or pair) is closer, +1 where the second is; None: all −1.
        users : (T,) array, optional
            With arrays: who answered.
        """
        clock = perf_counter()
        self._check()
        items, tables = read_judgements(judgements, y, users, self.items, merge=True)
        questions = questions_of(tables)
        center = items[np.unique(questions.pairs)].mean(axis=0)
        size = float(np.sqrt(np.mean(np.sum((items[np.unique(questions.pairs)] - center) ** 2, axis=1))))
        if size <= SAME_FEATURES * float(np.abs(center).max()):
            raise DataError(
                "all items that were judged have the same features, so that no metric can tell them apart; "
                "add features by which they differ"
            )
        inside = (items - center) / size
        if not questions.tell_distances_apart(inside):
            raise DataError(
                "the options of every question are equally far apart under every metric: they have the same features, "
                "or lie on opposite sides of the anchor; ask about items that differ"
            )
        for name in NOT_ALWAYS_FOUND:
            self.__dict__.pop(name, None)
        if self.rank is not None or self._parameters(items.shape[1]) > LARGEST_NEWTON:
            return self._fit_by_gradients(inside, questions, tables, size, clock)
        with one_thread_each():  # matrices are small: threads would only wait for each other
            choice, likelihood = self._fit_likelihood(inside, questions, tables)
            own = self._fit_people(choice, tables) if self.people == "own" else None
            self.clustering_ = 1.0 if self.people == "own" else _clustering(choice, tables)
            self._describe(choice, likelihood, own, size)
            if self.uncertainty and degrees_of_freedom(items.shape[1]) <= LARGEST_NEWTON:
                self._describe_uncertainty(choice, own, size)
        theta = choice.fit.theta if own is None else own.theta
        metric = choice.objective.structure.metric(theta) / size**2
        people = _people(tables)
        status = self._status(choice, own, len(people))
        gap = choice.fit.gap / questions.n_answers
        solution = Solution(
            status, choice.fit.converged, choice.fit.value / questions.n_answers, gap, choice.fit.iterations,
            perf_counter() - clock,
        )  # fmt: skip
        if not choice.fit.converged:
            warnings.warn(status, ConvergenceWarning, stacklevel=2)
        for doubt in self._doubts(choice):
            warnings.warn(doubt, NotIdentifiedWarning, stacklevel=2)
        self._finish(metric, people, None, solution)
        return self

    def _check(self) -> None:
        positive_number(self.beta, "beta")
        positive_number(self.tol, "tol")
        allowed = {
            "structure": ("auto", *STRUCTURES), "left_out": tuple(LEFT_OUT), "link": (*LINKS, "auto"),
            "people": PEOPLE,
        }  # fmt: skip
        for name, values in allowed.items():
            one_of(getattr(self, name), name, values)
        true_or_false(self.uncertainty, "uncertainty")
        for name, least in (("folds", 2), ("max_iter", 1)):
            whole_number(getattr(self, name), name, least)
        seed_number(self.random_state, "random_state")
        lapse = self.lapse
        number = 0.0 <= real_number(lapse) <= LARGEST_LAPSE
        if not (lapse is None or number or (isinstance(lapse, str) and lapse in ("estimate", "checks"))):
            raise DataError(
                f"lapse={shown(lapse)} is not None, a share from 0 to {LARGEST_LAPSE:g}, 'estimate' or 'checks'"
            )

    def _parameters(self, d: int) -> int:
        """Return how many parameters the metric of d features may have: few for one that is diagonal."""
        return STRUCTURES["full" if self.structure == "auto" else self.structure](d).size

    def _fit_likelihood(
        self, items: Array, questions: PairChoices, tables: tuple[Judgements, ...]
    ) -> tuple[StructureChoice, AnswerModel]:
        """Return the best fit, over links and lapse rates where those are open."""
        lapse = self._given_lapse(tables)
        links = LINKS if self.link == "auto" else (self.link,)
        fits = []
        for link in links:
            likelihood = AnswerModel(self.beta, link, 0.0 if lapse is None else lapse)
            choice = self._fit_structure(items, questions, likelihood)
            if lapse is None:
                choice, likelihood = self._fit_lapse(items, questions, choice, likelihood)
            fits.append((choice, likelihood))
        if len(fits) == 1:
            return fits[0]
        simple, other = fits
        needed = 0.0 if simple[0].left_out is None else BETTER
        best, rest = (other, simple) if other[0].merit > simple[0].merit + needed else (simple, other)
        return replace(best[0], why_link=best[0].summary_of_link(rest[0])), best[1]

    def _given_lapse(self, tables: tuple[Judgements, ...]) -> float | None:
        """Return the lapse rate, or None if it is to be estimated."""
        if self.lapse == "estimate":
            return None
        if self.lapse != "checks":
            return 0.0 if self.lapse is None else float(self.lapse)
        rates = [table.checks.lapse_rate for table in tables if table.checks is not None]
        known = [rate for rate in rates if not np.isnan(rate)]
        if not known:
            raise DataError("lapse='checks' needs check questions, and there are none; use lapse='estimate' or None")
        return min(float(np.mean(known)), LARGEST_LAPSE)

    def _fit_lapse(
        self, items: Array, questions: PairChoices, choice: StructureChoice, likelihood: AnswerModel
    ) -> tuple[StructureChoice, AnswerModel]:
        """Find a lapse rate and the metric in turn."""
        for _ in range(LAPSE_ROUNDS):
            D = choice.objective.distances(choice.fit.theta)
            before = likelihood.lapse
            found = minimize_scalar(
                partial(_value_with_lapse, likelihood, questions, D), bounds=(0.0, LARGEST_LAPSE),
                method="bounded", options={"xatol": 1e-5},
            )  # fmt: skip
            likelihood = replace(likelihood, lapse=float(found.x) if found.x > 1e-4 else 0.0)
            if abs(likelihood.lapse - before) < LAPSE_SETTLED:
                break
            choice = self._fit_structure(items, questions, likelihood)
        return choice, likelihood

    def _fit_structure(self, items: Array, questions: PairChoices, likelihood: AnswerModel) -> StructureChoice:
        stopping: dict[str, Any] = {"tolerance": self.tol, "max_iterations": self.max_iter}
        if self.structure == "auto" or self.link == "auto":
            names = STRUCTURES if self.structure == "auto" else (self.structure,)
            how: dict[str, Any] = {"left_out": self.left_out, "folds": self.folds, "seed": self.random_state}
            return choose_structure(items, questions, likelihood, names=tuple(names), **how, **stopping)
        objective = SimilarityObjective(items, questions, likelihood, STRUCTURES[self.structure](items.shape[1]))
        fit = fit_with_evidence(objective, **stopping)
        return StructureChoice.given(objective, fit)

    def _fit_people(self, choice: StructureChoice, tables: tuple[Judgements, ...]) -> OwnMetrics:
        if len(tables) > 1:
            raise DataError("people='own' takes one table of judgements; fit each kind on its own")
        if tables[0].n_people < 2:
            raise DataError("people='own' needs judgements of at least two people; add the column person")
        # the same pairs in the same order: rows of the design can be shared
        return fit_people(choice.objective, choice.fit, questions_of(tables, by_person=True), tables[0].n_people)

    # ------------------------------------------------------------------------------------- what was found

    def _describe(self, choice: StructureChoice, likelihood: AnswerModel, own: OwnMetrics | None, size: float) -> None:
        structure, fit = choice.objective.structure, choice.fit
        self.structure_, self.link_, self.lapse_ = structure.name, likelihood.link, likelihood.lapse
        self.log_likelihood_ = -fit.value
        scale = float(np.trace(structure.metric(fit.theta))) / choice.objective.items.shape[1]
        self.ridge_ = fit.strengths[0] * scale**2 if fit.strengths else 0.0
        self.determined_ = float(sum(fit.determined))
        self.scale_error_ = (fit.size.error if fit.size is not None else float("nan")) * np.sqrt(self.clustering_)
        if choice.candidates:
            self.candidates_ = [f"{c.summary()}: {c.score:.4f}" for c in choice.candidates]
        if own is not None:
            self.person_metrics_ = np.stack([structure.metric(theta) for theta in own.own]) / size**2
            self.people_spread_, self.people_differ_ = own.spread, own.differ
            self.people_spread_interval_ = np.array(own.interval)
        else:
            self.parameter_covariance_ = posterior_covariance(choice.objective, fit, 1.0 / self.clustering_) / size**4

    def _describe_uncertainty(self, choice: StructureChoice, own: OwnMetrics | None, size: float) -> None:
        """Set the symmetric fit and its covariance, in the items' own units.

        If the structure was chosen and not given, it may be wrong, so the full metric is fitted.
        """
        objective: SimilarityObjective = choice.objective
        if self.structure == "auto" and objective.structure.name != "full" and own is None:
            full: MetricStructure = STRUCTURES["full"](objective.items.shape[1])
            objective = replace(objective, structure=full)
        symmetric, covariance, self.symmetric_log_likelihood_ = symmetric_fit(objective, choice.fit, own)
        estimate = svec(choice.objective.structure.metric(choice.fit.theta))
        if objective.structure.name != "full":  # with a given structure, entries outside it are known to be zero
            draws = draw_structured(objective, choice.fit, 1.0 / self.clustering_)
        elif own is not None:
            draws = draw_around(svec(symmetric), np.linalg.pinv(covariance, hermitian=True), estimate)
        else:
            judged = draw_judged(objective, estimate, 1.0 / self.clustering_)
            draws = judged.draws
            if judged.is_rough:  # then the evidence knows better how well the size is known
                draws = judged.widened(self.scale_error_)
            else:
                self.scale_error_ = judged.size_error
        self.symmetric_metric_, self.symmetric_covariance_ = symmetric / size**2, covariance / size**4
        self.metric_draws_ = draws / size**2
        p = draws.shape[1]
        self.metric_covariance_ = np.cov(self.metric_draws_.T).reshape(p, p)
        self.standard_errors_ = smat(self.metric_draws_.std(axis=0, ddof=1))

    def _status(self, choice: StructureChoice, own: OwnMetrics | None, n_people: int) -> str:
        done = (
            "Solved." if choice.fit.converged else f"Stopped after {self.max_iter} iterations; raise max_iter or tol."
        )
        parts = [done, choice.summary(), *filter(None, [choice.why_link])]
        parts.append(f"The answers determine {self.determined_:.1f} shape parameters.")
        if not choice.objective.likelihood.is_convex:
            parts.append("The problem is not convex under these options, so there is no certificate.")
        if 1 < n_people < FEW_PEOPLE and own is None:
            parts.append(
                f"Only {n_people} people answered: the metric is theirs, and intervals say little about other people."
            )
        parts += [f"{doubt[0].upper()}{doubt[1:]}." for doubt in self._doubts(choice)]
        if own is not None:
            parts.append(own.summary())
        return " ".join(parts)

    def _doubts(self, choice: StructureChoice) -> list[str]:
        if choice.fit.separable:
            return [SEPARABLE]
        return [] if self.scale_error_ <= LOOSE_SCALE else [SIZE_UNKNOWN]

    # ------------------------------------------------------------------------------------- by gradients alone

    def _fit_by_gradients(
        self, items: Array, questions: PairChoices, tables: tuple[Judgements, ...], size: float, clock: float
    ) -> Self:
        d = items.shape[1]
        chosen = self.rank is None or (isinstance(self.rank, str) and self.rank == "auto")
        if not chosen and whole_number(self.rank, "rank", 1) > d:
            raise DataError(f"rank={self.rank} is more than the {d} features; lower it, or use rank='auto'")
        refused = {"people": ("shared",), "structure": ("auto", "full"), "link": LINKS}
        for name, values in refused.items():
            if getattr(self, name) not in values:
                raise DataError(
                    f"{name}={getattr(self, name)!r} is not possible with rank={self.rank} and {d} features, where the "
                    f"fit is by gradients alone; choose {' or '.join(map(repr, values))}, or reduce the features"
                )
        lapse = self._given_lapse(tables)
        if lapse is None:
            raise DataError("lapse='estimate' is not possible where the fit is by gradients alone; give a number")
        likelihood = AnswerModel(self.beta, self.link, lapse)
        with one_thread_each():  # products of large matrices have threads of their own
            found: FactoredFit = fit_factored(
                items, questions, likelihood, self.rank, max_iterations=self.max_iter, seed=self.random_state
            )
        self.structure_, self.link_, self.lapse_ = "full", self.link, lapse
        self.log_likelihood_, self.ridge_, self.rank_ = -found.value, found.ridge, found.rank
        solution = Solution(
            found.status, found.converged, found.value / questions.n_answers, found.gap / questions.n_answers,
            found.iterations, perf_counter() - clock,
        )  # fmt: skip
        if not found.converged:
            warnings.warn(found.status, ConvergenceWarning, stacklevel=3)
        self._finish(found.metric / size**2, _people(tables), None, solution)
        return self

    # ------------------------------------------------------------------------------------- predictions

    def fit_transform(self, pairs: Any, y: Any = None, **fit_params: Any) -> Array:
        """Learn from the judgements and return the items in the new coordinates, (N, d)."""
        self.fit(pairs, y, **fit_params)
        given: Any = self.items
        vectors = not is_data_frame(pairs) and np.ndim(pairs) == 3
        return self.transform(read_judgements(pairs, y, None, given, merge=False)[0] if vectors else given)

    def _squares(self, judgements: Any, users: Any) -> tuple[Array, Judgements]:
        """Return the squared distances (T, k) of the pairs to choose from, in everybody's own metric if known."""
        delta, table = self._differences(judgements, users)
        D: Array = np.einsum("tkd,tkd->tk", delta @ self.metric_, delta)
        named = users is not None or isinstance(judgements, Judgements) or table.n_people > 1
        if named and hasattr(self, "person_metrics_"):
            known, place = self._find(table.person_ids[table.person])
            own = np.einsum("tkd,tde,tke->tk", delta[known], self.person_metrics_[place[known]], delta[known])
            D[known] = own
        return D, table

    def _differences(self, judgements: Any, users: Any) -> tuple[Array, Judgements]:
        """Return the differences (T, k, d) of the pairs to choose from."""
        check_is_fitted(self)
        items, tables = read_judgements(judgements, None, users, self.items, merge=False)
        if len(tables) != 1:
            raise DataError(f"{len(tables)} tables of judgements were given; predict them one by one")
        table = tables[0]
        pairs = table.pairs
        return items[pairs[..., 0]] - items[pairs[..., 1]], table

    def _variances(self, delta: Array, D: Array) -> Array:
        """Return the variance (T,) of a difference of two utilities, as far as the metric is not known."""
        variance = np.zeros(len(D))
        if not hasattr(self, "parameter_covariance_"):
            return variance
        structure = STRUCTURES[self.structure_](delta.shape[2])
        values, vectors = np.linalg.eigh(self.parameter_covariance_)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        step = max(1, CHUNK // (delta.shape[1] * structure.size))
        for start in range(0, len(D), step):
            part = delta[start : start + step]
            moved = (structure.rows(part.reshape(-1, part.shape[2])) @ root).reshape(*part.shape[:2], -1)
            variance[start : start + step] = self._likelihood().variance(D[start : start + step], moved)
        return variance

    def _likelihood(self) -> AnswerModel:
        return AnswerModel(self.beta, self.link_, self.lapse_)

    def decision_function(self, judgements: Any, users: Any = None) -> Array:
        """Return ``ψ = f(d²) of the first pair − that of the second`` (T,): negative where the first is closer.

        f is the link. For odd-one-outs, f(d²) of the three pairs, (T, 3): the smallest is the most likely.
        """
        D, table = self._squares(judgements, users)
        linked = self._likelihood().linked(D)
        return linked if table.n_alternatives > 2 else linked[:, 0] - linked[:, 1]

    def predict(self, judgements: Any, users: Any = None) -> NDArray[Any]:
        """Return the expected answers (T,): −1 where the first option (or pair) is closer, +1 where the second is.

        For odd-one-outs, the place 0, 1 or 2 of the odd item.
        """
        psi = self.decision_function(judgements, users)
        return np.argmin(psi, axis=1) if psi.ndim == 2 else np.where(psi > 0, 1, -1)

    def predict_proba(self, judgements: Any, users: Any = None) -> Array:
        """Return the probability of each alternative, (T, 2) or, for odd-one-outs, (T, 3).

        They are averaged over what is not known of the metric, so that few answers do not make predictions bold.
        """
        D = self._squares(judgements, users)[0]
        variance = self._variances(self._differences(judgements, users)[0], D)
        return self._likelihood().probabilities(D, variance)

    def score(self, judgements: Any, y: Any = None, users: Any = None, sample_weight: Any = None) -> float:
        """Return the share of answers predicted rightly; without `y` arrays name the closer option first."""
        D, table = self._squares(judgements, users)
        if y is not None:
            table = read_judgements(judgements, y, users, self.items, merge=False)[1][0]
        counts = table.counts
        weight = np.ones(len(counts)) if sample_weight is None else weights_of(sample_weight, len(counts))
        right = np.take_along_axis(counts, np.argmin(D, axis=1)[:, None], axis=1)[:, 0]
        return float(weight @ right / (weight @ counts.sum(axis=1)))


def _value_with_lapse(likelihood: AnswerModel, questions: PairChoices, D: Array, lapse: float) -> float:
    return replace(likelihood, lapse=lapse).value(questions, D)


def _clustering(choice: StructureChoice, tables: tuple[Judgements, ...]) -> float:
    """Return how many answers of the same people count as one; 1 where it is not known who answered what."""
    if len(tables) > 1 or tables[0].n_people < 2:
        return 1.0
    return clustering_of(choice.objective, choice.fit, questions_of(tables, by_person=True), tables[0].n_people)


def _people(tables: tuple[Judgements, ...]) -> NDArray[Any]:
    """Return who answered, of all tables."""
    if len(tables) == 1:
        return tables[0].person_ids
    kinds = {table.person_ids.dtype.kind for table in tables}
    ids = [table.person_ids if len(kinds) == 1 else table.person_ids.astype(str) for table in tables]
    return np.unique(np.concatenate(ids))
