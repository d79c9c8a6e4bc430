"""Items scaled and reduced: distances and answers agree with the space they came from, also after saving."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from crowdmetric import IdealPointMetric
from crowdmetric.errors import DataError, ModelFileError
from crowdmetric.export import linear_head
from crowdmetric.persist import load_model, save_model
from crowdmetric.preprocess import ItemMap
from crowdmetric.simulate import simulate_crowd

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(80, 6)) @ GENERATOR.normal(size=(6, 6)) * [1, 2, 5, 10, 0.1, 1] + 3.0
MAPS = {
    "centerd": {},
    "standardized": {"standardize": True},
    "reduced": {"components": 3},
    "by share": {"components": 0.9},
    "whitened": {"whiten": True},
    "everything": {"standardize": True, "components": 4, "whiten": True},
}
each_map = pytest.mark.parametrize("options", MAPS.values(), ids=MAPS)


@each_map
def test_distances_agree(options) -> None:
    item_map = ItemMap(**options)
    Z = item_map.fit_transform(X)
    A = GENERATOR.normal(size=(Z.shape[1], Z.shape[1]))
    M = A @ A.T
    back = item_map.metric_to_original(M)
    z, x = Z[:40] - Z[40:], X[:40] - X[40:]
    np.testing.assert_allclose(np.einsum("ti,ij,tj->t", x, back, x), np.einsum("ti,ij,tj->t", z, M, z), rtol=1e-9)


@each_map
def test_answers_agree(options) -> None:
    item_map = ItemMap(**options)
    Z = item_map.fit_transform(X)
    k = Z.shape[1]
    A = GENERATOR.normal(size=(k, k))
    M, v = A @ A.T, GENERATOR.normal(size=(2, k))
    back, points = item_map.metric_to_original(M), item_map.points_to_original(M, v)

    def psi(items, metric, point):
        delta, total = items[:40] - items[40:], items[:40] + items[40:]
        return np.einsum("td,td->t", delta, total @ metric + point)

    for person in range(2):
        np.testing.assert_allclose(psi(X, back, points[person]), psi(Z, M, v[person]), rtol=1e-7, atol=1e-7)


def test_it_is_what_scikit_learn_does() -> None:
    item_map = ItemMap(standardize=True, components=4, whiten=True).fit(X)
    scaled = StandardScaler().fit_transform(X)
    expected = PCA(4, whiten=True).fit_transform(scaled)
    np.testing.assert_allclose(np.abs(item_map.transform(X)), np.abs(expected), atol=1e-9)
    np.testing.assert_allclose(ItemMap().fit_transform(X), X - X.mean(axis=0), atol=1e-12)


def test_features_without_variance_are_no_trouble() -> None:
    flat = np.column_stack([X, np.ones(len(X)), X[:, 0]])
    for options in MAPS.values():
        Z = ItemMap(**options).fit_transform(flat)
        assert np.all(np.isfinite(Z))
    assert ItemMap(whiten=True).fit(flat).matrix_.shape[0] == 6  # the others cannot be given variance 1


def test_the_summary_says_what_was_done() -> None:
    text = ItemMap(standardize=True, components=4, whiten=True).fit(X).summary()
    assert text.startswith("standardized, 4 of 6 principal directions (")
    assert text.endswith("whitened")
    assert ItemMap().fit(X).summary() == "centered"
    assert clone(ItemMap(components=2)).get_params()["components"] == 2
    assert list(ItemMap(components=2).fit(X).get_feature_names_out()) == ["itemmap0", "itemmap1"]


@pytest.mark.parametrize("components", [0, 7, 1.5, 0.0, True, "all"])
def test_wrong_numbers_of_components_get_a_sentence(components) -> None:
    with pytest.raises(DataError, match="neither a whole number from 1 to 6"):
        ItemMap(components=components).fit(X)


def test_wrong_shapes_get_a_sentence() -> None:
    item_map = ItemMap(components=2).fit(X)
    with pytest.raises(DataError, match=r"metric has shape \(3, 3\)"):
        item_map.metric_to_original(np.eye(3))
    with pytest.raises(DataError, match=r"points has shape \(2, 3\)"):
        item_map.points_to_original(np.eye(2), np.zeros((2, 3)))


# --------------------------------------------------------------------------------------------------- saved


@pytest.fixture
def fitted():
    crowd = simulate_crowd(4, None, None, users=20, comparisons=8, seed=0)
    item_map = ItemMap(standardize=True, components=3)
    items = item_map.fit_transform(crowd.items)
    model = IdealPointMetric(items, metric_bound=5.0, ideal_bound=5.0, tol=1e-4)
    return model.fit(crowd.pairs, crowd.y, users=crowd.users), item_map, crowd


def test_a_saved_model_maps_new_items(fitted, tmp_path) -> None:
    model, item_map, crowd = fitted
    saved = save_model(tmp_path / "model", model, feature_names=list("abcd"), preprocessing=item_map)
    loaded = load_model(tmp_path / "model")
    assert loaded.summary() == saved.summary()
    assert "3 of 4 principal directions" in loaded.summary()
    new = np.random.default_rng(1).normal(size=(5, 4))
    np.testing.assert_array_equal(loaded.preprocessing.transform(new), item_map.transform(new))
    np.testing.assert_allclose(loaded.original_metric, item_map.metric_to_original(model.metric_))
    expected = model.transform(item_map.transform(new))
    np.testing.assert_allclose(linear_head(loaded)(new), expected, rtol=1e-5, atol=1e-5)
    assert loaded.feature_names == list("abcd")
    np.testing.assert_array_equal(
        loaded.estimator().predict(crowd.pairs, users=crowd.users), model.predict(crowd.pairs, users=crowd.users)
    )


def test_a_model_without_preprocessing_stays_readable_for_older_versions(fitted, tmp_path) -> None:
    model, item_map, _ = fitted
    save_model(tmp_path / "plain", model)
    save_model(tmp_path / "mapped", model, preprocessing=item_map)
    versions = [
        json.loads((tmp_path / name / "model.json").read_text())["format_version"] for name in ("plain", "mapped")
    ]
    assert versions == [1, 2]


def test_a_preprocessing_of_something_else_is_refused(fitted, tmp_path) -> None:
    model, _, crowd = fitted
    with pytest.raises(ModelFileError, match="gives 2 features, but the model has 3"):
        save_model(tmp_path / "model", model, preprocessing=ItemMap(components=2).fit(crowd.items))
    assert not list(tmp_path.iterdir())


def test_a_damaged_preprocessing_gets_a_sentence(fitted, tmp_path) -> None:
    model, item_map, _ = fitted
    save_model(tmp_path / "model", model, preprocessing=item_map)
    path = tmp_path / "model" / "model.json"
    description = json.loads(path.read_text())
    path.write_text(json.dumps(description | {"preprocessing": {"other": 1}}))
    with pytest.raises(ModelFileError, match=r"preprocessing in .* cannot be read"):
        load_model(tmp_path / "model")
