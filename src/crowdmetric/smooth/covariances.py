"""Covariances between items: of what one person likes beside the crowd, and of what the crowd likes.

With items Z (N, d) in standardized features, q the squared distances ``(z − z')ᵀM(z − z')`` and
``G = Z M Zᵀ / tr M`` the inner products::

    K = s² [ κ(q)  + t² G + e² I ]                          a person: smooth, linear, and for each item by itself
    C = s² [ a² κ(ρq) + c² G + b² G∘G + ω² I ]              the crowd: smooth, linear, quadratic, and item effects

Parameters are θ = log (s, t, e, ω, a, c, b, ρ), followed by those of the metric (`structures`). All scales but s are
relative to s, so sharper answers change one parameter alone. Each has a Gaussian prior in θ, wide enough that
the answers decide wherever they say anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.smooth.joint_propagation import Propagation
from crowdmetric.smooth.kernel import SHAPES
from crowdmetric.smooth.kernel_metrics import KernelStructure, log_prior, structure_of
from crowdmetric.smooth.parameter_information import of_crowd, of_everybody, of_people
from crowdmetric.smooth.people_blocks import PeopleBlock

__all__ = ["SCALES", "Covariances", "Grams"]

Array = NDArray[Any]

# Name, center and standard deviation (of the logarithm) of the prior of every scale.
SCALES = (
    ("size", 1.0, 1.5),
    ("person_linear", 0.5, 1.5),
    ("person_items", 0.3, 1.5),
    ("items", 0.3, 1.5),
    ("crowd_smooth", 0.5, 1.5),
    ("crowd_linear", 0.5, 1.5),
    ("crowd_quadratic", 0.2, 1.5),
    ("crowd_sharpness", 1.0, 0.7),
)
# Steps of θ along which M changes by less than this share of the most do not count as changing it.
IDLE = 1e-8
# Added to the trace of M, so that G goes to zero with a metric of low rank that does, and its gradient stays finite.
LEAST_TRACE = 1e-9


@dataclass(frozen=True)
class Covariances:
    """The two covariances as functions of θ.

    Attributes
    ----------
    structure : KernelStructure
    shape : str
        A key of `kernel.SHAPES`.
    """

    structure: KernelStructure
    shape: str

    @staticmethod
    def of(structure: str, d: int, shape: str) -> Covariances:
        """Return the family for items of d features."""
        return Covariances(structure_of(structure, d), shape)

    @property
    def start(self) -> Array:
        """The θ where the prior is highest."""
        return np.concatenate([np.log([center for _, center, _ in SCALES]), self.structure.start])

    @property
    def spread(self) -> Array:
        """Standard deviations of the prior."""
        return np.concatenate([[spread for _, _, spread in SCALES], self.structure.spread])

    def log_prior(self, theta: Array) -> tuple[float, Array]:
        """Return the log density of the prior and its gradient."""
        return log_prior(theta, self.start, self.spread)

    def metric(self, theta: Array) -> Array:
        """Return M (d, d), for standardized features."""
        return self.structure.metric(theta[len(SCALES) :])

    def changes(self, theta: Array) -> tuple[NDArray[np.intp], Array]:
        """Return the numbers (k,) of the entries of M that θ changes, row after row, and their derivatives (p, k)."""
        tangents, d = list(self.structure.tangents(theta[len(SCALES) :])), len(self.metric(theta))
        moved = [np.flatnonzero(tangent.matrix) for tangent in tangents]
        numbers = [
            np.add.outer(d * tangent.features, tangent.features).reshape(-1)[there]
            for tangent, there in zip(tangents, moved, strict=True)
        ]
        entries = np.unique(np.concatenate(numbers))
        out = np.zeros((theta.size, entries.size))
        for row, number, tangent, there in zip(out[len(SCALES) :], numbers, tangents, moved, strict=True):
            row[np.searchsorted(entries, number)] = tangent.matrix.reshape(-1)[there]
        return entries, out

    def moving(self, theta: Array) -> Array:
        """Return the projection (p, p) onto steps of θ that change M: turning its factor, for one, does not."""
        vectors, sizes, _ = np.linalg.svd(self.changes(theta)[1][len(SCALES) :], full_matrices=False)
        vectors = vectors[:, sizes > IDLE * sizes[0]]
        projection = np.eye(theta.size)
        projection[len(SCALES) :, len(SCALES) :] = vectors @ vectors.T
        return projection

    def item_variances(self, theta: Array) -> tuple[float, float]:
        """Return the variances of the effects of single items: of a person, s²e², and of the crowd, s²ω²."""
        person, crowd = np.exp(2.0 * (theta[0] + theta[2:4]))
        return float(person), float(crowd)

    def like(self, other: Covariances, theta: Array) -> Array:
        """Return the θ of this family that is most like one of another: the same scales, and its metric."""
        return np.concatenate([theta[: len(SCALES)], self.structure.like(other.metric(theta))])

    def at(self, theta: Array, Z: Array) -> Grams:
        """Return both covariances of items Z (N, d)."""
        return Grams(self, theta, Z, Z, np.eye(len(Z)))


def _inner_and_square(Z: Array, M: Array, others: Array) -> tuple[Array, Array]:
    """Return ``zᵀM z'`` and ``(z − z')ᵀM(z − z')``, (…, a, b), of items (…, a, d) and (…, b, d)."""
    there = Z @ M
    across = np.swapaxes(others, -1, -2)
    inner = there * across if len(M) == 1 else there @ across  # products of two numbers each, without calls for them
    rows, columns = np.sum(there * Z, axis=-1), np.sum((others @ M) * others, axis=-1)
    return inner, rows[..., :, None] + columns[..., None, :] - 2.0 * inner


def _flat(Z: Array) -> Array:
    return Z.reshape(-1, Z.shape[-1])


class Grams:
    """Both covariances at one θ between items (…, a, d) and others (…, b, d), and the way back.

    `same` (…, a, b) is one where both are one item, else zero: effects of single items count there.

    Attributes
    ----------
    person, crowd : (…, a, b)
        K and C.
    """

    def __init__(self, family: Covariances, theta: Array, Z: Array, others: Array, same: Array) -> None:
        kappa: Callable[[Array], tuple[Array, Array]] = SHAPES[family.shape]
        self._family, self._theta, self._Z, self._others, self._same = family, theta, Z, others, same
        M = self._M = family.metric(theta)
        inner, q = _inner_and_square(Z, M, others)
        self._trace = float(np.trace(M)) + LEAST_TRACE
        G = self._G = inner / self._trace
        self._q = np.maximum(q, 0.0) * (1.0 - same)
        relative = np.concatenate([[0.0], theta[1:7]])
        self._variances = np.exp(2.0 * (theta[0] + relative))  # of s, t, e, ω, a, c, b
        self._rho = float(np.exp(theta[7]))
        self._near, self._near_slope = kappa(self._q)
        self._wide, self._wide_slope = kappa(self._rho * self._q)
        s, t, e, omega, a, c, b = self._variances
        self.person: Array = s * self._near + t * G + e * same
        self.crowd: Array = a * self._wide + c * G + b * G * G + omega * same

    def gradient(self, person: Array | float, crowd: Array | float) -> Array:
        """Return the gradient in θ of a function whose gradients in K and C are these (…, a, b), or zero."""
        s, t, e, omega, a, c, b = self._variances
        G, q, rho, Z, others = self._G, self._q, self._rho, self._Z, self._others
        scales = 2.0 * np.array(
            [
                s * np.sum(person * self._near),
                t * np.sum(person * G),
                e * np.sum(person * self._same),
                omega * np.sum(crowd * self._same),
                a * np.sum(crowd * self._wide),
                c * np.sum(crowd * G),
                b * np.sum(crowd * G * G),
            ]
        )
        scales[0] = scales.sum()  # everything is in units of s
        sharpness = a * rho * float(np.sum(crowd * self._wide_slope * q))
        in_q = s * person * self._near_slope + a * rho * crowd * self._wide_slope
        in_G = t * person + c * crowd + 2.0 * b * crowd * G
        # Σ in_q (z − z')(z − z')ᵀ, but for a part without effect on a symmetric M; G is divided by tr M
        in_M = (_flat(Z).T * in_q.sum(axis=-1).reshape(-1)) @ _flat(Z)
        in_M += (_flat(others).T * in_q.sum(axis=-2).reshape(-1)) @ _flat(others)
        in_M += _flat(Z).T @ _flat((in_G / self._trace - 2.0 * in_q) @ others)
        in_M -= np.sum(in_G * G) / self._trace * np.eye(len(self._M))
        tangents = self._family.structure.tangents(self._theta[len(SCALES) :])
        return np.array([*scales, sharpness, *(tangent.inner(in_M) for tangent in tangents)])

    def derivatives_of_person(self) -> Iterator[Array | None]:
        """Yield the derivatives (…, a, b) of K in every parameter of θ; None where there is none."""
        s, t, e, *_ = 2.0 * self._variances
        yield 2.0 * self.person
        yield t * self._G
        yield e * self._same
        yield from [None] * (len(SCALES) - 3)
        near = 0.5 * s * self._near_slope
        linear = 0.5 * t / self._trace
        along = linear * self._G
        for tangent in self._family.structure.tangents(self._theta[len(SCALES) :]):
            there, others = (items[..., tangent.features] for items in (self._Z, self._others))
            inner, in_q = _inner_and_square(there, tangent.matrix, others)
            in_q *= near
            inner *= linear
            in_q += inner
            yield in_q - float(np.trace(tangent.matrix)) * along

    def toward(self, step: Array) -> tuple[Array, Array]:
        """Return the derivatives (…, a, b) of K and C along a step (p,) of θ."""
        s, t, e, omega, a, c, b = 2.0 * self._variances * (step[0] + np.concatenate([[0.0], step[1:7]]))
        G, rho = self._G, self._rho
        person = s * self._near + t * G + e * self._same
        crowd = a * self._wide + c * G + b * G * G + omega * self._same
        s, t, _, _, a, c, b = self._variances
        dM = np.zeros_like(self._M)
        tangents = self._family.structure.tangents(self._theta[len(SCALES) :])
        for size, tangent in zip(step[len(SCALES) :], tangents, strict=True):
            dM[np.ix_(tangent.features, tangent.features)] += size * tangent.matrix
        inner, in_q = _inner_and_square(self._Z, dM, self._others)
        in_G = (inner - float(np.trace(dM)) * G) / self._trace
        wide = a * rho * self._wide_slope
        return (
            person + s * self._near_slope * in_q + t * in_G,
            crowd + wide * (in_q + step[7] * self._q) + (c + 2.0 * b * G) * in_G,
        )

    def information(self, known: Propagation) -> Array:
        """Return the information (p, p) about θ of answers whose factors have settled (`parameter_information`)."""
        if known.alone:
            (block,), (Q,) = known.blocks, known.told()
            steps = np.eye(len(self._theta))
            return of_people(Q, block.low.shape[1], (block.take(sum(self.toward(e))) for e in steps))
        W, V = known.precision, known.covariance
        person = of_everybody(known, self.of_people)
        return person + of_crowd(self, W - W @ V @ W, self._family.spread, person)

    def of_people(self, block: PeopleBlock) -> Grams:
        """Return both covariances of the items of everybody in a block, (P, n, n)."""
        Z = np.pad(self._Z, ((0, 1), (0, 0)))[block.items]
        return Grams(self._family, self._theta, Z, Z, np.eye(block.items.shape[1]))
