"""Neighbors by an index of exported coordinates are neighbors by the metric, whatever the index."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.pipeline import make_pipeline

from crowdmetric import IdealPointMetric
from crowdmetric.errors import DataError
from crowdmetric.export import linear_head, write_head
from crowdmetric.persist import load_model, save_model
from crowdmetric.preprocess import ItemMap
from crowdmetric.simulate import simulate_crowd

CROWD = simulate_crowd(5, None, None, users=30, comparisons=10, seed=0)
ITEMS = CROWD.items[:300]
K = 5


@pytest.fixture(scope="module")
def model():
    estimator = IdealPointMetric(CROWD.items, metric_bound=8.0, ideal_bound=5.0, tol=1e-4)
    return estimator.fit(CROWD.pairs, CROWD.y, users=CROWD.users)


def by_metric(M, queries, items):
    """Return the nearest items by brute force under M, (Q, K)."""
    delta = queries[:, None] - items[None]
    return np.argsort(np.einsum("qid,de,qie->qi", delta, M, delta), axis=1)[:, :K]


def by_scikit_learn(vectors, queries):
    return NearestNeighbors(n_neighbors=K).fit(vectors).kneighbors(queries)[1]


def by_faiss(vectors, queries):
    faiss = pytest.importorskip("faiss", reason="faiss-cpu is not installed")
    index = faiss.IndexFlatL2(vectors.shape[1])
    index.add(vectors)
    return index.search(queries, K)[1]


def by_hnswlib(vectors, queries):
    hnswlib = pytest.importorskip("hnswlib", reason="hnswlib is not installed (it is built from source)")
    index = hnswlib.Index(space="l2", dim=vectors.shape[1])
    index.init_index(max_elements=len(vectors), ef_construction=200, M=32, random_seed=0)
    index.set_num_threads(1)
    index.add_items(vectors)
    index.set_ef(len(vectors))
    return index.knn_query(queries, K)[0]


@pytest.mark.parametrize("index", [by_scikit_learn, by_faiss, by_hnswlib])
def test_neighbors_by_index_are_neighbors_by_the_metric(index, model) -> None:
    head = linear_head(model)
    found = index(head(ITEMS), head(CROWD.items[300:340]))
    expected = by_metric(model.metric_, CROWD.items[300:340], ITEMS)
    assert np.any(by_metric(np.eye(5), CROWD.items[300:340], ITEMS) != expected)  # the metric matters
    # single precision may swap items at equal distance, and an approximate index may miss one: sets, almost all
    same = [len(set(a) & set(b)) for a, b in zip(found.tolist(), expected.tolist(), strict=True)]
    assert sum(same) >= 0.99 * K * len(same)


def test_rank_keeps_the_most_important_directions(model) -> None:
    full, two = linear_head(model), linear_head(model, rank=2)
    np.testing.assert_array_equal(two.weight, full.weight[:2])
    assert np.all(cdist(two(ITEMS), two(ITEMS)) <= cdist(full(ITEMS), full(ITEMS)) + 1e-5)
    with pytest.raises(DataError, match="rank=6"):
        linear_head(model, rank=6)


def test_directions_that_the_metric_does_not_see_are_left_out(model) -> None:
    fixed = IdealPointMetric(CROWD.items, fixed_metric=np.diag([2.0, 1.0, 0, 0, 0]), ideal_bound=5.0, tol=1e-3)
    fixed.fit(CROWD.pairs, CROWD.y, users=CROWD.users)
    assert linear_head(fixed).weight.shape == (2, 5)


def test_a_pipeline_of_scikit_learn_uses_the_metric(model) -> None:
    classes = (ITEMS[:, 0] > 0).astype(int)
    plain = KNeighborsClassifier(3, algorithm="brute").fit(model.transform(ITEMS), classes)
    pipeline = make_pipeline(Fitted(model), KNeighborsClassifier(3, algorithm="brute")).fit(ITEMS, classes)
    np.testing.assert_array_equal(pipeline.predict(ITEMS), plain.predict(model.transform(ITEMS)))
    clusters = make_pipeline(Fitted(model), KMeans(3, n_init=1, random_state=0)).fit_predict(ITEMS)
    np.testing.assert_array_equal(clusters, KMeans(3, n_init=1, random_state=0).fit_predict(model.transform(ITEMS)))


def Fitted(model):
    from sklearn.frozen import FrozenEstimator  # noqa: PLC0415 - as the documentation writes it

    return FrozenEstimator(model)


# --------------------------------------------------------------------------------------------------- files


@pytest.fixture
def head(model):
    item_map = ItemMap(components=4).fit(CROWD.items)
    reduced = IdealPointMetric(item_map.transform(CROWD.items), metric_bound=8.0, ideal_bound=5.0, tol=1e-3)
    return linear_head(reduced.fit(CROWD.pairs, CROWD.y, users=CROWD.users), item_map)


def test_npz_is_two_arrays(head, tmp_path) -> None:
    write_head(head, tmp_path / "head.npz")
    with np.load(tmp_path / "head.npz", allow_pickle=False) as file:
        np.testing.assert_allclose(ITEMS @ file["weight"].T + file["bias"], head(ITEMS), rtol=1e-5, atol=1e-6)


def test_csv_is_a_row_a_coordinate(head, tmp_path) -> None:
    write_head(head, tmp_path / "head.csv", "csv")
    with (tmp_path / "head.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["w0", "w1", "w2", "w3", "w4", "bias"]
    np.testing.assert_array_equal(np.array(rows[1:], dtype=float)[:, :-1], head.weight)


def test_safetensors_is_a_linear_layer(head, tmp_path) -> None:
    numpy = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    write_head(head, tmp_path / "head.safetensors", "safetensors")
    layer = numpy.load_file(tmp_path / "head.safetensors")
    y = ITEMS.astype(np.float32) @ layer["linear.weight"].T + layer["linear.bias"]
    np.testing.assert_allclose(y, head(ITEMS), rtol=1e-4, atol=1e-5)
    assert [path.name for path in tmp_path.iterdir()] == ["head.safetensors"]


def test_without_safetensors_there_is_a_sentence(head, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "safetensors.numpy", None)
    with pytest.raises(ImportError, match=r"pip install 'crowdmetric\[export\]'"):
        write_head(head, tmp_path / "head.safetensors", "safetensors")
    assert not list(tmp_path.iterdir())


def test_wrong_requests_get_a_sentence(head, model, tmp_path) -> None:
    with pytest.raises(DataError, match="format 'pickle' is not known"):
        write_head(head, tmp_path / "head", "pickle")
    with pytest.raises(DataError, match="there is no folder"):
        write_head(head, tmp_path / "nowhere" / "head.npz")
    with pytest.raises(DataError, match=r"items has shape \(3, 2\)"):
        head(np.zeros((3, 2)))
    save_model(tmp_path / "model", model)
    with pytest.raises(DataError, match="carries its preprocessing"):
        linear_head(load_model(tmp_path / "model"), ItemMap().fit(ITEMS))
