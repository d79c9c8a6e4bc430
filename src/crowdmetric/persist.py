"""Fitted models as folders: two files that any NumPy can read, and no pickle.

::

    model/metric.npz    every array: metric, components, users, pseudo_ideal_points, …, items, item_ids, and the
                        matrix and mean of the preprocessing where there was one
    model/model.json    everything else: versions, parameters, how the fit ended, the checksum of metric.npz
    model/report.html   a page for people, where one was asked for; nothing reads it back

All public attributes that a fit sets are saved under their names without the underscore, so a new estimator needs no
line here. A list of matrices of different shapes (bases, subspace metrics) is two arrays:
``bases.values``, end to end, and ``bases.shapes``.

A folder is written completely or not at all; see `folders`.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from numpy.lib.format import read_array_header_1_0, read_array_header_2_0, read_magic
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

import crowdmetric.estimators
from crowdmetric._version import __version__
from crowdmetric.base import CrowdMetric
from crowdmetric.bounded.radii import Radii
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import DataError, ModelFileError
from crowdmetric.fits.memory import read_memory
from crowdmetric.folders import check_target, for_json, new_file, new_folder, write_file
from crowdmetric.importance import find_importance
from crowdmetric.inputs import check_items
from crowdmetric.losses import LOSSES
from crowdmetric.model_schema import check_arrays, check_description
from crowdmetric.preprocess import ItemMap
from crowdmetric.solvers.solution import Solution
from crowdmetric.summary import counted, fitted_attributes, summary_of, table_of
from crowdmetric.tables import Column, ComparisonScan, Items, unique_ids

__all__ = ["FORMAT_VERSION", "SavedModel", "is_model", "load_model", "save_model", "withhold", "write_report"]

Array = NDArray[np.float64]
Place = str | os.PathLike[str]

FORMAT = "crowdmetric model"
# 2: items were preprocessed. Models without that are still written as version 1, which every reader knows.
FORMAT_VERSION = 2
ARRAYS, DESCRIPTION, REPORT = "metric.npz", "model.json", "report.html"
# Arrays that belong to the catalogue, not to the fit.
CATALOGUE = ("items", "item_ids", "feature_names")
# The arrays of an ItemMap.
MAP_ARRAYS = ("matrix", "mean", "values")
# What reading an archive raises that is damaged, forged or too large.
UNREADABLE = (
    ValueError, KeyError, EOFError, OSError, OverflowError, MemoryError, NotImplementedError, RuntimeError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
# Attributes of a fit that are neither arrays nor numbers; they are in model.json.
RECORDS: dict[str, type[Solution] | type[Radii]] = {"solution_": Solution, "radii_": Radii}


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A fitted model as its folder holds it.

    Attributes
    ----------
    fitted : dict
        Attributes that the fit set (``metric_``, ``users_``, …): arrays, numbers and lists of arrays, by name.
    items : (N, d) array or None
        The catalogue as the fit saw it (after preprocessing); None if the model was fitted to vectors.
    item_ids : (N,) int64 or str
    feature_names : list of str
        Names of the features before preprocessing.
    description : dict
        The contents of ``model.json``.
    preprocessing : ItemMap or None
        The map of items before the fit, which can be applied to new ones.

    Examples
    --------
    >>> from crowdmetric import PopulationMetric
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(2, None, None, users=400, comparisons=3, seed=0)
    >>> model = PopulationMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
    >>> import tempfile
    >>> from pathlib import Path
    >>> from crowdmetric.persist import load_model, save_model
    >>> folder = Path(tempfile.mkdtemp()) / 'model'
    >>> _ = save_model(folder, model)
    >>> saved = load_model(folder)
    >>> saved.original_metric.shape, saved.items.shape == crowd.items.shape
    ((2, 2), True)
    """

    fitted: dict[str, Any]
    items: Array | None
    item_ids: Column
    feature_names: list[str]
    description: dict[str, Any]
    preprocessing: ItemMap | None = None

    def __repr__(self) -> str:
        kind, data = self.description.get("estimator"), counted(self.description.get("data", {}))
        return f"<SavedModel: {kind}, {len(self.metric)} dimensions, learned from {data}>"

    @property
    def metric(self) -> Array:
        """The (d, d) metric M."""
        return self._array("metric_")

    @property
    def original_metric(self) -> Array:
        """The metric in the space that items came in, before preprocessing."""
        return self.metric if self.preprocessing is None else self.preprocessing.metric_to_original(self.metric)

    @property
    def components(self) -> Array:
        """The (d, d) matrix L with ``M = L.T @ L``."""
        return self._array("components_")

    @property
    def users(self) -> Column:
        """The (K,) people the model knows."""
        return self._array("users_")

    @property
    def pseudo_ideal_points(self) -> Array:
        """The (K, d) points ``v = −2 M u`` of the people, computed from coordinates if only those were saved."""
        if "people_coordinates_" in self.fitted:
            return self._array("pseudo_ideal_mean_") + self.fitted["people_coordinates_"] @ self._array("people_axes_")
        return self._array("pseudo_ideal_points_")

    @property
    def eigenvalues(self) -> Array:
        """The (d,) eigenvalues of the metric, largest first."""
        return np.asarray(np.linalg.eigvalsh(self.metric)[::-1], dtype=np.float64)

    def _array(self, name: str) -> NDArray[Any]:
        if name not in self.fitted:
            raise ModelFileError(f"the model has no {name.rstrip('_')}; fit and save it again")
        array: NDArray[Any] = self.fitted[name]
        return array

    def estimator(self) -> CrowdMetric:
        """Return a fitted estimator, able to predict and to transform.

        Parameters that were arrays (labels, bases) were not saved: to fit again, give them again.
        """
        name = self.description["estimator"]
        if name not in crowdmetric.estimators.__all__:
            raise ModelFileError(
                f"the model was fitted by {name!r}, which crowdmetric {__version__} does not know; update it"
            )
        try:
            kind: type[CrowdMetric] = getattr(crowdmetric.estimators, name)
            estimator = kind(self._items_with_ids(), **self.description["parameters"])
        except TypeError as error:
            raise ModelFileError(
                f"the parameters of the model do not suit {name} ({error}); update crowdmetric"
            ) from error
        for attribute, value in self.fitted.items():
            setattr(estimator, attribute, value)
        return estimator

    @property
    def named_ids(self) -> Column | None:
        """The (N,) ids by which answers are matched to the items; None where they are no more than row numbers."""
        return None if np.array_equal(self.item_ids, np.arange(len(self.item_ids))) else self.item_ids

    def _items_with_ids(self) -> Any:
        """Return the items with their ids, if they have any, for answers to be matched to them."""
        if self.items is None or self.named_ids is None:
            return self.items
        names = self.feature_names if self.preprocessing is None else [f"f{j}" for j in range(self.items.shape[1])]
        return Items(self.item_ids, self.items, names)

    def to_dict(self) -> dict[str, Any]:
        """Return the description, the table of features and the eigenvalues of the metric, ready for JSON."""
        table = table_of(self)
        rows = None if table is None else table.to_list()
        return self.description | {"eigenvalues": self.eigenvalues.tolist(), "coefficients": rows}

    def summary(self) -> str:
        """Return what was learned, from what and how well, in a few lines."""
        return summary_of(self)


