"""A fit by gradients from arrays to a metric: what is read on the device, what is kept of people, what is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crowdmetric import PopulationMetric
from crowdmetric.engines.torch_engine import TorchEngine
from crowdmetric.errors import CrowdmetricWarning, DataError
from crowdmetric.estimators import population
from crowdmetric.fits import many_features
from crowdmetric.fits.many_features import announce_points
from crowdmetric.fits.on_device import asked_on_device
from crowdmetric.fits.question_stream import InPieces, asked_in_memory
from crowdmetric.inputs import read_rows
from crowdmetric.intervals import distance_ratios, distances, entries
from crowdmetric.losses import Logistic
from crowdmetric.persist import load_model, save_model
from crowdmetric.users.blocks import Answers
from crowdmetric.users.first_order import IsotropicPeople, LowRank, value_and_gradient


def answers(people: int = 60, m: int = 3, n_items: int = 12, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Rows in no order, some of which repeat or turn round an earlier one of the same person."""
    rng = np.random.default_rng(seed)
    items = rng.standard_normal((n_items, 5)) + 40.0
    users = np.repeat(rng.choice(1000, people, replace=False) - 500, m)
    left = rng.integers(0, n_items, users.size)
    pairs = np.stack([left, (left + rng.integers(1, n_items, users.size)) % n_items], axis=1)
    y = rng.choice([-1, 1], users.size)
    again = rng.integers(0, users.size, 20)
    pairs, y, users = (
        np.concatenate([pairs, pairs[again, ::-1]]), np.concatenate([y, -y[again]]),
        np.concatenate([users, users[again]]),
    )  # fmt: skip
    order = rng.permutation(users.size)
    return items, pairs[order], y[order], users[order]


def likelihood(asked: Any) -> tuple[float, np.ndarray]:
    at = LowRank(np.eye(5, 2), np.full(5, 0.1), IsotropicPeople(-0.5))
    return value_and_gradient(asked.items, asked.questions, at, Logistic())


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("kind", ["arrays", "tensors", "names"])
def test_the_device_reads_what_read_rows_reads(kind: str, m: int) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: gpu)")
    items, pairs, y, users = answers(m=m)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, y.size)
    rows = read_rows(pairs, y, users, weight, items, Logistic())
    here = asked_in_memory(rows)
    given: list[Any] = [pairs, y, users, weight, items]
    if kind == "tensors":
        given = [torch.as_tensor(x) for x in given]
    if kind == "names":
        given[2] = [f"{user:05}" for user in users + 500]
    there = asked_on_device(*given, TorchEngine("cpu"), 10)
    assert there is not None
    assert there.weight == pytest.approx(here.weight)
    assert there.n_users == here.n_users
    if kind != "names":
        np.testing.assert_array_equal(there.users, here.users)
    np.testing.assert_allclose(there.units.center, here.units.center, rtol=1e-12)
    assert there.units.size == pytest.approx(here.units.size, rel=1e-12)
    (value, gradient), (expected, slope) = likelihood(there), likelihood(here)
    assert value == pytest.approx(expected, abs=1e-7)
    np.testing.assert_allclose(gradient, slope, atol=1e-6)


