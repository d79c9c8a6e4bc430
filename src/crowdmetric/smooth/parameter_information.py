"""What answers say of the parameters: the information of Gaussian answers as sharp as the factors of the real ones.

With ``Q = W − W V W`` of a person or, from ΣW, of the crowd (`joint_propagation`), and derivatives of K and C in θ::

    H = ½ Σ tr(Q ∂ᵢK Q ∂ⱼK)  +  ½ tr(Q ∂ᵢC Q ∂ⱼC)          people, and the crowd beside them

A person's Q (n, n) has at most as many directions as the person gave answers, so with ``Q = R Rᵀ`` the first part is
the sum of products of the entries of ``Rᵀ ∂K R``, which are few.

The second part takes N³ for every parameter, and there may be hundreds. But the crowd is one utility: it says much
about a few combinations of parameters, and next to nothing about each of the others. Products ``H v`` need one
derivative, that along v, and one gradient. Lanczos steps find from them the combinations of which the crowd says more
than `MINOR` of what is known without it, all of them where there are few parameters. In the others its information is
taken to be the same, their mean along a few random directions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crowdmetric.smooth.people_blocks import PeopleBlock, work_of

if TYPE_CHECKING:
    from crowdmetric.smooth.joint_propagation import Propagation

__all__ = ["MOST_WORK", "of_crowd", "of_everybody", "of_people"]

Array = NDArray[Any]

# Lanczos steps end when what is left is coupled to what was found by less than this share of what is known otherwise.
# Up to so many parameters they go through all, and begin anew where the rest is not coupled at all. Number of random
# directions in which the rest is averaged.
MINOR, FEW, UNCOUPLED, REST = 0.03, 16, 1e-12, 6
# Work of people (`people_blocks.work_of`, summed over them) above which some are left out.
MOST_WORK = 6e6
# Derivatives that are multiplied at once.
AT_ONCE = 32


class Derived(Protocol):
    """Covariances that know their derivatives (`covariances.Grams`)."""

    def toward(self, step: Array) -> tuple[Array, Array]:
        """Return the derivatives of K and C along a step."""
        ...

    def gradient(self, person: Array | float, crowd: Array | float) -> Array:
        """Return the gradient in θ."""
        ...

    def derivatives_of_person(self) -> Iterator[Array | None]:
        """Yield the derivatives of K, parameter after parameter."""
        ...


def of_people(Q: Array, answers: int, derivatives: Iterable[Array | None]) -> Array:
    """Return ``½ Σ tr(Q Dᵢ Q Dⱼ)`` (p, p) over people, for Q and D (P, n, n); D may be None.

    `answers` is the largest number of answers of a person, no less than the rank of any Q.
    """
    values, vectors = np.linalg.eigh(Q)
    rank = min(answers, Q.shape[-1])
    R = vectors[..., -rank:] * np.sqrt(np.maximum(values[..., None, -rank:], 0.0))
    parts = iter(derivatives)
    rows = []
    while together := list(islice(parts, AT_ONCE)):
        rows.append(_seen_through(R, [np.broadcast_to(0.0 if D is None else D, Q.shape) for D in together]))
    seen = np.concatenate(rows)
    return np.asarray(0.5 * seen @ seen.T)


def _seen_through(R: Array, parts: list[Array]) -> Array:
    """Return ``Rᵀ D R``, end to end, (k, P r r) for R (P, n, r) and k symmetric D (P, n, n)."""
    P, n, r = R.shape
    there = (np.stack(parts, axis=1).reshape(P, -1, n) @ R).reshape(P, -1, n, r)
    both = (np.swapaxes(there, 2, 3).reshape(P, -1, n) @ R).reshape(P, -1, r * r)
    return np.swapaxes(both, 0, 1).reshape(len(parts), -1)


def of_everybody(known: Propagation, grams: Callable[[PeopleBlock], Derived]) -> Array:
    """Return the sum (p, p) of everybody's information, whose covariances `grams` gives block by block.

    In large crowds it is that of every k-th person, times k: the same people for every kernel.
    """
    work = sum(len(b.who) * work_of(b.items.shape[1], b.low.shape[1]) for b in known.blocks)
    step = max(1, int(np.ceil(work / MOST_WORK)))
    found = []
    for block, Q in zip(known.blocks, known.told(), strict=True):
        some = block.every(step)
        more = len(block.who) / len(some.who)
        found.append(more * of_people(Q[::step], block.low.shape[1], grams(some).derivatives_of_person()))
    return np.asarray(sum(found))


def of_crowd(grams: Derived, Q: Array, spread: Array, beside: Array) -> Array:
    """Return ``½ tr(Q ∂ᵢC Q ∂ⱼC)`` (p, p), to be added to the information `beside` and to the prior's, spread⁻²."""
    values, vectors = np.linalg.eigh(beside * np.outer(spread, spread))
    # steps that are known to within one; of similar kernels they are similar, and so is what is found at random
    units = spread[:, None] * (vectors / np.sqrt(1.0 + np.maximum(values, 0.0))) @ vectors.T

    def product(v: Array) -> Array:
        there = Q @ grams.toward(units @ v)[1] @ Q
        return units.T @ grams.gradient(0.0, 0.5 * there)

    basis, small = _lanczos(product, len(spread))
    found = basis @ small @ basis.T
    if basis.shape[1] < len(spread):
        random = np.random.default_rng(1).standard_normal((REST, len(spread)))
        random -= (random @ basis) @ basis.T
        rest = sum(max(float(v @ product(v)), 0.0) for v in random) / float(np.sum(random**2))
        found += rest * (np.eye(len(spread)) - basis @ basis.T)
    back = np.linalg.inv(units).T
    return np.asarray(back @ found @ back.T)


def _lanczos(product: Callable[[Array], Array], p: int) -> tuple[Array, Array]:
    """Return V (p, k) orthonormal and ``Vᵀ H V`` (k, k), H being hardly coupled to anything outside V."""
    rng, basis, columns = np.random.default_rng(0), np.zeros((p, 0)), []
    v = rng.standard_normal(p)
    while basis.shape[1] < p:
        v -= basis @ (basis.T @ v)
        v /= np.linalg.norm(v)
        basis = np.column_stack([basis, v])
        there = product(v)
        columns.append(there)
        v = there - basis @ (basis.T @ there)
        v -= basis @ (basis.T @ v)
        coupled = float(np.linalg.norm(v))
        if coupled < MINOR and p > FEW:
            break
        if coupled < UNCOUPLED:
            v = rng.standard_normal(p)
    small = basis.T @ np.column_stack(columns)
    return basis, 0.5 * (small + small.T)