# ---------------------------------------------------------------------------------------------- saving


def is_model(folder: Path) -> bool:
    """Return whether `folder` is a saved model and holds nothing else.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from crowdmetric.persist import is_model
    >>> is_model(Path(tempfile.mkdtemp()))  # nobody saved a model there
    False
    """
    names = {path.name for path in folder.iterdir()}
    description = _json_object(folder / DESCRIPTION)
    return names <= {ARRAYS, DESCRIPTION, REPORT} and description is not None and description.get("format") == FORMAT


def save_model(
    folder: Place,
    estimator: CrowdMetric,
    *,
    item_ids: Any = None,
    feature_names: Sequence[str] | None = None,
    comparisons: Comparisons | ComparisonScan | None = None,
    preprocessing: ItemMap | None = None,
    report: Callable[[SavedModel], str] | None = None,
    overwrite: bool = False,
) -> SavedModel:
    """Save a fitted estimator as a folder, completely or not at all, and return its contents.

    Parameters
    ----------
    folder : path
        Made by this function; its parent must exist.
    estimator : CrowdMetric
        Fitted. Its items are saved with it, so the folder alone can predict.
    item_ids : (N,) int or str, optional
        By default the ids of the items of the estimator, where they have any, else the row numbers.
    feature_names : sequence of d str, optional
        By default the columns of the data frame that was given as items, else ``f0``, ``f1``, ….
    comparisons : Comparisons or ComparisonScan, optional
        What it was fitted to; only counts of answers, people and dropped rows are kept.
    preprocessing : ItemMap, optional
        What turned the items into those of the estimator.
    report : function of a SavedModel, optional
        Returns the page to keep beside the model as ``report.html``. The model is saved before it is called.
    overwrite : bool
        Replace an older model. A folder that holds anything else is never replaced.

    Raises
    ------
    ModelFileError
        If the folder cannot be made, or the model holds what can only be pickled.

    Examples
    --------
    >>> from crowdmetric import PopulationMetric
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(2, None, None, users=400, comparisons=3, seed=0)
    >>> model = PopulationMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
    >>> import tempfile
    >>> from pathlib import Path
    >>> from crowdmetric.persist import load_model, save_model
    >>> folder = Path(tempfile.mkdtemp()) / 'model'
    >>> _ = save_model(folder, model, feature_names=['sweet', 'bitter'])
    >>> load_model(folder).feature_names
    ['sweet', 'bitter']
    """
    check_is_fitted(estimator)
    check_target(folder, overwrite, is_model)
    model = _collect(estimator, item_ids, feature_names, comparisons, preprocessing)
    with new_folder(folder, overwrite, is_model) as temporary:
        arrays: Any = _packed(model)
        with new_file(temporary / ARRAYS) as file:
            np.savez_compressed(file, **arrays)
        model = replace(model, description=model.description | {"checksum": _checksum(temporary / ARRAYS)})
        text = json.dumps(model.description, indent=2, ensure_ascii=False, allow_nan=False)
        write_file(temporary / DESCRIPTION, text + "\n")
    if report is not None:
        write_report(folder, report(model))
    return model