@pytest.mark.parametrize(
    "spoilt", ["an item that is not there", "a third answer", "no weight", "vectors", "not finite", "nobody named"]
)
def test_what_is_out_of_the_ordinary_is_left_to_read_rows(spoilt: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed (extra: gpu)")
    items, pairs, y, users = answers()
    weight = np.ones(y.size)
    if spoilt == "an item that is not there":
        pairs[3, 1] = len(items)
    elif spoilt == "a third answer":
        y[5] = 0
    elif spoilt == "no weight":
        weight[2] = 0.0
    elif spoilt == "vectors":
        pairs = items[pairs]
    elif spoilt == "not finite":
        items[0, 0] = np.nan
    else:
        users = None  # type: ignore[assignment]
    assert asked_on_device(pairs, y, users, weight, items, TorchEngine("cpu"), 10) is None


def test_items_far_from_zero_keep_their_digits_in_single_precision() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed (extra: gpu)")
    items, pairs, y, users = answers()
    far = asked_on_device(pairs, y, users, None, items + 1e6, TorchEngine("cpu", "float32"), 10)
    near = asked_on_device(pairs, y, users, None, items, TorchEngine("cpu", "float32"), 10)
    assert far is not None
    assert near is not None
    np.testing.assert_allclose(far.items, near.items, atol=1e-6)


class Small:
    """A device with room for the questions of so many people."""

    out_of_memory = MemoryError

    def __init__(self, room: int) -> None:
        self.room = room

    def total(self, questions: InPieces) -> int:
        count = 0
        for some in questions:
            if some.left.shape[0] > self.room:
                raise MemoryError
            count += some.left.shape[0]
        return count


def test_memory_that_runs_out_halves_the_pieces() -> None:
    items, pairs, y, users = answers(people=100, m=1)
    asked = asked_in_memory(read_rows(pairs, y, users, None, items, Logistic()))
    device = Small(room=9)
    pieces = InPieces(asked.questions, device)  # type: ignore[arg-type]
    assert pieces.sum(lambda: device.total(pieces)) == 100
    assert pieces.pieces == 16
    none = InPieces(asked.questions, Small(room=0))  # type: ignore[arg-type]
    with pytest.raises(MemoryError):  # not even one person fits
        none.sum(lambda: Small(room=0).total(none))


def test_no_repeats_is_never_said_of_repeats() -> None:
    _, pairs, y, users = answers(m=2)
    _, person = np.unique(users, return_inverse=True)
    with_repeats = Answers(np.zeros((12, 1)), pairs, y, np.ones(y.size), person, np.zeros(person.max() + 1, int), 1)
    assert not with_repeats.has_no_repeats()
    assert with_repeats.merged().weight.size < y.size
    once = with_repeats.take(np.unique(person, return_index=True)[1])
    assert once.has_no_repeats()
    assert once.merged() is once


@pytest.fixture(name="fitted", scope="module")
def _fitted() -> tuple[PopulationMetric, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    items = rng.standard_normal((300, 80)) / np.sqrt(80)
    L = rng.standard_normal((80, 2)) * 0.9
    pairs, users = rng.integers(0, 300, (9000, 2)), np.repeat(np.arange(3000), 3)
    ideal = rng.standard_normal((3000, 80)) / np.sqrt(80)
    x, x_ = items[pairs[:, 0]], items[pairs[:, 1]]
    psi = np.sum(((x - x_) @ L) * ((x + x_ - 2.0 * ideal[users]) @ L), axis=1)
    y = np.where(rng.random(9000) < 1.0 / (1.0 + np.exp(-psi)), 1, -1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(population, "LARGE_POINTS", 0)
        return PopulationMetric(items, rank=2).fit(pairs, y, users=users), pairs, users


def test_points_are_made_when_they_are_read(fitted: tuple[Any, ...]) -> None:
    model, pairs, users = fitted
    assert "ideal_points_" not in vars(model)
    assert model.people_coordinates_.shape == (3000, 2)
    points = model.pseudo_ideal_points_
    assert points.shape == (3000, 80)
    np.testing.assert_allclose(-2.0 * model.ideal_points_ @ model.metric_, points @ _onto(model.metric_), atol=1e-8)
    x, x_ = (model.items[pairs[:50, side]] for side in (0, 1))
    psi = np.sum((x - x_) * ((x + x_) @ model.metric_ + points[users[:50]]), axis=1)
    np.testing.assert_allclose(model.decision_function(pairs[:50], users[:50]), psi, atol=1e-10)
    assert np.all(np.isfinite(model.predict_proba(pairs[:50], users[:50])))
    with pytest.raises(AttributeError, match="no attribute 'nothing_'"):
        _ = model.nothing_


def _onto(metric: np.ndarray) -> np.ndarray:
    return np.linalg.pinv(metric, rcond=1e-6, hermitian=True) @ metric


def test_a_saved_model_has_its_people(fitted: tuple[Any, ...], tmp_path: Any) -> None:
    model, pairs, users = fitted
    save_model(tmp_path / "model", model)
    again = load_model(tmp_path / "model")
    np.testing.assert_allclose(again.pseudo_ideal_points, model.pseudo_ideal_points_)
    predicted = again.estimator().decision_function(pairs[:20], users[:20])
    np.testing.assert_allclose(predicted, model.decision_function(pairs[:20], users[:20]))


def test_low_rank_metrics_have_intervals_of_distances(fitted: tuple[Any, ...]) -> None:
    model, pairs, _ = fitted
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    assert model.standard_errors_.shape == (80, 80)
    np.testing.assert_allclose(model.factor_ @ model.factor_.T, model.metric_, atol=1e-10)
    found = distances(model, pairs[:30])
    # medians of draws: a short distance is longer under most draws than under their mean
    ratio = found.estimate / model.pair_distance(pairs[:30])
    assert np.median(ratio) == pytest.approx(1.0, abs=0.05)
    assert np.corrcoef(found.estimate, model.pair_distance(pairs[:30]))[0, 1] > 0.99
    assert np.all(found.low <= found.estimate)
    assert np.all(found.standard_error > 0)
    assert np.all(found.low >= 0)
    assert distance_ratios(model, pairs[:5], pairs[5:6]).estimate.shape == (5,)
    with pytest.raises(DataError, match="has intervals of distances and of their ratios only"):
        entries(model)


@pytest.mark.filterwarnings("ignore::crowdmetric.errors.ConvergenceWarning")  # coin flips
def test_standard_errors_that_are_too_much_work_are_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    items, pairs, y = rng.standard_normal((50, 80)), rng.integers(0, 50, (100, 2)), rng.choice([-1, 1], 100)
    monkeypatch.setattr(many_features, "MOST_WORK", 1e6)
    with pytest.raises(CrowdmetricWarning, match=r"161 parameters .* would take 3e\+06 multiplications"):
        PopulationMetric(items, rank=1).fit(pairs, y, users=np.arange(100))
    model = PopulationMetric(items, rank=1, uncertainty=False, max_iter=20).fit(pairs, y, users=np.arange(100))
    assert not hasattr(model, "standard_errors_")
    assert not hasattr(model, "factor_draws_")


def test_points_that_do_not_fit_are_refused_with_their_size() -> None:
    with pytest.raises(DataError, match=r"ideal_points_ of 10,000,000,000 people in 384 dimensions takes 30720\.0 GB"):
        announce_points(10**10, 384, "ideal_points_")
    announce_points(1000, 384, "ideal_points_")


def test_no_gpu_means_compiled_loops_and_a_word() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: gpu)")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU, so nothing falls back")
    items, pairs, y, users = answers(people=400, m=1)
    items = np.hstack([items, np.random.default_rng(0).standard_normal((len(items), 75))])
    said: list[str] = []
    options: dict[str, Any] = {"rank": 1, "uncertainty": False, "max_iter": 300}
    model = PopulationMetric(items, engine="torch", progress=said.append, **options).fit(pairs, y, users=users)
    assert said[0].startswith("no GPU was found: the CPU will take about")
    np.testing.assert_array_equal(
        model.metric_, PopulationMetric(items, **options).fit(pairs, y, users=users).metric_
    )  # fmt: skip
