"""The prior of a population: quadratic penalties (*ridges*) and a limit of noise.

With ``c = tr M / d`` and ``σ² = tr Σ / d``, and items of root mean square length one (`crowdmetric.fits.units`),
the negative log prior of natural parameters (`crowdmetric.users.layout`) is ::

    ½ shape ‖M/c − I‖²  +  ½ size ‖cI‖²  +  ½ people ‖Σ/σ² − I‖²  +  ½ items ‖b‖²          the ridges
    + ½ (p − 1) log(1 + volume c²)  +  ½ (p − 1) log(1 + people_volume σ⁴)                 the volumes of shapes
    + ½ (β / 10)² (4c²/d + 2‖μ‖²/d + 2σ²)                                                  the limit of noise
    + ½ log²(s √d)                                                                         isotropic people

The four strengths come from the evidence (`crowdmetric.solvers.law_fit`). The ridges on shapes do not depend on the
scale of M or Σ: with one answer per person the scale is known so loosely that a ridge on M itself would determine it.
The ridge on people is for free ones. Isotropic people have ``Σ = 4s²M²``, whose shape has the metric's ridge.

The sizes c and σ² are hyperparameters, like the strengths. For a given error of M a ridge on its shape costs less the
larger c is, so without the volumes a size grows along directions about which the answers say nothing. The evidence for
a size has the shape integrated out, ``−½ log det(H(c) + ridge)``, where H is the information about the p − 1 parameters
of the shape at fixed size. A volume stands for it as if each of them were known by ``volume · ridge · c²``.
`crowdmetric.solvers.law_fit` chooses it such that the slope in log c is the true one where the fit ends.

The limit of noise is weak and fixed. Its three terms are the mean squares of the contributions of metric, mean and
people's differences to ψ for a typical pair of items, in units of the noise of an answer. If answers are free of noise,
or all alike, these would grow without limit. A prior of standard deviation 10 stops them where answers are nearly
noise-free. It costs at most 0.02 nats per term of size one or two.

Under the last line, people are spread about as far as the items, within a factor of a few. People very far away under a
very small metric have linear utilities; without this line, neither the distance nor the size would be determined.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.symmetric import dimension, svec
from crowdmetric.users.layout import Layout

__all__ = ["NOISE_FREE", "Penalty", "Ridges", "penalty", "shape_penalty", "traceless", "volume_penalty"]

Array = NDArray[Any]

# Standard deviation of the prior on each part of ψ, in units of the noise of an answer.
NOISE_FREE = 10.0


@dataclass(frozen=True)
class Ridges:
    """The strengths of the four ridges, and the volumes of the two shapes; zero: none.

    `held` is a value at which log c is held, and the strength of that; None: the size is free.
    """

    shape: float = 0.0
    size: float = 0.0
    people: float = 0.0
    items: float = 0.0
    volume: float = 0.0
    people_volume: float = 0.0
    held: tuple[float, float] | None = None

    @property
    def strengths(self) -> dict[str, Any]:
        """All numbers by their names, without the size that is held."""
        return {name: value for name, value in vars(self).items() if name != "held"}

    @property
    def without_shapes(self) -> Ridges:
        """The same without what is about the shapes of M and Σ."""
        return replace(self, shape=0.0, people=0.0, volume=0.0, people_volume=0.0)

    def completed(self, first: Ridges) -> Ridges:
        """Return the ridges for another model, whose `first` ridges are zero where it has none."""
        shape, people, items = (
            getattr(first, name) and (getattr(self, name) or getattr(first, name))
            for name in ("shape", "people", "items")
        )
        volume, people_volume = self.volume if shape else 0.0, self.people_volume if people else 0.0
        return Ridges(shape, self.size, people, items, volume, people_volume)


@dataclass(frozen=True)
class Penalty:
    """A negative log prior: value, gradient (n,) and a positive semi-definite curvature (n, n)."""

    value: float
    gradient: Array
    curvature: Array


def traceless(d: int) -> Array:
    """Return P (p, p), the projector on symmetric matrices without trace."""
    identity = svec(np.eye(d)) / np.sqrt(d)
    return np.eye(identity.size) - np.outer(identity, identity)


def shape_penalty(m: Array, strength: float) -> Penalty:
    """Return ``½ strength ‖A/c − I‖² = ½ strength ‖Pm‖²/c²`` for m = svec A and c = tr A / d.

    Its curvature is the one at fixed c.
    """
    if strength == 0.0:
        return Penalty(0.0, np.zeros(m.size), np.zeros((m.size, m.size)))
    d = dimension(m.size)
    P, trace = traceless(d), svec(np.eye(d)) / d
    c = float(trace @ m)
    pulled = P @ m / c
    square = float(pulled @ pulled)
    return Penalty(0.5 * strength * square, strength / c * (pulled - square * trace), strength / c**2 * P)


def volume_penalty(m: Array, volume: float) -> Penalty:
    """Return ``½ (p − 1) log(1 + volume c²)`` for m = svec A and c = tr A / d; negative curvature counts as zero."""
    if volume == 0.0:
        return Penalty(0.0, np.zeros(m.size), np.zeros((m.size, m.size)))
    d = dimension(m.size)
    trace = svec(np.eye(d)) / d
    c = float(trace @ m)
    known = volume * c * c
    slope = (m.size - 1) * volume * c / (1.0 + known)
    bend = (m.size - 1) * volume * max(1.0 - known, 0.0) / (1.0 + known) ** 2
    return Penalty(0.5 * (m.size - 1) * float(np.log1p(known)), slope * trace, bend * np.outer(trace, trace))


def held_size(m: Array, log_size: float, strength: float) -> Penalty:
    """Return ``½ strength (log c − log_size)²`` for m = svec A and c = tr A / d, with its curvature along c."""
    d = dimension(m.size)
    trace = svec(np.eye(d)) / d
    c = max(float(trace @ m), 1e-300)
    away = np.log(c) - log_size
    return Penalty(0.5 * strength * away**2, strength * away / c * trace, strength / c**2 * np.outer(trace, trace))


def penalty(natural: Array, layout: Layout, ridges: Ridges, beta: float) -> Penalty:
    """Return the negative log prior at some natural parameters."""
    value, gradient, curvature = 0.0, np.zeros(natural.size), np.zeros((natural.size, natural.size))
    noise = _noise_limit(natural, layout, beta)
    m, b = natural[layout.metric], natural[layout.items]
    e = svec(np.eye(layout.d)) / np.sqrt(layout.d)
    parts = [
        (slice(None), noise),
        (layout.metric, shape_penalty(m, ridges.shape)),
        (layout.metric, volume_penalty(m, ridges.volume)),
        (layout.metric, _square(m @ e, e, ridges.size)),
        (layout.items, Penalty(0.5 * ridges.items * float(b @ b), ridges.items * b, ridges.items * np.eye(b.size))),
    ]
    if layout.free:
        spread = natural[layout.spread]
        parts += [(layout.spread, shape_penalty(spread, ridges.people))]
        parts += [(layout.spread, volume_penalty(spread, ridges.people_volume))]
    else:
        away = natural[layout.spread] + 0.5 * np.log(layout.d)
        parts.append((layout.spread, Penalty(0.5 * float(away @ away), away, np.eye(1))))
    if ridges.held is not None:
        parts.append((layout.metric, held_size(m, *ridges.held)))
    for place, part in parts:
        value += part.value
        gradient[place] += part.gradient
        curvature[place, place] += part.curvature
    return Penalty(value, gradient, curvature)


def _square(x: float, e: Array, strength: float) -> Penalty:
    """Return ``½ strength x²`` for x = eᵀm."""
    return Penalty(0.5 * strength * float(x) ** 2, strength * float(x) * e, strength * np.outer(e, e))


def _noise_limit(natural: Array, layout: Layout, beta: float) -> Penalty:
    """Return the last line of the module's formula.

    For isotropic people ``σ² = 4s²‖M‖²/d``, a square of ``2s m``, whose curvature is taken without the bending of s.
    """
    d, p = layout.d, layout.p
    unit = (beta / NOISE_FREE) ** 2 / d
    m, mu, trace = natural[layout.metric], natural[layout.mean], svec(np.eye(d)) / d
    c = float(trace @ m)
    gradient, curvature = np.zeros(natural.size), np.zeros((natural.size, natural.size))
    value = unit * (2.0 * c**2 + float(mu @ mu))
    gradient[layout.metric] = 4.0 * unit * c * trace
    gradient[layout.mean] = 2.0 * unit * mu
    curvature[layout.metric, layout.metric] = 4.0 * unit * np.outer(trace, trace)
    curvature[layout.mean, layout.mean] = 2.0 * unit * np.eye(d)
    if layout.free:
        value += unit * d * float(trace @ natural[layout.spread])
        gradient[layout.spread] += unit * d * trace
        return Penalty(value, gradient, curvature)
    spread = 2.0 * float(np.exp(natural[layout.spread][0]))
    J = np.zeros((p, natural.size))  # of 2s m
    J[:, layout.metric], J[:, layout.spread] = spread * np.eye(p), (spread * m)[:, None]
    value += unit * float(spread**2 * (m @ m))
    return Penalty(value, gradient + 2.0 * unit * J.T @ (spread * m), curvature + 2.0 * unit * J.T @ J)