def write_report(folder: Place, page: str) -> None:
    """Write a page beside a saved model."""
    write_file(Path(folder) / REPORT, page)


def withhold(folder: Place, model: SavedModel, reasons: Sequence[str]) -> SavedModel:
    """Note in a saved model why nothing may be claimed of it, for everything that shows it; return it.

    Parameters
    ----------
    folder : path
        Where the model was just saved.
    model : SavedModel
    reasons : sequence of str
        Sentences; none: nothing is noted.
    """
    if not reasons:
        return model
    description = {name: value for name, value in model.description.items() if name != "importance"}
    model = replace(model, description=description | {"withheld": list(reasons)})
    text = json.dumps(model.description, indent=2, ensure_ascii=False, allow_nan=False)
    write_file(Path(folder) / DESCRIPTION, text + "\n")
    return model


def _collect(
    estimator: CrowdMetric,
    item_ids: Any,
    feature_names: Sequence[str] | None,
    comparisons: Comparisons | ComparisonScan | None,
    preprocessing: ItemMap | None = None,
) -> SavedModel:
    fitted, not_kept = _fitted_state(estimator)
    parameters, left_out = _parameters(estimator)
    items = None if estimator.items is None else check_items(estimator.items)
    ids, names = _names(estimator, item_ids, feature_names, preprocessing)
    description = {
        "format": FORMAT,
        "format_version": 1 if preprocessing is None else 2,
        "crowdmetric": __version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "estimator": type(estimator).__name__,
        "parameters": parameters,
        "left_out": left_out + not_kept,
        "data": _data(fitted, 0 if items is None else len(items), comparisons),
        **{name.removesuffix("_"): _record(fitted.get(name)) for name in RECORDS},
    }
    if preprocessing is not None:
        explained = {"explained_variance_ratio": preprocessing.explained_variance_ratio_}
        description["preprocessing"] = preprocessing.get_params() | explained
    model = SavedModel(fitted, items, ids, names, for_json(description), preprocessing)
    try:  # what moves choices is found once, and every view of the model shows that
        found = find_importance(model).to_dict()
    except DataError:  # nothing is known about people
        return model
    return replace(model, description=model.description | {"importance": for_json(found)})


