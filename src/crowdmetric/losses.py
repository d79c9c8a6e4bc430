"""Losses: what an answer y costs when the model says ψ, pointwise in ψ.

A loss is a small frozen object that knows nothing of people or metrics::

    name        ℓ(ψ; y)                    is_smooth  needs_binary  probability(ψ) = Pr[y = +1]
    logistic    log(1 + exp(−β y ψ))       yes        yes           σ(βψ)
    probit      −log Φ(β y ψ)              yes        yes           Φ(βψ)
    hinge       max(0, 1 − yψ)             no         yes           –
    squared     ½(ψ − y)²                  yes        no            –

with y ∈ {−1, +1} where ``needs_binary``, any real number otherwise. All are convex in ψ (``is_convex``), and satisfy
``ℓ(ψ; y) = ℓ(−ψ; −y)``: naming the pair the other way round changes nothing. `psi` and `y` may have any
shapes that broadcast; every result has the broadcast shape. Nothing is checked here: these functions sit in
the innermost loop, and answers are validated once, where they enter.

Values, slopes and curvatures keep their *relative* accuracy in both tails, so a Newton step on a few
badly mispredicted answers is as good as one near the optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from math import inf, pi, sqrt
from numbers import Real
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy.special import erfcx, expit, log_ndtr, ndtr

from crowdmetric.errors import DataError

__all__ = ["LOSSES", "Hinge", "Logistic", "Loss", "Probit", "Squared", "get_loss"]

Array = NDArray[np.float64]
Triple = tuple[Array, Array, Array]


@runtime_checkable
class Loss(Protocol):
    """What the eliminations and the solvers ask of a loss; any object with these members is one.

    Attributes
    ----------
    name : str
        How the loss is called in options and messages.
    is_smooth : bool
        Whether the curvature describes the loss; Newton's method needs it.
    is_convex : bool
        Whether the loss is convex in ψ: certificates and integrals over people need it.
    needs_binary : bool
        Whether y must be −1 or +1.
    beta : float
        Sharpness of the answers; 1 where the loss has none to set.
    """

    name: ClassVar[str]
    is_smooth: ClassVar[bool]
    is_convex: ClassVar[bool]
    needs_binary: ClassVar[bool]

    @property
    def beta(self) -> float:
        """Sharpness of the answers."""
        ...

    def value(self, psi: Array, y: Array) -> Array:
        """Return ``ℓ(ψ; y)``."""
        ...

    def slope(self, psi: Array, y: Array) -> Array:
        """Return ``dℓ/dψ``."""
        ...

    def curvature(self, psi: Array, y: Array) -> Array:
        """Return ``d²ℓ/dψ²``, never negative."""
        ...

    def value_slope_curvature(self, psi: Array, y: Array) -> Triple:
        """Return all three, sharing what they have in common."""
        ...

    def probability(self, psi: Array) -> Array:
        """Return ``Pr[y = +1]``, or raise DataError if the loss is not a likelihood."""
        ...


# --8<-- [start:logistic]
@dataclass(frozen=True)
class Logistic:
    """Negative log-likelihood of the logistic link, ``ℓ = log(1 + exp(−z))`` with ``z = β y ψ``.

    Parameters
    ----------
    beta : float, default 1.0
        Sharpness of the answers: 0 would be coin flips, ∞ would be no noise.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.losses import Logistic
    >>> Logistic(beta=1.0).value(np.array([-2.0, 2.0]), np.array([-1, -1])).round(3).tolist()
    [0.127, 2.127]
    """

    beta: float = 1.0

    name: ClassVar[str] = "logistic"
    is_smooth: ClassVar[bool] = True
    is_convex: ClassVar[bool] = True
    needs_binary: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_beta(self.beta)

    def value(self, psi: Array, y: Array) -> Array:
        """Return ``log(1 + exp(−z)) = max(−z, 0) + log(1 + exp(−|z|))``."""
        z = self.beta * y * psi
        return np.maximum(-z, 0.0) + np.log1p(np.exp(-np.abs(z)))

    def slope(self, psi: Array, y: Array) -> Array:
        """Return ``−β y σ(−z)``."""
        return -self.beta * y * expit(-self.beta * y * psi)

    def curvature(self, psi: Array, y: Array) -> Array:
        """Return ``β² σ(z) σ(−z)``, which never subtracts (σ(1 − σ) would)."""
        z = self.beta * y * psi
        return self.beta**2 * expit(z) * expit(-z)

    def value_slope_curvature(self, psi: Array, y: Array) -> Triple:
        """Return the three from one ``e = exp(−|z|) ≤ 1``, which cannot overflow.

        ::

            value     = max(−z, 0) + log(1 + e)
            slope     = −β y σ(−z)              σ(−z) = e/(1 + e) for z ≥ 0, 1/(1 + e) for z < 0
            curvature = β² e / (1 + e)²
        """
        xp = array_namespace(psi)
        z = self.beta * y * psi
        e = xp.exp(-xp.abs(z))
        inverse = 1.0 / (1.0 + e)
        less_likely = e * inverse
        value = xp.log1p(e) - xp.clip(z, None, 0.0)
        slope = (-self.beta * y) * xp.where(z >= 0, less_likely, inverse)
        return value, slope, self.beta**2 * less_likely * inverse

    def probability(self, psi: Array) -> Array:
        """Return ``σ(βψ)``."""
        return expit(self.beta * np.asarray(psi))


# --8<-- [end:logistic]


@dataclass(frozen=True)
class Probit:
    """Negative log-likelihood of the probit link, ``ℓ = −log Φ(z)`` with ``z = β y ψ``.

    Parameters
    ----------
    beta : float, default 1.0
        Sharpness of the answers: ``1/β`` is the standard deviation of Gaussian noise added to ψ.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.losses import Probit
    >>> Probit(beta=1.0).value(np.array([-2.0, 2.0]), np.array([-1, -1])).round(3).tolist()
    [0.023, 3.783]
    """

    beta: float = 1.0

    name: ClassVar[str] = "probit"
    is_smooth: ClassVar[bool] = True
    is_convex: ClassVar[bool] = True
    needs_binary: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_beta(self.beta)

    def value(self, psi: Array, y: Array) -> Array:
        """Return ``−log Φ(z)``."""
        return -log_ndtr(self.beta * y * psi)

    def slope(self, psi: Array, y: Array) -> Array:
        """Return ``−β y h(z)``, where ``h = φ/Φ``."""
        return -self.beta * y * _hazard(self.beta * y * psi)

    def curvature(self, psi: Array, y: Array) -> Array:
        """Return ``β² h(z) (h(z) + z)``, between 0 and β²."""
        z = self.beta * y * psi
        h = _hazard(z)
        return self.beta**2 * h * _excess(z, h)

    def value_slope_curvature(self, psi: Array, y: Array) -> Triple:
        """Return the three from one evaluation of ``h = φ/Φ``."""
        z = self.beta * y * psi
        h = _hazard(z)
        return -log_ndtr(z), -self.beta * y * h, self.beta**2 * h * _excess(z, h)

    def probability(self, psi: Array) -> Array:
        """Return ``Φ(βψ)``."""
        return ndtr(self.beta * np.asarray(psi))


@dataclass(frozen=True)
class Hinge:
    """The hinge, ``ℓ = max(0, 1 − yψ)``: piecewise linear, not a likelihood, and without a β.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.losses import Hinge
    >>> Hinge().value(np.array([-2.0, 2.0]), np.array([-1, -1])).tolist()
    [0.0, 3.0]
    """

    name: ClassVar[str] = "hinge"
    is_smooth: ClassVar[bool] = False
    is_convex: ClassVar[bool] = True
    needs_binary: ClassVar[bool] = True
    beta: ClassVar[float] = 1.0

    def value(self, psi: Array, y: Array) -> Array:
        """Return ``max(0, 1 − yψ)``."""
        return np.maximum(0.0, 1.0 - y * psi)

    def slope(self, psi: Array, y: Array) -> Array:
        """Return ``−y`` where ``1 − yψ > 0``, else 0: at the kink, the subgradient of least size."""
        return np.where(1.0 - y * psi > 0.0, -1.0 * y, 0.0)

    def curvature(self, psi: Array, y: Array) -> Array:
        """Return 0, which it is everywhere but at the kink."""
        return np.zeros(np.broadcast_shapes(np.shape(psi), np.shape(y)))

    def value_slope_curvature(self, psi: Array, y: Array) -> Triple:
        """Return the three from one margin ``1 − yψ``."""
        margin = 1.0 - y * psi
        slope = np.where(margin > 0.0, -1.0 * y, 0.0)
        return np.maximum(0.0, margin), slope, np.zeros(np.shape(margin))

    def probability(self, psi: Array) -> Array:
        """Raise DataError: the hinge is not a likelihood."""
        raise _no_probability(self)


@dataclass(frozen=True)
class Squared:
    """Half the squared residual, ``ℓ = ½(ψ − y)²``, for unquantized answers y ∈ R; without a β.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.losses import Squared
    >>> Squared().value(np.array([-2.0, 2.0]), np.array([-1.0, -1.0])).tolist()
    [0.5, 4.5]
    """

    name: ClassVar[str] = "squared"
    is_smooth: ClassVar[bool] = True
    is_convex: ClassVar[bool] = True
    needs_binary: ClassVar[bool] = False
    beta: ClassVar[float] = 1.0

    def value(self, psi: Array, y: Array) -> Array:
        """Return ``½(ψ − y)²``."""
        return 0.5 * np.square(np.subtract(psi, y))

    def slope(self, psi: Array, y: Array) -> Array:
        """Return ``ψ − y``."""
        return np.subtract(psi, y, dtype=np.float64)

    def curvature(self, psi: Array, y: Array) -> Array:
        """Return 1."""
        return np.ones(np.broadcast_shapes(np.shape(psi), np.shape(y)))

    def value_slope_curvature(self, psi: Array, y: Array) -> Triple:
        """Return the three from one residual ``ψ − y``."""
        residual = self.slope(psi, y)
        return 0.5 * np.square(residual), residual, np.ones(np.shape(residual))

    def probability(self, psi: Array) -> Array:
        """Raise DataError: unquantized answers have no probability of +1."""
        raise _no_probability(self)


# A new loss is one line here, and one in the list that drives the tests.
LOSSES: dict[str, Callable[..., Loss]] = {
    "logistic": Logistic,
    "probit": Probit,
    "hinge": Hinge,
    "squared": Squared,
}


# What every loss has.
MEMBERS = (
    "name", "is_smooth", "is_convex", "needs_binary", "beta",
    "value", "slope", "curvature", "value_slope_curvature", "probability",
)  # fmt: skip


def get_loss(loss: str | Loss, beta: float = 1.0) -> Loss:
    """Return the loss called `loss`, with sharpness `beta`; a loss object is returned as it is.

    Nothing is ignored in silence: ``beta=1`` (the default) is accepted everywhere, any other number only
    where it takes effect. The hinge and the squared loss have no β, and an object carries its own.

    Parameters
    ----------
    loss : str or Loss
        A key of `LOSSES`, or an object with the members of `Loss`.
    beta : float, default 1.0
        Positive and finite.

    Raises
    ------
    DataError
        For an unknown name, a `beta` that is not a positive finite number, or one that would be ignored.

    Examples
    --------
    >>> from crowdmetric.losses import get_loss
    >>> get_loss('logistic', beta=2.0)
    Logistic(beta=2.0)
    """
    _check_beta(beta)
    if isinstance(loss, str):
        return _named(loss, beta)
    if not isinstance(loss, Loss) or isinstance(loss, type):
        missing = [member for member in MEMBERS if not hasattr(loss, member)]
        lacks = f"; it has no {', '.join(missing)}" if 0 < len(missing) < len(MEMBERS) else ""
        raise DataError(f"loss is {loss!r}, but it must be {_choices()}, or an object like Logistic(){lacks}")
    if not loss.is_convex:
        raise DataError(
            f"the {loss.name} loss is not convex (is_convex is False); certificates and integrals over people need a "
            f"convex loss, such as {_choices()}"
        )
    if beta not in (1.0, loss.beta):
        raise DataError(f"beta is {beta}, but {loss!r} would not use it; leave beta at 1 and set it in the loss")
    return loss


def _named(name: str, beta: float) -> Loss:
    """Return the loss registered as `name`, refusing a β it would not use."""
    if name not in LOSSES:
        raise DataError(f"loss is {name!r}, but it must be {_choices()}")
    make = LOSSES[name]
    if _has_beta(make):
        return make(beta=float(beta))
    if beta != 1.0:
        raise DataError(f"beta is {beta}, but the {name} loss has no sharpness to set; leave beta at 1")
    return make()


def _has_beta(make: Callable[..., Loss]) -> bool:
    """Return whether a loss class has a β to set."""
    return is_dataclass(make) and any(field.name == "beta" for field in fields(make))


def _choices() -> str:
    """Return the registered names, quoted, for a message."""
    return "one of " + ", ".join(repr(name) for name in LOSSES)


# β and the metric enter as a product only: a β far from 1 merely pushes numbers to the edge of their range.
MOST_SHARP = 1e9


def _check_beta(beta: object) -> None:
    """Refuse a β that is not a positive finite number (a bool is not a number)."""
    size: Any = beta if isinstance(beta, Real) and not isinstance(beta, bool) else 0
    if 0 < size < inf:
        if 1.0 / MOST_SHARP <= size <= MOST_SHARP:
            return
        raise DataError(
            f"beta is {beta!r}, but only sizes from {1.0 / MOST_SHARP:g} to {MOST_SHARP:g} are accurate; "
            "keep beta=1, which only sets the scale of the metric"
        )
    raise DataError(
        f"beta is {beta!r}, but it must be a positive finite number; "
        "for answers without noise keep beta=1, which only sets the scale of the metric"
    )


def _no_probability(loss: Loss) -> DataError:
    """Return the error for a probability asked of a loss that is not a likelihood."""
    return DataError(
        f"the {loss.name} loss is not a likelihood, it has no probability; choose loss='logistic' or 'probit'"
    )


def _hazard(z: Array) -> Array:
    """Return ``h(z) = φ(z)/Φ(z) = √(2/π) / erfcx(−z/√2)``.

    Neither φ nor Φ is formed, both of which underflow for z < −38, where h ≈ −z. For z > 38 erfcx is ∞ and
    h is the 0 that φ has become.
    """
    return sqrt(2.0 / pi) / erfcx(-z / sqrt(2.0))


# Below −TAIL the sum h(z) + z would lose more than two digits; from there on, 16 levels of the fraction are
# exact to rounding.
TAIL = 8.0
LEVELS = 16


def _excess(z: Array, h: Array) -> Array:
    """Return ``h(z) + z > 0`` without cancellation, given ``h = _hazard(z)``.

    For z ≪ 0, h(z) is −z plus something small. Laplace's continued fraction is that something: at x = −z,
    ``h = x + 1/(x + 2/(x + 3/(x + …)))``.
    """
    x = np.maximum(-z, TAIL)
    below = x
    for level in range(LEVELS, 1, -1):
        below = x + level / below
    return np.where(z < -TAIL, 1.0 / below, h + z)
