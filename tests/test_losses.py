"""Every loss, from one list: derivatives, convexity, symmetry, stability, accuracy, bad input."""

from __future__ import annotations

import warnings
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.special import expit, ndtr

from crowdmetric.errors import DataError
from crowdmetric.losses import LOSSES, Hinge, Logistic, Loss, Probit, Squared, get_loss

ALL = [
    Logistic(),
    Logistic(beta=0.01),
    Logistic(beta=4.0),
    Logistic(beta=100.0),
    Probit(),
    Probit(beta=0.01),
    Probit(beta=4.0),
    Probit(beta=100.0),
    Hinge(),
    Squared(),
]
LIKELIHOODS = [loss for loss in ALL if isinstance(loss, Logistic | Probit)]
WITHOUT_BETA = [loss for loss in ALL if not isinstance(loss, Logistic | Probit)]

# Ten decades, both signs; 38 points do not include ±1, where the hinge has no derivative.
HALF = np.geomspace(1e-6, 1e4, 38)
PSI = np.concatenate([-HALF[::-1], HALF])
TINY = 1e-290  # below this, relative accuracy is lost to gradual underflow

each_loss = pytest.mark.parametrize("loss", ALL, ids=repr)
each_answer = pytest.mark.parametrize("y", [-1.0, 1.0])


def difference(function, psi: np.ndarray, y: float, beta: float) -> np.ndarray:
    """Central difference with a step relative to ψ, but not below the scale 1/β on which the loss bends."""
    step = 1e-6 * np.maximum(np.abs(psi), 1.0 / beta)
    up, down = psi + step, psi - step
    return (function(up, y) - function(down, y)) / (up - down)


@each_loss
@each_answer
def test_slope_is_the_derivative_of_the_value(loss: Loss, y: float) -> None:
    beta = getattr(loss, "beta", 1.0)
    expected = difference(loss.value, PSI, y, beta)
    np.testing.assert_allclose(loss.slope(PSI, y), expected, rtol=1e-5, atol=TINY)


@each_loss
@each_answer
def test_curvature_is_the_derivative_of_the_slope(loss: Loss, y: float) -> None:
    beta = getattr(loss, "beta", 1.0)
    expected = difference(loss.slope, PSI, y, beta)
    # In the far left tail of the logistic the slope is −β to rounding, and its difference is only noise.
    noise = 1e-9 * beta / np.maximum(np.abs(PSI), 1.0 / beta)
    np.testing.assert_array_less(np.abs(loss.curvature(PSI, y) - expected), 1e-5 * np.abs(expected) + noise + TINY)


@each_loss
@each_answer
def test_convex(loss: Loss, y: float) -> None:
    assert np.all(loss.curvature(PSI, y) >= 0)
    assert np.all(np.diff(loss.slope(PSI, y)) >= 0)
    left, right = PSI[:-1], PSI[1:]
    chord = 0.5 * (loss.value(left, y) + loss.value(right, y))
    assert np.all(loss.value(0.5 * (left + right), y) <= chord * (1 + 1e-12) + TINY)


@each_loss
@each_answer
def test_swapping_the_pair_changes_nothing(loss: Loss, y: float) -> None:
    np.testing.assert_array_equal(loss.value(PSI, y), loss.value(-PSI, -y))
    np.testing.assert_array_equal(loss.slope(PSI, y), -loss.slope(-PSI, -y))
    np.testing.assert_array_equal(loss.curvature(PSI, y), loss.curvature(-PSI, -y))


@each_loss
@each_answer
def test_together_equals_one_by_one(loss: Loss, y: float) -> None:
    together = loss.value_slope_curvature(PSI, y)
    for got, function in zip(together, (loss.value, loss.slope, loss.curvature), strict=True):
        np.testing.assert_allclose(got, function(PSI, y), rtol=1e-14, atol=TINY)


@each_loss
@each_answer
def test_extreme_answers_neither_warn_nor_break(loss: Loss, y: float) -> None:
    psi = np.array([-1e4, -700.0, -40.0, -0.0, 0.0, 40.0, 700.0, 1e4])
    with warnings.catch_warnings(), np.errstate(over="raise", divide="raise", invalid="raise"):
        warnings.simplefilter("error")
        for result in (*loss.value_slope_curvature(psi, y), loss.slope(psi, y), loss.curvature(psi, y)):
            assert np.all(np.isfinite(result))


@each_loss
def test_results_have_the_broadcast_shape(loss: Loss) -> None:
    psi, y = np.linspace(-2, 2, 3)[:, None], np.array([-1, 1, 1, -1])
    functions = (loss.value, loss.slope, loss.curvature)
    for result in (*loss.value_slope_curvature(psi, y), *(f(psi, y) for f in functions)):
        assert result.shape == (3, 4)
        assert result.dtype == np.float64
    assert np.shape(loss.value(np.float64(0.5), np.float64(1.0))) == ()


def logistic_reference(z: Decimal) -> tuple[Decimal, Decimal, Decimal]:
    e = (-z).exp()
    return (1 + e).ln(), -e / (1 + e), e / (1 + e) ** 2