def _names(
    estimator: CrowdMetric, item_ids: Any, feature_names: Sequence[str] | None, preprocessing: ItemMap | None
) -> tuple[Column, list[str]]:
    """Return the ids of the items (N,) and the names of the features before preprocessing."""
    n, d = (0 if estimator.items is None else len(check_items(estimator.items))), len(estimator.metric_)
    if preprocessing is not None:
        check_is_fitted(preprocessing)
        kept, d = preprocessing.matrix_.shape
        if kept != len(estimator.metric_):
            raise ModelFileError(
                f"the preprocessing gives {kept} features, but the model has {len(estimator.metric_)}; save the one "
                "that its items went through"
            )
    if item_ids is None:
        item_ids = estimator.item_ids
    ids = np.arange(n) if item_ids is None else unique_ids(item_ids, "item_ids")
    if feature_names is None and preprocessing is None:
        feature_names = getattr(estimator, "feature_names_in_", None)
    names = [f"f{j}" for j in range(d)] if feature_names is None else [str(name) for name in feature_names]
    for what, given, expected in (("item_ids", len(ids), n), ("feature_names", len(names), d)):
        if given != expected:
            raise ModelFileError(f"{what} has {given} entries, but the model has {expected}; give one each")
    return ids, names


def _data(fitted: Mapping[str, Any], n_items: int, comparisons: Comparisons | ComparisonScan | None) -> dict[str, Any]:
    counts = {"people": len(fitted["users_"]), "items": n_items} if "users_" in fitted else {"items": n_items}
    if comparisons is None:
        return counts
    if isinstance(comparisons, ComparisonScan):  # whose people the model does not keep
        counts["people"] = comparisons.n_users
    total = comparisons.total_weight if isinstance(comparisons, ComparisonScan) else comparisons.n_answers
    # a tie is two rows of half a weight, and one answer
    return counts | {"answers": round(float(total)), "dropped": comparisons.dropped}


def _fitted_state(estimator: CrowdMetric) -> tuple[dict[str, Any], list[str]]:
    """Return the attributes of a fit that can be saved without pickle, and the names of the others."""
    state: dict[str, Any] = {}
    not_kept = []
    for name, value in fitted_attributes(estimator).items():
        kept = _storable(value)
        if kept is None and value is not None and name not in RECORDS:
            not_kept.append(name)
        else:
            state[name] = value if name in RECORDS else kept
    return state, not_kept


def _storable(value: Any) -> Any:
    """Return a number, a text, an array of either, or a list of arrays of numbers; None for anything else."""
    if isinstance(value, list | tuple):
        arrays = [np.asarray(entry) for entry in value if isinstance(entry, np.ndarray)]
        return arrays if len(arrays) == len(value) and all(a.dtype.kind in "biuf" for a in arrays) else None
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return value.astype(str) if all(isinstance(cell, str) for cell in value.flat) else None
    if isinstance(value, np.ndarray | np.generic | bool | int | float | str):
        return value if np.asarray(value).dtype.kind in "biufU" else None
    return None


def _parameters(estimator: CrowdMetric) -> tuple[dict[str, Any], list[str]]:
    """Return the constructor's parameters that JSON can hold, and the names of those left out."""
    parameters = estimator.get_params(deep=False)
    parameters.pop("items")
    loss = parameters.get("loss", "logistic")  # a similarity metric has no choice of losses
    if not isinstance(loss, str):
        parameters["loss"], parameters["beta"] = _name_of_loss(loss), loss.beta
    parameters = {name: value.item() if isinstance(value, np.generic) else value for name, value in parameters.items()}
    kept = {name: value for name, value in parameters.items() if isinstance(value, str | int | float | None)}
    return kept, [name for name in parameters if name not in kept]


def _name_of_loss(loss: Any) -> str:
    for name, kind in LOSSES.items():
        if type(loss) is kind:
            return name
    raise ModelFileError(
        f"loss={loss!r} is not one of the library's ({', '.join(LOSSES)}), so a file cannot name it; "
        "keep metric_ and pseudo_ideal_points_ with numpy.savez instead"
    )


