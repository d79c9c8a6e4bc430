"""Linear utilities without a metric, for any number of items and features: three variances and a sparse design.

Person k likes item i by ``b_i − ⟨x_i, v_k⟩``. Nothing of it is a parameter without a prior::

    b_i ~ N(0, 1/ρ)         what everybody thinks of an item beyond its features
    μ   ~ N(0, I/λ)         what everybody thinks of features
    v_k ~ N(μ, s²I)         how people differ

An answer involves two of the b and the v of one person, so a pass costs (answers × features) and nothing of size
(items × items) is made: 100,000 items are as good as 100. With Z_k (m, d) the δ of a person's m answers, v is
integrated out in as few dimensions as answers or features have (`crowdmetric.users.integration`)::

    a = Z μ − (b_left − b_right)      Z = E B,   (E, B) = (1, Z) if m ≤ d, else (Z, 1)      S = s² B Bᵀ

and (μ, b) is the maximum under the priors, by L-BFGS with parameters scaled to equal information. ρ, λ and s are those
of largest evidence, with the information h_i about items taken as diagonal. Where b is integrated out,
``w_i = h_i ρ / (h_i + ρ)`` of it is left for features, and with g_j the eigenvalues of ``Xᵀ diag(w) X``::

    γ_μ = Σ_j g_j / (g_j + λ)                        λ ← γ_μ / ‖μ‖²                     (MacKay)
    γ_b = (1 − (γ_μ + 1)/N) Σ_i h_i / (h_i + ρ)      ρ ← γ_b / ‖b‖²
    log E(s) = ℓ − ½ λ‖μ‖² − ½ ρ‖b‖² − ½ Σ_i log(1 + h_i/ρ) − ½ Σ_j log(1 + g_j/λ)

The maximum of s together with b, and not of E, would be zero: as many b as there are items explain what people differ
in.

At a maximum, the b of items with few and nearly unanimous answers are too small, and then so is their variance. So
where people are enough to hide one in five at a time, ρ is halved as long as the hidden people's answers become more
likely, with what is not known of the b in their S.

The limit of noise is that of every population: ``½ (β/10)² 2s²`` (`crowdmetric.solvers.priors`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from crowdmetric.fits.question_stream import QuestionStream
from crowdmetric.fits.units import Units
from crowdmetric.losses import Loss
from crowdmetric.solvers.priors import NOISE_FREE
from crowdmetric.users.first_order import EqualQuestions, add_rows
from crowdmetric.users.integrals import Integral
from crowdmetric.users.integration import integrate_people
from crowdmetric.users.population_sums import Law
from crowdmetric.users.propagation import ROUGHLY, TOLERANCE

__all__ = ["LinearUtilities", "fit_linear_utilities", "people_of"]

Array = NDArray[Any]

# One person in HIDDEN_SHARE is hidden to choose a variance, if that hides at least LEAST_HIDDEN people.
HIDDEN_SHARE, LEAST_HIDDEN = 5, 10
# Numbers in the (people, answers, features) temporary of a piece.
AT_ONCE = 1 << 21
# First strengths, their limits, how often they are renewed at most, and the change of a logarithm that counts as
# settled.
FIRST, LIMITS, REFITS, SETTLED = 4.0, (1e-2, 1e6), 6, 0.1
# Where log s begins, the first and the last step of its search, and its limits.
FIRST_SPREAD, FIRST_STEP, LAST_STEP, LEAST_SPREAD, MOST_SPREAD = -0.5, 1.0, 0.15, -4.0, 4.0
# Relative decrease of the mean loss at which a fit stops, and fits on the way, whose integrals are rough.
LAST_DECREASE, ROUGH = 1e-8, 1e-6
# People's covariances are kept if they have at most this many numbers in total.
MOST_COVARIANCES = 20_000_000


@dataclass(frozen=True)
class LinearUtilities:
    """Where a fit ended, in the units of the fit.

    Attributes
    ----------
    units
        Of the items in the fit.
    log_spread, mean, effects
        log s, μ (d,) and b (N,); b is empty if items have no effects.
    mean_ridge, item_ridge
        λ and ρ.
    value
        The log-likelihood.
    known : (N,)
        h, the information about b.
    of_mean, determined, evidence : float
        γ_μ and γ_b, how many of the μ and the b the answers determine, and log E.
    converged, passes
        How the iteration ended.
    """

    units: Units
    log_spread: float
    mean: Array
    effects: Array
    mean_ridge: float = FIRST
    item_ridge: float = FIRST
    value: float = float("nan")
    known: Array | None = None
    of_mean: float = 0.0
    determined: float = 0.0
    evidence: float = float("nan")
    converged: bool = True
    passes: int = 0

    @property
    def law(self) -> Law:
        """The law of people: no metric."""
        d = self.mean.size
        spread = float(np.exp(2.0 * self.log_spread)) * np.eye(d)
        return Law(np.zeros((d, d)), self.mean, spread, self.effects if self.effects.size else None)

    @property
    def law_outside(self) -> Law:
        """The law in the items' own units."""
        return self.units.law_outside(self.law)

    @property
    def item_variances(self) -> Array | None:
        """What is not known of the b (N,); None if there are none."""
        return None if self.known is None or not self.effects.size else 1.0 / (self.known + self.item_ridge)

    @property
    def new_item(self) -> float:
        """The variance of the b of an item without answers."""
        return 1.0 / self.item_ridge if self.effects.size else 0.0

    def flat(self) -> Array:
        """Return (μ, b) as one vector."""
        return np.concatenate([self.mean, self.effects])

    def moved(self, flat: Array) -> LinearUtilities:
        """Return the same with another μ and b, the inverse of `flat`."""
        d = self.mean.size
        return replace(self, mean=flat[:d], effects=flat[d:])


