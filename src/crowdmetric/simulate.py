"""Crowds with a known truth: the paper's generator, and a few harsher kinds of people.

One crowd is drawn as in the paper's experiments (section "Empirical Validation" and its appendix)::

    M        Wishart W(I_d, d), scaled to ‖M‖_F = d                               (d, d)
    B_λ      orthonormal basis of a uniform r-dimensional subspace, λ < n         (d, r)
    u_k      N(0, I/d), `users` new people for every subspace                     (d,)
    x, x'    N(0, B Bᵀ/r + σ²/(d − r) B⊥B⊥ᵀ), fresh for every comparison          (d,)
    ψ        ‖x − u‖²_M − ‖x' − u‖²_M
    y        +1 with probability σ(βψ), else −1

Items are drawn with their noise and answers are about the items as they are: `noise` blurs the subspaces,
not the answers.

The metric, the subspaces, the people, the items and the answers each have a random stream of their own.
With one seed, more people or more comparisons leave the metric and the subspaces as they were, and a
different `beta` changes only the answers, so experiments can vary one thing at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from crowdmetric.checks import as_array, check_metric, numeric_array, real_number, shown, whole_number
from crowdmetric.errors import DataError

__all__ = ["SimulatedCrowd", "answer", "responses", "sample_metric", "sample_subspaces", "simulate_crowd"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SimulatedCrowd:
    """Answers of a simulated crowd, and the truth behind them.

    N items, T = n·K·m comparisons, n subspaces of dimension r, K people in each, m comparisons per person.

    Attributes
    ----------
    items : array (N, d)
        With noise, if any; every item is shown once, N = 2T.
    pairs : array (T, 2)
        Rows of `items`: left, right.
    y : array (T,)
        −1 where the left item was preferred, +1 where the right one was.
    users : array (T,)
        Who answered, 0 … n·K − 1; people of one subspace are consecutive.
    metric : array (d, d)
        M.
    ideal_points : array (n·K, d)
        u, one row per person.
    bases : array (n, d, r)
        Orthonormal bases of the subspaces.
    labels : array (N,)
        The subspace of each item, 0 … n − 1.
    psi : array (T,)
        The unquantized answers.
    beta : float
        Sharpness of the answers, 0 … ∞.
    noise : float
        σ, how far the items stray from their subspaces.

    Examples
    --------
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(3, None, None, users=50, comparisons=2, seed=0)
    >>> crowd.items.shape, crowd.pairs.shape, crowd.metric.shape
    ((200, 3), (100, 2), (3, 3))
    >>> print(crowd.summary())
    200 items in 3 dimensions, in general position
    50 people, 2 comparisons each, 100 answers in all
    beta 1: 94.0% of the answers name the closer item
    """

    items: Array
    pairs: Integers
    y: Integers
    users: Integers
    metric: Array
    ideal_points: Array
    bases: Array
    labels: Integers
    psi: Array
    beta: float
    noise: float

    def summary(self) -> str:
        """Return what was drawn, in a few lines."""
        n, d, r = self.bases.shape
        people, answers = len(self.ideal_points), len(self.y)
        agreement = np.mean(self.y == _sign(self.psi))
        where = "in general position" if r == d else f"in {n} subspaces of dimension {r}"
        blur = f", noise {self.noise:g}" if self.noise > 0 else ""
        return (
            f"{len(self.items):,} items in {d} dimensions, {where}{blur}\n"
            f"{people:,} people, {answers // people} comparisons each, {answers:,} answers in all\n"
            f"beta {self.beta:g}: {agreement:.1%} of the answers name the closer item"
        )


def simulate_crowd(
    dimension: int,
    subspaces: int | None,
    rank: int | None,
    users: int,
    comparisons: int,
    *,
    beta: float = 1.0,
    noise: float = 0.0,
    seed: int | Generator | None = None,
    people: str = "gaussian",
    metric: ArrayLike | None = None,
) -> SimulatedCrowd:
    """Draw a crowd, its questions and its answers.

    Parameters
    ----------
    dimension : int
        d, of the items.
    subspaces : int or None
        n, how many subspaces the items lie in. None (or 0): items in general position, which is one subspace
        that is everything, ``B = I`` and ``x ~ N(0, I/d)``, the same law with ``r = d``.
    rank : int or None
        r, the dimension of each subspace, 1 … d. Without subspaces: None (or d).
    users : int
        K, people *per subspace*; nobody answers about two subspaces.
    comparisons : int
        m, comparisons per person.
    beta : float, default 1.0
        Sharpness of the answers, from 0 (coin flips) to ``inf`` (no noise, ``y = sign ψ``).
    noise : float, default 0.0
        σ: an item strays from its subspace by σ in root mean square. (Within it, it is of size 1.)
    seed : int, Generator or None
        The same int gives the same crowd. A Generator gives a new one at each call.
    people : {'gaussian', 'clusters', 'heavy', 'ball'}, default 'gaussian'
        The law of the ideal points: N(0, I/d); three equally likely Gaussian clusters with centers
        N(0, I/d) and covariance 0.1 I/d; a multivariate t with 3 degrees of freedom divided by √d; uniform
        in the unit ball.
    metric : array (d, d), optional
        Symmetric and positive semi-definite, taken as it is. Without it, `sample_metric`.

    Returns
    -------
    SimulatedCrowd

    Raises
    ------
    DataError
        In one sentence, for an option out of its range.

    Examples
    --------
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(10, 80, 1, users=40, comparisons=4, seed=0)
    >>> crowd.items.shape, crowd.bases.shape, crowd.ideal_points.shape
    ((25600, 10), (80, 10, 1), (3200, 10))
    """
    d = _count("dimension", dimension)
    n, r = _subspace_shape(subspaces, rank, d)
    K, m = _count("users", users), _count("comparisons", comparisons)
    beta, noise = _nonnegative("beta", beta), _check_noise(noise, d, r)
    draw_people = _check_people(people)
    # One random stream for each quantity drawn. Adding a stream at the end keeps the crowds of old seeds.
    for_metric, for_bases, for_people, for_items, for_noise, for_answers = np.random.default_rng(seed).spawn(6)

    M = sample_metric(d, for_metric) if metric is None else check_metric(metric, d, "metric")
    bases = sample_subspaces(n, d, r, for_bases)
    ideal_points = draw_people(n * K, d, for_people)
    items = _sample_items(bases, 2 * K * m, noise, for_items, for_noise)
    pairs = np.arange(len(items)).reshape(-1, 2)
    owners = np.repeat(np.arange(n * K), m)
    psi = _unquantized(items[pairs[:, 0]], items[pairs[:, 1]], ideal_points[owners], M)
    return SimulatedCrowd(
        items=items,
        pairs=pairs,
        y=responses(psi, beta, for_answers),
        users=owners,
        metric=M,
        ideal_points=ideal_points,
        bases=bases,
        labels=np.repeat(np.arange(n), 2 * K * m),
        psi=psi,
        beta=beta,
        noise=noise,
    )


def sample_metric(d: int, rng: Generator) -> Array:
    """Return ``M (d, d)`` from the Wishart distribution W(I_d, d), scaled to ``‖M‖_F = d``.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.simulate import sample_metric
    >>> M = sample_metric(4, np.random.default_rng(0))
    >>> M.shape, round(float(np.linalg.norm(M)), 12)
    ((4, 4), 4.0)
    """
    G = rng.standard_normal((d, d))
    M = G @ G.T
    return d / np.linalg.norm(M) * M


def sample_subspaces(n: int, d: int, r: int, rng: Generator) -> Array:
    """Return orthonormal bases ``(n, d, r)`` of n independent uniform r-dimensional subspaces of R^d.

    QR of r Gaussian vectors each; their scale (1/√d in the paper) does not reach Q. With ``r = d`` there is
    only one subspace to draw, and the identity is its basis.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.simulate import sample_subspaces
    >>> sample_subspaces(5, 4, 2, np.random.default_rng(0)).shape
    (5, 4, 2)
    """
    if r == d:
        return np.tile(np.eye(d), (n, 1, 1))
    return np.linalg.qr(rng.standard_normal((n, d, r))).Q


def answer(
    items: ArrayLike, pairs: ArrayLike, ideal_points: ArrayLike, metric: ArrayLike, *, beta: float = 1.0, seed: int = 0
) -> Integers:
    """Return what people say (T,) to questions you chose: −1 left, +1 right.

    Parameters
    ----------
    items : (N, d)
    pairs : (T, 2) rows of items, left and right
    ideal_points : (T, d) of the person who answers each question
    metric : (d, d) M

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.simulate import answer
    >>> items = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 5.0]])
    >>> person = [0.1, 0.0]  # closest to the first item
    >>> answer(items, [[0, 2], [2, 1]], [person, person], np.eye(2), beta=np.inf).tolist()
    [-1, 1]
    """
    X, u = (np.asarray(numeric_array(v, n), dtype=float) for v, n in ((items, "items"), (ideal_points, "ideal_points")))
    rows = as_array(pairs, "pairs")
    M = check_metric(metric, X.shape[1], "metric")
    if u.shape != (len(rows), X.shape[1]):
        raise DataError(f"ideal_points has shape {u.shape}, expected {(len(rows), X.shape[1])}, one point per question")
    psi = _unquantized(X[rows[:, 0]], X[rows[:, 1]], u, M)
    return responses(psi, _nonnegative("beta", beta), np.random.default_rng(seed))


def responses(psi: ArrayLike, beta: float, rng: Generator) -> Integers:
    """Return answers y ∈ {−1, +1} with ``Pr[y = +1] = σ(βψ)``, of the shape of `psi`.

    ``beta = 0`` is a coin flip; ``beta = inf`` is the sign of ψ, +1 where ψ is 0. Every finite β compares
    σ(βψ) with the same uniform numbers of a stream, so a new β changes only the answers it must.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.simulate import responses
    >>> responses([-9.0, 9.0], np.inf, np.random.default_rng(0)).tolist()
    [-1, 1]
    """
    psi = np.asarray(psi, dtype=np.float64)
    beta = _nonnegative("beta", beta)
    if beta == inf:  # a separate case: σ(βψ) has no such limit at ψ = 0
        return _sign(psi)
    return np.where(rng.random(psi.shape) < expit(beta * psi), 1, -1)


def _sign(psi: Array) -> Integers:
    """Return −1 where ψ < 0, else +1."""
    return np.where(psi < 0, -1, 1)


def _unquantized(x: Array, x_: Array, u: Array, M: Array) -> Array:
    """Return ``ψ = ‖x − u‖²_M − ‖x' − u‖²_M = (x − x')ᵀ M (x + x' − 2u)``, all ``(T, d)``."""
    psi: Array = np.einsum("td,td->t", (x - x_) @ M, x + x_ - 2.0 * u)
    return psi


def _sample_items(bases: Array, count: int, noise: float, rng: Generator, noise_rng: Generator) -> Array:
    """Return ``(n·count, d)`` items, `count` from ``N(0, B Bᵀ/r + σ²/(d − r) B⊥B⊥ᵀ)`` for every basis."""
    n, d, r = bases.shape
    transposed = np.swapaxes(bases, 1, 2)  # (n, r, d)
    items = rng.standard_normal((n, count, r)) @ transposed / sqrt(r)
    if noise > 0:
        stray = noise_rng.standard_normal((n, count, d))
        stray -= (stray @ bases) @ transposed  # B⊥B⊥ᵀ = I − BBᵀ: no basis of the complement is needed
        items += noise / sqrt(d - r) * stray
    return items.reshape(n * count, d)


def _gaussian(count: int, d: int, rng: Generator) -> Array:
    """Return N(0, I/d)."""
    return rng.standard_normal((count, d)) / sqrt(d)


def _clusters(count: int, d: int, rng: Generator) -> Array:
    """Return three equally likely clusters, centers N(0, I/d), covariance 0.1 I/d within."""
    centers = _gaussian(3, d, rng)
    return centers[rng.integers(3, size=count)] + sqrt(0.1) * _gaussian(count, d, rng)


def _heavy(count: int, d: int, rng: Generator) -> Array:
    """Return a multivariate t₃ over √d: it is people who are extreme, not coordinates. Covariance 3 I/d."""
    return _gaussian(count, d, rng) / np.sqrt(rng.chisquare(3, size=(count, 1)) / 3.0)


def _ball(count: int, d: int, rng: Generator) -> Array:
    """Return points uniform in the unit ball, covariance I/(d + 2)."""
    direction = rng.standard_normal((count, d))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return direction * rng.random((count, 1)) ** (1.0 / d)


PEOPLE: dict[str, Callable[[int, int, Generator], Array]] = {
    "gaussian": _gaussian,
    "clusters": _clusters,
    "heavy": _heavy,
    "ball": _ball,
}


def _count(name: str, number: object) -> int:
    """Return `number` as an int of at least 1."""
    return whole_number(number, name)


def _nonnegative(name: str, number: object) -> float:
    """Return `number` as a float ≥ 0; ∞ is allowed, NaN is not."""
    found = real_number(number)
    if found >= 0.0 and (found < inf or number == inf):  # not an integer that is larger than any float
        return found
    raise DataError(f"{name} is {shown(number)}, but it must be a number of at least 0")


def _subspace_shape(subspaces: int | None, rank: int | None, d: int) -> tuple[int, int]:
    """Return (n, r); without subspaces, one that is all of R^d."""
    if subspaces is None or subspaces == 0:
        if rank not in (None, d):
            raise DataError(
                f"rank is {rank} without subspaces, but items in general position have rank {d}; "
                "leave rank=None or say how many subspaces there are"
            )
        return 1, d
    r = _count("rank", rank)
    if r > d:
        raise DataError(f"rank is {r}, but a subspace of {d} dimensions has at most rank {d}; lower rank")
    return _count("subspaces", subspaces), r


def _check_noise(noise: object, d: int, r: int) -> float:
    """Return σ, refusing one that has nowhere to go."""
    sigma = _nonnegative("noise", noise)
    if sigma == inf:
        raise DataError("noise is inf, but it must be finite; noise=1 already hides a subspace")
    if sigma > 0 and r == d:
        raise DataError(f"noise is {sigma:g}, but items of rank {d} fill the space; leave noise=0 or lower rank")
    return sigma


def _check_people(people: str) -> Callable[[int, int, Generator], Array]:
    """Return the sampler called `people`."""
    if people not in PEOPLE:
        raise DataError(f"people is {people!r}, but it must be one of {', '.join(map(repr, PEOPLE))}")
    return PEOPLE[people]