def _packed(model: SavedModel) -> dict[str, NDArray[Any]]:
    """Return the arrays of ``metric.npz`` by name."""
    packed: dict[str, NDArray[Any]] = {}
    for name, value in model.fitted.items():
        key = name.removesuffix("_")
        if isinstance(value, list):
            packed[f"{key}.values"] = np.concatenate([np.zeros(0), *(array.ravel() for array in value)])
            packed[f"{key}.shapes"] = np.array([array.shape for array in value], dtype=np.int64)
        elif name not in RECORDS and value is not None:
            packed[key] = np.asarray(value)
    if model.items is not None:
        packed["items"] = model.items
    if model.preprocessing is not None:
        packed |= {f"preprocessing.{name}": getattr(model.preprocessing, f"{name}_") for name in MAP_ARRAYS}
    return packed | {"item_ids": model.item_ids, "feature_names": np.array(model.feature_names, dtype=str)}


def _record(value: Solution | Radii | None) -> dict[str, Any] | None:
    return None if value is None else asdict(value)


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


# --------------------------------------------------------------------------------------------- loading


def load_model(folder: Place) -> SavedModel:
    """Return the model saved in `folder`, checked to be whole.

    Raises
    ------
    ModelFileError
        In one sentence, if the folder is missing, damaged, not a model, or written by a newer version.

    Examples
    --------
    >>> from crowdmetric import PopulationMetric
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(2, None, None, users=400, comparisons=3, seed=0)
    >>> model = PopulationMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
    >>> import tempfile
    >>> from pathlib import Path
    >>> from crowdmetric.persist import load_model, save_model
    >>> folder = Path(tempfile.mkdtemp()) / 'model'
    >>> _ = save_model(folder, model)
    >>> bool((load_model(folder).fitted['metric_'] == model.metric_).all())
    True
    """
    folder = Path(folder)
    description = _read_description(folder)
    arrays = _read_arrays(folder / ARRAYS, description.get("checksum"))
    check_description(str(folder), description)
    check_arrays(str(folder), arrays, description)
    _check_records(folder, description, arrays)
    catalogue = {name: arrays.pop(name) for name in CATALOGUE if name in arrays}
    try:
        fitted = _unpacked(arrays) | _read_records(description)
    except (ValueError, TypeError, IndexError) as error:
        raise ModelFileError(f"the lists of arrays in {folder} cannot be read ({error}); save it again") from error
    return SavedModel(
        fitted=fitted,
        items=catalogue.get("items"),
        item_ids=catalogue["item_ids"],
        feature_names=[str(name) for name in catalogue["feature_names"]],
        description=description,
        preprocessing=_read_map(folder, arrays, description.get("preprocessing")),
    )


def _read_map(folder: Path, arrays: Mapping[str, NDArray[Any]], content: Any) -> ItemMap | None:
    """Return the preprocessing that a description and its arrays hold; None if there was none."""
    if content is None:
        return None
    try:
        options = dict(content)
        explained = float(options.pop("explained_variance_ratio"))
        item_map = ItemMap(**options)
        T, mean, values = (arrays[f"preprocessing.{name}"] for name in MAP_ARRAYS)
        if T.ndim != 2 or mean.shape != T.shape[1:] or values.shape != (2, *mean.shape):
            raise ValueError(f"its arrays have shapes {T.shape}, {mean.shape} and {values.shape}")
        item_map.matrix_, item_map.mean_, item_map.values_ = T, mean, values
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"the preprocessing in {folder} cannot be read ({error}); save the model again") from error
    item_map.explained_variance_ratio_ = explained
    item_map.n_features_in_ = item_map.matrix_.shape[1]
    return item_map