def fit_linear_utilities(
    asked: QuestionStream,
    loss: Loss,
    *,
    item_effects: bool,
    max_iterations: int = 300,
    after_step: Callable[[int, float], None] | None = None,
) -> LinearUtilities:
    """Return the fit to everybody's answers."""
    N, d = asked.items.shape
    options: dict[str, Any] = {"max_iterations": max_iterations, "after_step": after_step}
    noise = (loss.beta / NOISE_FREE) ** 2
    found: dict[float, LinearUtilities] = {}

    def evidence(log_spread: float, start: LinearUtilities) -> float:
        """Return log E(s), and keep the fit at s."""
        found[log_spread] = _with_ridges(asked, replace(start, log_spread=log_spread), loss, options)
        return found[log_spread].evidence - noise * float(np.exp(2.0 * log_spread))

    at, step = FIRST_SPREAD, FIRST_STEP
    first = LinearUtilities(asked.units, at, np.zeros(d), np.zeros(N if item_effects else 0))
    best = evidence(at, first)
    while step > LAST_STEP:  # the evidence has one maximum: climb, with shorter and shorter steps
        for trial in (at + step, at - step):
            if trial not in found and LEAST_SPREAD < trial < MOST_SPREAD and evidence(trial, found[at]) > best:
                at, best = trial, evidence(trial, found[trial])
                break
        else:
            step *= 0.5
    fit = found[at]
    if item_effects and asked.n_users >= HIDDEN_SHARE * LEAST_HIDDEN:
        fit = replace(fit, item_ridge=_likeliest_item_ridge(asked, fit, loss, options))
    return _with_determined(asked, _fitted(asked, fit, loss, tolerance=LAST_DECREASE, **options))


def _likeliest_item_ridge(asked: QuestionStream, fit: LinearUtilities, loss: Loss, options: dict[str, Any]) -> float:
    """Return ρ, halved as often as that makes the answers of hidden people more likely."""
    ends = [fit] * HIDDEN_SHARE

    def hidden_likelihood(ridge: float) -> float:
        total = 0.0
        for fold in range(HIDDEN_SHARE):
            shown = replace(asked, questions=HiddenFold(asked.questions, fold, hidden=False))
            hidden = replace(asked, questions=HiddenFold(asked.questions, fold, hidden=True))
            end = _fitted(shown, replace(ends[fold], item_ridge=ridge), loss, tolerance=ROUGH, **options)
            ends[fold] = end
            total += sum(
                float(np.sum(_integrated(hidden, some, end, loss, end.item_variances)[3].value))
                for _, _, some in _pieces(hidden)
            )
        return total

    ridge = fit.item_ridge
    likeliest = hidden_likelihood(ridge)
    while ridge > LIMITS[0]:
        value = hidden_likelihood(0.5 * ridge)
        if value <= likeliest:
            break
        ridge, likeliest = 0.5 * ridge, value
    return ridge


@dataclass(frozen=True)
class HiddenFold:
    """Every fifth person of everybody's questions, from one of the first five on, or all others."""

    questions: Iterable[EqualQuestions]
    fold: int
    hidden: bool

    def __iter__(self) -> Iterator[EqualQuestions]:
        for some in self.questions:
            chosen = (np.arange(some.left.shape[0]) % HIDDEN_SHARE == self.fold) == self.hidden
            if chosen.any():
                yield some[chosen]


