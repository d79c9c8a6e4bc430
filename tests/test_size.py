"""The size of a metric: its volume in the prior, its evidence, and intervals that agree with the likelihood."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from crowdmetric import PopulationMetric
from crowdmetric.engines.local import LocalEngine
from crowdmetric.errors import CrowdmetricWarning
from crowdmetric.fits.crowd import crowd_in_memory
from crowdmetric.fits.problem import PopulationProblem
from crowdmetric.fits.size_posterior import nearest_metrics, posterior_of
from crowdmetric.fits.starts import evidence_fit
from crowdmetric.inputs import read_rows
from crowdmetric.intervals import distances, entries
from crowdmetric.losses import Logistic
from crowdmetric.simulate import answer, sample_metric
from crowdmetric.solvers.parametrization import Parametrization
from crowdmetric.solvers.priors import Ridges, held_size, volume_penalty
from crowdmetric.symmetric import smat, svec
from crowdmetric.users.population_sums import STRUCTURES


def crowd_of(d: int, people: int, answers: int, *, yes_no: bool, seed: int) -> tuple[np.ndarray, ...]:
    """Return items, pairs, y, users and the metric of a crowd whose people are as far out as the items."""
    rng = np.random.default_rng(seed)
    metric = sample_metric(d, rng)
    items = (rng.random((150, d)) < 0.5).astype(float) if yes_no else rng.standard_normal((150, d)) / np.sqrt(d)
    metric = metric / items.var(axis=0).sum()
    u = items.mean(axis=0) + rng.standard_normal((people, d)) * items.std()
    users = np.repeat(np.arange(people), answers)
    left = rng.integers(len(items), size=users.size)
    pairs = np.stack([left, (left + rng.integers(1, len(items), size=users.size)) % len(items)], axis=1)
    return items, pairs, answer(items, pairs, u[users], metric, seed=seed), users, metric


@pytest.mark.parametrize("part", [lambda m: volume_penalty(m, 0.7), lambda m: held_size(m, 0.3, 50.0)])
def test_penalties_on_a_size_have_the_slopes_of_differences(part) -> None:  # type: ignore[no-untyped-def]
    m = svec(np.diag([1.0, 2.0, 0.5]) + 0.1)
    for j, step in enumerate(1e-6 * np.eye(m.size)):
        slope = (part(m + step).value - part(m - step).value) / 2e-6
        assert part(m).gradient[j] == pytest.approx(slope, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(("d", "yes_no"), [(6, False), (6, True), (10, True)])
def test_the_size_is_right_and_its_interval_holds_it(d: int, yes_no: bool) -> None:
    """Sizes were up to 60 times too large with yes/no features, and said to be known to a tenth."""
    items, pairs, y, users, metric = crowd_of(d, 1000, 4, yes_no=yes_no, seed=1)
    model = PopulationMetric(items, starts=1).fit(pairs, y, users=users)
    size = np.trace(metric) / d
    assert abs(np.log(model.scale_ / size)) < 0.4
    low, high = np.quantile(np.trace(smat(model.metric_draws_), axis1=1, axis2=2) / d, [0.02, 0.98])
    assert low < size < high
    upper = np.triu_indices(d)
    assert np.mean(entries(model).contains(metric)[upper]) > 0.7
    every = pairs[:200]
    delta = items[every[:, 0]] - items[every[:, 1]]
    assert np.mean(distances(model, every).contains(np.sqrt(np.einsum("ti,ij,tj->t", delta, metric, delta)))) > 0.7


@pytest.fixture(scope="module")
def problem() -> tuple[PopulationProblem, object]:
    items, pairs, y, users, _ = crowd_of(4, 300, 4, yes_no=False, seed=3)
    crowd = crowd_in_memory(read_rows(pairs, y, users, None, items, Logistic()))
    problem = PopulationProblem.of(crowd, STRUCTURES["isotropic"], Logistic(), LocalEngine(1))
    return problem, evidence_fit(problem, Parametrization(4, "psd", False), tolerance=1e-4)


def test_the_posterior_reaches_half_and_twice_the_size(problem) -> None:  # type: ignore[no-untyped-def]
    """So an interval of the size agrees with the likelihood there: evidence and interval exclude the same sizes."""
    problem, fit = problem
    posterior = posterior_of(problem, fit)
    t = np.array([at.t for at in posterior.sizes])
    evidence = np.array([at.evidence for at in posterior.sizes])
    fitted = np.log(fit.natural[fit.layout.metric] @ svec(np.eye(4)) / 4)
    assert t[0] < fitted - 0.9 * np.log(2.0)
    assert t[-1] > fitted + 0.9 * np.log(2.0)
    drawn = np.log(posterior.draws(4000)[:, fit.layout.metric] @ svec(np.eye(4)) / 4)
    for at, known in zip(t, evidence, strict=True):
        if known < evidence.max() - 8.0:
            assert np.mean(np.abs(drawn - at) < 0.05) < 0.01
    # the fit is where its own evidence is about highest: its volume stands for the shapes
    assert np.interp(fitted, t, evidence) > evidence.max() - 0.5


def test_a_fit_at_a_fixed_size_has_that_size_and_the_evidence_of_laplace(problem) -> None:  # type: ignore[no-untyped-def]
    problem, fit = problem
    for at in posterior_of(problem, fit).sizes[::3]:
        m = at.fit.natural[fit.layout.metric]
        assert m @ svec(np.eye(4)) / 4 == pytest.approx(np.exp(at.t), rel=1e-3)
        # from the definition: the log determinant of shape and rest less that of the rest
        whole = at.root @ at.root.T
        q = at.directions.shape[1]
        schur = whole[:q, :q] - whole[:q, q:] @ np.linalg.solve(whole[q:, q:], whole[q:, :q])
        assert np.linalg.eigvalsh(schur)[0] > 0.0
        assert np.linalg.slogdet(schur)[1] == pytest.approx(
            np.linalg.slogdet(whole)[1] - np.linalg.slogdet(whole[q:, q:])[1]
        )


def test_draws_carry_the_whole_law(problem) -> None:  # type: ignore[no-untyped-def]
    items, pairs, y, users, _ = crowd_of(3, 200, 4, yes_no=False, seed=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdmetricWarning)
        model = PopulationMetric(items, starts=1).fit(pairs, y, users=users)
    np.testing.assert_array_equal(model.law_draws_[:, :6], model.metric_draws_)
    assert model.law_draws_.shape == (len(model.metric_draws_), 6 + 3 + 6)
    mean = model.law_draws_[:, 6:9]
    error = mean.std(axis=0)
    assert np.all(np.abs(mean.mean(axis=0) - model.pseudo_ideal_mean_) < 1.5 * error)
    metrics, covariance = smat(model.metric_draws_), smat(model.law_draws_[:, 9:])
    ratio = np.einsum("nii->n", covariance) / np.einsum("nij,nij->n", metrics, metrics)  # 4s² in every draw
    np.testing.assert_allclose(covariance, ratio[:, None, None] * metrics @ metrics, atol=1e-8 * covariance.max())


def test_nearest_metrics_keep_the_size() -> None:
    draws = svec(np.stack([np.diag([3.0, 2.0, -1.0]), np.diag([1.0, 1.0, 1.0])]))
    metrics = smat(nearest_metrics(draws))
    np.testing.assert_allclose(np.trace(metrics, axis1=1, axis2=2), [4.0, 3.0])
    assert np.linalg.eigvalsh(metrics).min() >= -1e-12


def test_ridges_of_other_models_keep_the_volume_of_their_shape() -> None:
    first, found = Ridges(shape=1.0), Ridges(shape=3.0, volume=0.2, people=2.0, people_volume=0.1)
    assert found.completed(first) == replace(Ridges(), shape=3.0, volume=0.2)


def test_more_features_than_were_measured_are_said() -> None:
    """With thirty features a size came out too large by scoring, outside of an interval that looked sure."""
    items, pairs, y, users, _ = crowd_of(24, 300, 3, yes_no=False, seed=2)
    many = PopulationMetric(items, starts=1, uncertainty=False, max_iter=5, warm_start=True)  # so by scoring
    few = PopulationMetric(items[:, :3], starts=1, uncertainty=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdmetricWarning)
        said = ["can be more than half too large" in m.fit(pairs, y, users=users).solution_.status for m in (many, few)]
    assert said == [True, False]


def test_a_size_that_yes_no_features_hide_is_said_to_be_unknown() -> None:
    """With a free covariance the diagonal of M cannot be told from people's mean, for x² = x."""
    items, pairs, y, users, _ = crowd_of(4, 400, 4, yes_no=True, seed=5)
    free, isotropic = (PopulationMetric(items, starts=1, covariance=kind) for kind in ("free", "isotropic"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdmetricWarning)
        status = free.fit(pairs, y, users=users).solution_.status
        isotropic.fit(pairs, y, users=users)
    assert np.isinf(free.scale_error_)
    assert "the scale of the metric is not known" in status.lower()
    assert np.isfinite(isotropic.scale_error_)