def _read_description(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        there = "is a file" if folder.exists() else "does not exist"
        raise ModelFileError(f"{folder} {there}; name a folder written by crowdmetric fit or save_model")
    description = _json_object(folder / DESCRIPTION)
    if description is None or description.get("format") != FORMAT:
        raise ModelFileError(
            f"{folder} is not a crowdmetric model (it has no readable {DESCRIPTION} of one); name a folder "
            "written by crowdmetric fit or save_model"
        )
    version = description.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ModelFileError(
            f"{folder} has format version {version} (of crowdmetric {description.get('crowdmetric')}), but "
            f"crowdmetric {__version__} reads up to {FORMAT_VERSION}; update crowdmetric"
        )
    return description


def _json_object(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file; None if there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refused)
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _refused(word: str) -> None:
    """Refuse NaN and Infinity, which are not valid JSON; null stands for them."""
    raise ValueError(word)


def _read_arrays(path: Path, checksum: Any) -> dict[str, NDArray[Any]]:
    if not path.is_file():
        raise ModelFileError(f"{path} is missing; copy the whole folder, or save the model again")
    if _checksum(path) != checksum:
        raise ModelFileError(
            f"{path} does not match the checksum in {DESCRIPTION}, so it was damaged or changed; copy the "
            "folder again, or save the model again"
        )
    try:
        _check_size(path)
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except ModelFileError:
        raise
    except UNREADABLE as error:
        raise ModelFileError(f"{path} cannot be read ({error or 'not enough memory'}); save the model again") from error


def _check_size(path: Path) -> None:
    """Raise ModelFileError if the arrays of an archive, unpacked, are more than memory has room for.

    Sizes are taken from the archive's directory and from the first bytes of every array, which must agree: nothing is
    unpacked before.
    """
    with zipfile.ZipFile(path) as archive:
        total, room = sum(entry.file_size for entry in archive.infolist()), read_memory(None)
        if total > room:
            raise ModelFileError(
                f"{path} takes {total / 1e9:,.1f} GB when it is unpacked, and there is room for {room / 1e9:,.1f} GB; "
                "use a machine with more memory, or copy the model again"
            )
        for entry in archive.infolist():
            with archive.open(entry) as file:
                read_header = {1: read_array_header_1_0, 2: read_array_header_2_0}[read_magic(file)[0]]
                shape, _, dtype = read_header(file)
                if file.tell() + prod(shape) * dtype.itemsize != entry.file_size:
                    raise ValueError(f"{entry.filename} has another size than it says")


def _check_records(folder: Path, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise ModelFileError if the counts in a description are not those of the arrays."""
    counts = {"items": len(arrays["items"]) if "items" in arrays else 0, "people": len(arrays["users"])}
    for name, there in counts.items():
        said = description["data"].get(name, there)
        if said != there and not (name == "people" and there == 0):  # a fit to a scan keeps nobody
            raise ModelFileError(
                f"{folder} says that it knows {said:,} {name}, and it has {there:,}; it was changed: save the model "
                "again"
            )


def _unpacked(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the inverse of `_packed`: arrays, numbers and lists of arrays, by attribute."""
    state: dict[str, Any] = {}
    for key, array in arrays.items():
        name, _, part = key.partition(".")
        if part == "values" and f"{name}.shapes" in arrays:
            state[f"{name}_"] = _split(array, arrays[f"{name}.shapes"])
        elif not part:
            state[f"{name}_"] = array.item() if array.ndim == 0 else array
    return state


def _split(values: NDArray[Any], shapes: NDArray[np.int64]) -> list[NDArray[Any]]:
    ends = np.cumsum(np.prod(shapes, axis=1)) if len(shapes) else np.zeros(0, dtype=np.int64)
    pieces = np.split(values, ends)[: len(shapes)]
    return [piece.reshape(tuple(shape)) for piece, shape in zip(pieces, shapes, strict=True)]


def _read_records(description: Mapping[str, Any]) -> dict[str, Solution | Radii | None]:
    records: dict[str, Solution | Radii | None] = {}
    for name, kind in RECORDS.items():
        content = description.get(name.removesuffix("_"))
        known = {field.name for field in fields(kind)}
        records[name] = None if content is None else kind(**{k: _revived(v) for k, v in content.items() if k in known})
    return records


def _revived(value: Any) -> Any:
    """Return JSON's null as NaN, and lists as tuples."""
    if isinstance(value, list):
        return tuple(_revived(entry) for entry in value)
    return float("nan") if value is None else value