def probit_reference(z: Decimal) -> tuple[Decimal, Decimal, Decimal]:
    """Return −log Φ, −h and h(h + z) from Mills' ratio, (1 − Φ(x))/φ(x) = 1/(x + 1/(x + 2/(x + …)))."""
    x, below = abs(z), abs(z)
    for level in range(3000, 0, -1):
        below = x + level / below
    two_pi = 2 * Decimal("3.14159265358979323846264338327950288419716939937511")
    density = (-x * x / 2).exp() / two_pi.sqrt()
    cumulative = density / below if z < 0 else 1 - density / below
    h = below if z < 0 else density / cumulative
    return -cumulative.ln(), -h, h * (h + z)


@pytest.mark.parametrize("z", [-200.0, -30.0, -12.0, -8.01, -7.99, -3.0, -1.0, -0.5, 0.5, 1.0, 3.0, 8.0, 20.0, 30.0])
@pytest.mark.parametrize(
    ("loss", "reference"), [(Logistic(), logistic_reference), (Probit(), probit_reference)], ids=["logistic", "probit"]
)
def test_relative_accuracy_against_long_decimals(loss: Loss, reference, z: float) -> None:
    with localcontext(prec=420):
        expected = [float(number) for number in reference(Decimal(z))]
    got = loss.value_slope_curvature(np.float64(z), np.float64(1.0))
    np.testing.assert_allclose(got, expected, rtol=3e-13)


@pytest.mark.parametrize("z", [-1e3, -1e4, -1e6])
def test_probit_curvature_far_in_the_left_tail(z: float) -> None:
    # h(h + z) = 1 − z⁻² + 6 z⁻⁴ − …; computed as h·(h + z) it would keep four digits at z = −1e6.
    psi = np.float64(z)
    expected = 1 - z**-2 + 6 * z**-4
    assert Probit().curvature(psi, np.float64(1.0)) == pytest.approx(expected, rel=1e-12)
    assert Probit().slope(psi, np.float64(1.0)) == pytest.approx(z + 1 / z, rel=1e-11)


@pytest.mark.parametrize("loss", LIKELIHOODS, ids=repr)
def test_a_likelihood_is_minus_the_log_of_its_probability(loss: Loss) -> None:
    psi = np.linspace(-5, 5, 21) / loss.beta
    np.testing.assert_allclose(np.exp(-loss.value(psi, 1.0)), loss.probability(psi), rtol=1e-12)
    np.testing.assert_allclose(loss.probability(psi) + loss.probability(-psi), 1.0, rtol=1e-14)
    link = expit if isinstance(loss, Logistic) else ndtr
    np.testing.assert_allclose(loss.probability(psi), link(loss.beta * psi), rtol=1e-14)


@pytest.mark.parametrize("loss", WITHOUT_BETA, ids=repr)
def test_other_losses_have_no_probability(loss: Loss) -> None:
    with pytest.raises(DataError, match=f"the {loss.name} loss is not a likelihood"):
        loss.probability(PSI)


def test_hinge_at_the_kink() -> None:
    psi, y = np.array([1.0, -1.0]), np.array([1.0, -1.0])
    np.testing.assert_array_equal(Hinge().slope(psi, y), [0.0, 0.0])
    np.testing.assert_array_equal(Hinge().value(psi, y), [0.0, 0.0])


@pytest.mark.parametrize("name", LOSSES)
def test_get_loss_by_name(name: str) -> None:
    loss = get_loss(name)
    assert loss.name == name
    assert isinstance(loss, Loss)
    assert get_loss(loss) is loss
    assert {type(member) for member in ALL} >= {type(loss)}, "add the new loss to ALL above"


@pytest.mark.parametrize("loss", LIKELIHOODS, ids=repr)
def test_beta_reaches_the_loss(loss: Loss) -> None:
    assert get_loss(loss.name, beta=loss.beta) == loss
    assert get_loss(loss, beta=loss.beta) is loss


@pytest.mark.parametrize("beta", [0, -1.0, np.inf, np.nan, "1", None, True, [1.0]])
@pytest.mark.parametrize("make", [Logistic, Probit, lambda beta: get_loss("hinge", beta)])
def test_bad_beta(make, beta: object) -> None:
    with pytest.raises(DataError, match="must be a positive finite number"):
        make(beta=beta)


def test_unknown_names_list_the_choices() -> None:
    with pytest.raises(DataError, match=r"'absolute'.*'logistic', 'probit', 'hinge', 'squared'"):
        get_loss("absolute")
    for wrong in (3, Logistic, None):
        with pytest.raises(DataError, match="an object like Logistic"):
            get_loss(wrong)


@pytest.mark.parametrize("name", ["hinge", "squared"])
def test_a_beta_that_would_be_ignored_is_refused(name: str) -> None:
    with pytest.raises(DataError, match=f"beta is 2.0, but the {name} loss has no sharpness"):
        get_loss(name, beta=2.0)
    with pytest.raises(DataError, match="would not use it; leave beta at 1"):
        get_loss(Logistic(beta=3.0), beta=2.0)
    with pytest.raises(DataError, match="would not use it"):
        get_loss(LOSSES[name](), beta=2.0)


class Cauchy(Logistic):
    """A link with heavy tails, whose negative log-likelihood is not convex."""

    name = "cauchy"
    is_convex = False


def test_a_loss_that_is_not_convex_is_refused() -> None:
    with pytest.raises(DataError, match="cauchy loss is not convex"):
        get_loss(Cauchy())


def test_a_loss_without_all_members_is_told_which_it_lacks() -> None:
    class Half:
        name, is_smooth, needs_binary, beta = "half", True, True, 1.0

    with pytest.raises(DataError, match="it has no is_convex, value, slope"):
        get_loss(Half())