def _with_ridges(asked: QuestionStream, fit: LinearUtilities, loss: Loss, options: dict[str, Any]) -> LinearUtilities:
    """Return the fit at a spread of people, with the ridges of largest evidence."""
    for _ in range(REFITS):
        fit = _with_determined(asked, _fitted(asked, fit, loss, tolerance=ROUGH, **options))
        mean_ridge = float(np.clip(fit.of_mean / max(float(fit.mean @ fit.mean), 1e-300), *LIMITS))
        item_ridge = float(np.clip(fit.determined / max(float(fit.effects @ fit.effects), 1e-300), *LIMITS))
        item_ridge = item_ridge if fit.effects.size else fit.item_ridge
        change = np.log([mean_ridge / fit.mean_ridge, item_ridge / fit.item_ridge])
        if np.max(np.abs(change)) < SETTLED:
            break
        fit = replace(fit, mean_ridge=mean_ridge, item_ridge=item_ridge)
    return fit


def _fitted(
    asked: QuestionStream,
    start: LinearUtilities,
    loss: Loss,
    *,
    tolerance: float,
    max_iterations: int,
    after_step: Callable[[int, float], None] | None,
) -> LinearUtilities:
    """Return the maximum under the ridges and the spread of `start`, from there."""
    accuracy = TOLERANCE if tolerance < ROUGH else ROUGHLY
    known = _known(asked, start, loss, accuracy) if start.known is None else start.known
    X = np.asarray(asked.items)
    about_mean = np.maximum(known @ X**2, 0.0) + start.mean_ridge
    about_items = known + start.item_ridge if start.effects.size else np.empty(0)
    scale = np.sqrt(np.concatenate([about_mean, about_items]))
    ridges = np.repeat([start.mean_ridge, start.item_ridge], [start.mean.size, start.effects.size])
    passes, unit = start.passes, asked.weight

    def cost(scaled: Array) -> tuple[float, Array]:
        nonlocal passes
        passes += 1
        flat = scaled / scale
        value, gradient = _value_and_gradient(asked, start.moved(flat), loss, accuracy)
        penalized = 0.5 * float(ridges @ flat**2) - value
        return penalized / unit, (ridges * flat - gradient) / scale / unit

    def callback(intermediate_result: Any) -> None:  # the name makes SciPy pass the result and not the point
        if after_step is not None:
            after_step(passes, float(-intermediate_result.fun * unit))

    result = minimize(
        cost, start.flat() * scale, jac=True, method="L-BFGS-B", callback=callback,
        options={"maxiter": max_iterations, "maxcor": 20, "ftol": tolerance, "gtol": 1e-10},
    )  # fmt: skip
    end = start.moved(result.x / scale)
    value = float(0.5 * ridges @ end.flat() ** 2 - result.fun * unit)
    return replace(
        end, value=value, known=_known(asked, end, loss, accuracy), converged=bool(result.success), passes=passes
    )


def _with_determined(asked: QuestionStream, fit: LinearUtilities) -> LinearUtilities:
    """Return a fit with γ_μ, γ_b and log E."""
    assert fit.known is not None
    X, h, rho, lam = np.asarray(asked.items), fit.known, fit.item_ridge, fit.mean_ridge
    left = h * rho / (h + rho) if fit.effects.size else h
    center = left @ X / max(float(left.sum()), 1e-300)  # a constant added to all utilities says nothing
    values = np.maximum(np.linalg.eigvalsh((X - center).T @ (left[:, None] * (X - center))), 0.0)
    of_mean = float(np.sum(values / (values + lam)))
    evidence = fit.value - 0.5 * lam * float(fit.mean @ fit.mean) - 0.5 * float(np.sum(np.log1p(values / lam)))
    determined = 0.0
    if fit.effects.size:
        share = max(1.0 - (of_mean + 1.0) / max(int(np.count_nonzero(h)), 1), 0.1)
        determined = share * float(np.sum(h / (h + rho)))
        evidence -= 0.5 * rho * float(fit.effects @ fit.effects) + 0.5 * float(np.sum(np.log1p(h / rho)))
    return replace(fit, of_mean=of_mean, determined=determined, evidence=evidence)


