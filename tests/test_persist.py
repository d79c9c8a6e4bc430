"""Saved models: what goes in comes out, and whatever is wrong with a folder is said in one sentence."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from crowdmetric import Comparisons, IdealPointMetric, StitchedMetric, persist
from crowdmetric.errors import DataError, ModelFileError
from crowdmetric.folders import check_target, new_folder, write_file
from crowdmetric.losses import Probit
from crowdmetric.persist import FORMAT_VERSION, is_model, load_model, save_model
from crowdmetric.simulate import simulate_crowd

CROWD = simulate_crowd(3, 8, 2, users=10, comparisons=6, seed=0)
NAMES = [f"item-{i}" for i in range(len(CROWD.items))]
PEOPLE = [f"person-{k}" for k in CROWD.users]
BOUNDS = {"metric_bound": 5.0, "ideal_bound": 3.0}


def stitched(**options):
    bases = [*CROWD.bases[:7], CROWD.bases[7][:, :1]]  # of two ranks, so lists are ragged
    estimator = StitchedMetric(CROWD.items, subspaces=bases, **(BOUNDS | options))
    inside = CROWD.labels[CROWD.pairs[:, 0]] < 7
    return estimator.fit(CROWD.pairs[inside], CROWD.y[inside], users=np.array(PEOPLE)[inside])


def ideal(**options):
    return IdealPointMetric(CROWD.items, **(BOUNDS | options)).fit(CROWD.pairs, CROWD.y, users=CROWD.users)


MODELS = {
    "stitched": stitched,
    "ideal": ideal,
    "chosen bounds": lambda: ideal(metric_bound=None, tol=1e-4),
    "loss object": lambda: ideal(loss=Probit(2.0)),
    "hinge": lambda: ideal(loss="hinge", tol=1e-3),
    "fixed metric": lambda: ideal(fixed_metric=np.eye(3), metric_bound=None),
    "one bound a subspace": lambda: stitched(metric_bound=np.full(8, 4.0)),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    save_model(folder, ideal(), item_ids=NAMES, feature_names=["a", "b", "c"])
    return folder


@pytest.fixture
def copy(saved, tmp_path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_estimator_is_the_one_saved(name, tmp_path) -> None:
    before = MODELS[name]()
    save_model(tmp_path / "model", before)
    after = load_model(tmp_path / "model").estimator()
    assert type(after) is type(before)
    users = before.users_[[0, 1, 0]]
    psi = before.decision_function(CROWD.pairs[:3], users=users)
    np.testing.assert_array_equal(after.decision_function(CROWD.pairs[:3], users=users), psi)
    np.testing.assert_array_equal(after.predict(CROWD.pairs[:3]), before.predict(CROWD.pairs[:3]))
    np.testing.assert_array_equal(after.transform(CROWD.items[:4]), before.transform(CROWD.items[:4]))
    assert after.solution_ == before.solution_
    assert after.radii_ == before.radii_
    if name == "loss object":
        np.testing.assert_array_equal(after.predict_proba(CROWD.pairs[:3]), before.predict_proba(CROWD.pairs[:3]))


def test_everything_a_fit_leaves_behind_is_kept_or_named(tmp_path) -> None:
    before = stitched()
    model = save_model(tmp_path / "model", before)
    after = load_model(tmp_path / "model").estimator()
    public = {name for name in vars(before) if name.endswith("_") and not name.startswith("_")}
    left_out = set(model.description["left_out"])
    assert public - left_out <= set(vars(after))
    assert "subspaces" in left_out
    for name in ("bases_", "subspace_metrics_"):
        for ours, theirs in zip(getattr(after, name), getattr(before, name), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(after.labels_, before.labels_)
    np.testing.assert_array_equal(after.users_, before.users_)


def test_the_folder_describes_itself(saved) -> None:
    assert sorted(path.name for path in saved.iterdir()) == ["metric.npz", "model.json"]
    text = (saved / "model.json").read_text(encoding="utf-8")
    description = json.loads(text, parse_constant=pytest.fail)  # no NaN, no Infinity
    assert description["estimator"] == "IdealPointMetric"
    assert description["parameters"]["metric_bound"] == 5.0
    assert description["solution"]["converged"] is True
    assert {"crowdmetric", "numpy", "scikit-learn", "format_version"} <= set(description)
    model = load_model(saved)
    assert model.item_ids.tolist() == NAMES
    assert model.feature_names == ["a", "b", "c"]
    np.testing.assert_array_equal(model.items, CROWD.items)
    np.testing.assert_allclose(model.components.T @ model.components, model.metric, atol=1e-12)
    assert model.pseudo_ideal_points.shape == (len(model.users), 3)
    with np.load(saved / "metric.npz", allow_pickle=False) as archive:  # and no pickle in it
        assert {"metric", "components", "users", "pseudo_ideal_points", "items"} <= set(archive.files)


def test_what_save_returns_is_what_load_returns(tmp_path) -> None:
    comparisons = Comparisons.from_arrays(CROWD.users, CROWD.pairs, CROWD.y, n_items=len(CROWD.items))
    estimator = IdealPointMetric(CROWD.items, **BOUNDS).fit(comparisons)
    before = save_model(tmp_path / "model", estimator, comparisons=comparisons)
    after = load_model(tmp_path / "model")
    assert before.description == after.description
    assert before.summary() == after.summary()
    assert after.description["data"] == {"people": 80, "items": 960, "answers": 480, "dropped": {}}


def test_summary_says_who_chose_the_bounds() -> None:
    def summary(estimator) -> str:
        return persist._collect(estimator, None, None, None).summary()

    assert "5 (given)" in summary(ideal())
    assert "chosen from the data" in summary(ideal(metric_bound=None, tol=1e-4))
    text = summary(stitched(metric_bound=np.linspace(2, 4, 8)))
    assert "2 … 4 (given; active in" in text
    assert "8 of dimension 1 and 2" in text


def test_a_model_of_vectors_has_no_items(tmp_path) -> None:
    estimator = IdealPointMetric(**BOUNDS).fit(CROWD.items[CROWD.pairs], CROWD.y, users=CROWD.users)
    save_model(tmp_path / "model", estimator)
    model = load_model(tmp_path / "model")
    assert model.items is None
    assert model.estimator().predict(CROWD.items[CROWD.pairs[:2]]).shape == (2,)


# ------------------------------------------------------------------------------------- what can be wrong


def damage(folder: Path, **changes) -> None:
    path = folder / "model.json"
    description = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({k: v for k, v in (description | changes).items() if v != "gone"}))


def flip_a_byte(folder: Path) -> None:
    content = bytearray((folder / "metric.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "metric.npz").write_bytes(content)


def forge(folder: Path) -> None:
    """Replace the arrays by something that is not an archive, checksum and all."""
    (folder / "metric.npz").write_bytes(b"not an archive")
    damage(folder, checksum=persist._checksum(folder / "metric.npz"))


DAMAGES = {
    "no folder": (shutil.rmtree, "does not exist"),
    "no arrays": (lambda folder: (folder / "metric.npz").unlink(), "metric.npz is missing"),
    "no description": (lambda folder: (folder / "model.json").unlink(), "is not a crowdmetric model"),
    "not JSON": (lambda folder: (folder / "model.json").write_text("{"), "is not a crowdmetric model"),
    "not an object": (lambda folder: (folder / "model.json").write_text("[]"), "is not a crowdmetric model"),
    "foreign": (lambda folder: damage(folder, format="other"), "is not a crowdmetric model"),
    "newer": (lambda folder: damage(folder, format_version=FORMAT_VERSION + 1), "update crowdmetric"),
    "incomplete": (lambda folder: damage(folder, data="gone"), "not a complete model"),
    "damaged": (flip_a_byte, "does not match the checksum"),
    "forged": (forge, "cannot be read"),
    "unknown estimator": (lambda folder: damage(folder, estimator="OtherMetric"), "'OtherMetric'"),
    "half an importance": (lambda folder: damage(folder, importance={"names": ["f0"]}), "'importance' in model.json"),
    "unknown parameter": (lambda folder: damage(folder, parameters={"other": 1}), "update crowdmetric"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_folder_gets_one_sentence(name, copy) -> None:
    harm, sentence = DAMAGES[name]
    harm(copy)
    with pytest.raises(ModelFileError, match=sentence) as caught:
        load_model(copy).estimator()
    assert "\n" not in str(caught.value)


def change(name, value):
    """Return a function that replaces an array of a model, or one made from it, checksum and all."""

    def forge_one(folder: Path) -> None:
        with np.load(folder / "metric.npz") as archive:
            arrays = dict(archive)
        arrays[name] = value(arrays.get(name)) if callable(value) else value
        np.savez_compressed(folder / "metric.npz", **arrays)
        damage(folder, checksum=persist._checksum(folder / "metric.npz"))

    return forge_one


def bomb(folder: Path) -> None:
    """Forge an archive of a few hundred bytes that says that it takes exabytes."""
    with zipfile.ZipFile(folder / "metric.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metric.npy", b"0" * 1000)
    content = (folder / "metric.npz").read_bytes()
    entry = content.index(b"PK\x01\x02") + 24  # the size in the directory
    forged = content[:entry] + (0xFFFFFFF0).to_bytes(4, "little") + content[entry + 4 :]
    (folder / "metric.npz").write_bytes(forged)
    damage(folder, checksum=persist._checksum(folder / "metric.npz"))


def spoil(array):
    array = array.astype(float)
    array.flat[0] = np.nan
    return array


FORGERIES = {
    "negative metric": (change("metric", lambda M: -M), "'metric' .* has negative eigenvalues"),
    "asymmetric metric": (change("metric", lambda M: M + np.triu(np.ones_like(M), 1)), "'metric' .* is not symmetric"),
    "NaN": (change("metric", spoil), "'metric' .* is not finite everywhere"),
    "NaN in points": (change("pseudo_ideal_points", spoil), "'pseudo_ideal_points' .* is not finite"),
    "5 users": (change("users", lambda users: users[:5]), "points' .* has the shape"),
    "5 users everywhere": (lambda folder: damage(folder, data={"people": 5, "items": 7}), "it knows 7 items, and it"),
    "a name of Python's": (change("__class_", np.ones(2)), "'__class_' .* has a name that no fit gives"),
    "a method's name": (change("_finish", np.ones(2)), "has a name that no fit gives"),
    "complex": (change("metric", lambda M: M + 0j), "holds complex128"),
    "text": (change("metric", lambda M: M.astype(str)), "is text"),
    "a row of negative numbers": (change("asked_items", np.array([[-1, 0]])), "does not hold row numbers"),
    "a list": (change("bases.shapes", np.array([[2, 2]])), "has the shape|cannot be read|has no array"),
    "no users": (change("users", lambda users: users[:, None]), "'users' .* has the shape"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_arrays_get_one_sentence(name, copy) -> None:
    harm, sentence = FORGERIES[name]
    if name == "a list":
        change("bases.values", np.ones(3))(copy)
    harm(copy)
    with pytest.raises(ModelFileError, match=sentence) as caught:
        load_model(copy)
    assert "\n" not in str(caught.value)


def test_an_archive_that_does_not_fit_into_memory_is_not_unpacked(copy, monkeypatch) -> None:
    bomb(copy)
    with pytest.raises(ModelFileError, match=r"cannot be read|when it is unpacked"):
        load_model(copy)
    monkeypatch.setattr(persist, "read_memory", lambda _: 100)
    with pytest.raises(ModelFileError, match=r"GB when it is unpacked, and there is room for 0\.0 GB"):
        load_model(copy)


def test_of_two_fits_to_one_new_folder_the_second_is_told(tmp_path, monkeypatch) -> None:
    place, second = tmp_path / "model", ideal()

    def meanwhile(path, page) -> None:
        monkeypatch.undo()
        save_model(place, ideal())
        write_file(path, page)

    monkeypatch.setattr(persist, "write_file", meanwhile)
    with pytest.raises(ModelFileError, match="was made by another process in the meantime"):
        save_model(place, second)
    assert load_model(place).users.size
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.skipif(os.name == "nt", reason="there are no such locks")
def test_what_a_killed_process_left_is_removed_and_what_is_being_written_is_not(tmp_path) -> None:
    killed = (
        "import os, pathlib, signal\n"
        "from crowdmetric.folders import new_folder\n"
        "with new_folder('model', False, lambda _: False) as folder:\n"
        "    (folder / 'half').write_text('x')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    here = os.environ | {"PYTHONPATH": str(Path(persist.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", killed], cwd=tmp_path, env=here, check=False)
    assert [path.name.startswith(".model.") for path in tmp_path.iterdir()] == [True]
    aside = tmp_path / f".older.{'0' * 16}.tmp.old"  # a process killed while it replaced a folder
    aside.mkdir()
    with new_folder(tmp_path / "first", False, is_model) as first:
        save_model(tmp_path / "second", ideal())
        assert first.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "older", "second"]


def test_a_file_is_not_a_folder(tmp_path) -> None:
    (tmp_path / "model").write_text("")
    with pytest.raises(ModelFileError, match="is a file"):
        load_model(tmp_path / "model")
    with pytest.raises(ModelFileError, match="is a file"):
        save_model(tmp_path / "model", ideal())


def test_only_models_are_overwritten_and_only_when_asked(copy) -> None:
    estimator = ideal()
    with pytest.raises(ModelFileError, match="--overwrite"):
        save_model(copy, estimator)
    save_model(copy, estimator, overwrite=True)
    assert load_model(copy).feature_names == ["f0", "f1", "f2"]
    (copy / "notes.txt").write_text("mine")
    with pytest.raises(ModelFileError, match="holds other files"):
        save_model(copy, estimator, overwrite=True)
    assert (copy / "notes.txt").read_text() == "mine"
    assert [path.name for path in copy.parent.iterdir()] == ["model"]


def test_the_folder_one_is_in_is_not_replaced(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelFileError, match="is the folder that you are in, which cannot be replaced; name a new"):
        check_target(".", True, is_model)


def test_an_empty_folder_is_filled_and_a_missing_parent_is_named(tmp_path) -> None:
    (tmp_path / "model").mkdir()
    save_model(tmp_path / "model", ideal())
    assert load_model(tmp_path / "model").estimator().score(CROWD.pairs, CROWD.y, CROWD.users) > 0.5
    with pytest.raises(ModelFileError, match="there is no folder"):
        save_model(tmp_path / "nowhere" / "model", ideal())


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_nothing_half_written_is_left(error, copy, monkeypatch) -> None:
    before = (copy / "model.json").read_text()

    def interrupted(*args, **kwargs):
        raise error

    monkeypatch.setattr(persist.json, "dumps", interrupted)
    for target in (copy, copy.parent / "new"):
        with pytest.raises(error if error is KeyboardInterrupt else ModelFileError):
            save_model(target, ideal(), overwrite=True)
    assert [path.name for path in copy.parent.iterdir()] == ["model"]
    assert (copy / "model.json").read_text() == before


def test_the_old_folder_comes_back_if_the_new_one_cannot_be_moved(tmp_path, monkeypatch) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "old").write_text("")
    real, moves = persist.os.replace, []

    def second_fails(source, target) -> None:
        moves.append(target)
        if len(moves) == 2:
            raise OSError("disk gone")
        real(source, target)

    monkeypatch.setattr("os.replace", second_fails)
    with pytest.raises(ModelFileError, match="disk gone"), new_folder(place, True, lambda _: True):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["place"]
    assert (place / "old").exists()


def test_what_cannot_be_saved_is_said_before_anything_is_written(tmp_path) -> None:
    class Other(Probit):
        pass

    with pytest.raises(ModelFileError, match="is not one of the library's"):
        save_model(tmp_path / "model", ideal(loss=Other()))
    with pytest.raises(ModelFileError, match="item_ids has 2 entries"):
        save_model(tmp_path / "model", ideal(), item_ids=[1, 2])
    with pytest.raises(ModelFileError, match="feature_names has 1 entries"):
        save_model(tmp_path / "model", ideal(), feature_names=["a"])
    with pytest.raises(DataError, match="must differ"):
        save_model(tmp_path / "model", ideal(), item_ids=["same"] * len(CROWD.items))
    assert not list(tmp_path.iterdir())