def _pieces(asked: QuestionStream) -> Iterator[tuple[int, slice, EqualQuestions]]:
    """Yield a chunk's number, some of its people, and their questions."""
    d = asked.items.shape[1]
    for number, some in enumerate(asked.questions):
        people, m = some.left.shape
        size = max(1, AT_ONCE // max(m * d, 1))
        for begin in range(0, people, size):
            rows = slice(begin, begin + size)
            yield number, rows, some[rows]


def _integrated(
    asked: QuestionStream,
    some: EqualQuestions,
    at: LinearUtilities,
    loss: Loss,
    unknown: Array | None = None,
    tolerance: float = TOLERANCE,
) -> tuple[Array, Array, Array, Integral]:
    """Return E (P, m, q), B (P, q, d) and S (P, q, q) of some people, and their integrals.

    `unknown` are variances (N,) of the b, which make answers differ in m dimensions.
    """
    X = np.asarray(asked.items)
    utility = X @ at.mean - (at.effects if at.effects.size else 0.0)
    Z = X[some.left] - X[some.right]
    _, m, d = Z.shape
    q = m if unknown is not None else min(m, d)
    one = np.broadcast_to(np.eye(q), (len(Z), q, q))
    E, B = (one, Z) if q == m else (Z, one)
    S = float(np.exp(2.0 * at.log_spread)) * (B @ B.transpose(0, 2, 1))
    if unknown is not None:
        S = S + one * (unknown[some.left] + unknown[some.right])[:, None]
    a = utility[some.left] - utility[some.right]
    return E, B, S, integrate_people(a, E, S, some.response, some.weight, loss, 1, tolerance)[0]


def _bend_of_likelihood(E: Array, integral: Integral) -> Array:
    """Return the second derivative H (P, q, q) of each person's log-likelihood in w, for ``a + E w``."""
    pull = np.einsum("pmq,pm->pq", E, integral.slope)
    bend: Array = 2.0 * integral.bend - pull[:, :, None] * pull[:, None, :]
    return bend


def _value_and_gradient(
    asked: QuestionStream, at: LinearUtilities, loss: Loss, tolerance: float = TOLERANCE
) -> tuple[float, Array]:
    """Return the log-likelihood and its gradient in `LinearUtilities.flat`."""
    X, value = np.asarray(asked.items), 0.0
    pull = np.zeros(len(X))  # in the utility Xμ − b of each item
    for _, _, some in _pieces(asked):
        integral = _integrated(asked, some, at, loss, tolerance=tolerance)[3]
        value += float(np.sum(integral.value))
        pull = add_rows(add_rows(pull, some.left, integral.slope), some.right, -integral.slope)
    return value, np.concatenate([X.T @ pull, -pull if at.effects.size else at.effects])


def _known(asked: QuestionStream, at: LinearUtilities, loss: Loss, tolerance: float = TOLERANCE) -> Array:
    """Return the diagonal h (N,) of the information about the items' utilities, given everything else.

    An answer with precision τ tells ``τ − τ² eᵀ Cov(w | y) e`` about its ψ (`crowdmetric.users.integrals.Integral`).
    """
    total = np.zeros(asked.items.shape[0])
    for _, _, some in _pieces(asked):
        E, _, S, integral = _integrated(asked, some, at, loss, tolerance=tolerance)
        covariance = S + S @ _bend_of_likelihood(E, integral) @ S
        variance = np.einsum("pmq,pqr,pmr->pm", E, covariance, E)
        known = integral.precision - integral.precision**2 * variance
        total = add_rows(add_rows(total, some.left, known), some.right, known)
    return np.maximum(total, 0.0)


def people_of(asked: QuestionStream, fit: LinearUtilities, loss: Loss) -> tuple[Array, Array | None]:
    """Return mean (K, d) and, where memory allows, covariance (K, d, d) of everybody's v, in the units of the fit.

    With g the gradient of a person's log-likelihood in a, and H its second derivative in w, ``v ~ N(μ + s² Bᵀ Eᵀ g,
    s²I + s⁴ Bᵀ H B)``. Both are empty for a scan.
    """
    d, square = fit.mean.size, float(np.exp(2.0 * fit.log_spread))
    if asked.people is None:
        return np.empty((0, d)), None
    points = np.tile(fit.mean, (asked.n_users, 1))
    whole = asked.n_users * d**2 <= MOST_COVARIANCES
    spreads = np.tile(square * np.eye(d), (asked.n_users, 1, 1)) if whole else None
    for number, rows, some in _pieces(asked):
        who = asked.people[number][rows]
        E, B, _, integral = _integrated(asked, some, fit, loss)
        points[who] += square * np.einsum("pqd,pmq,pm->pd", B, E, integral.slope, optimize=True)
        if spreads is not None:
            spreads[who] += square**2 * (B.transpose(0, 2, 1) @ _bend_of_likelihood(E, integral) @ B)
    return points, spreads
