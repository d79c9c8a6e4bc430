"""A learned metric for other programs: one matrix, after which plain Euclidean distance is the learned distance.

``y = W x + b`` with ``WᵀW = M``, so ``‖y − y'‖ = ‖x − x'‖_M``. Any index of vectors (FAISS, hnswlib, pgvector),
any scikit-learn estimator and any linear layer can use it without knowing about metrics.

Smooth tastes have such a matrix inside their kernel. How alike the tastes for two items are is no linear map of it:
`item_coordinates` gives every item a place among others, by kernel principal components.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from crowdmetric.base import CrowdMetric
from crowdmetric.checks import instance_of, whole_number
from crowdmetric.errors import DataError, missing_extra
from crowdmetric.estimators.smooth import TasteMetric
from crowdmetric.folders import new_file
from crowdmetric.persist import SavedModel
from crowdmetric.preprocess import ItemMap

__all__ = ["FORMATS", "LinearHead", "item_coordinates", "linear_head", "write_coordinates", "write_head"]

Array = NDArray[np.float64]
Place = str | os.PathLike[str]

# Directions with an eigenvalue below this share of the largest count as zero and get no coordinate.
UNSEEN = 1e-12


@dataclass(frozen=True, eq=False)
class LinearHead:
    """The map from items to coordinates in which Euclidean distance is the learned distance.

    Attributes
    ----------
    weight : (k, d)
        W, rows by falling importance; k is the rank of the metric.
    bias : (k,)
        b: zero, unless items were preprocessed.
    feature_names : tuple of d str
        Of the columns of W.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.export import LinearHead
    >>> head = LinearHead(weight=2.0 * np.eye(2), bias=np.zeros(2))
    >>> head(np.ones((1, 2))).tolist()
    [[2.0, 2.0]]
    """

    weight: Array
    bias: Array
    feature_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.feature_names:
            object.__setattr__(self, "feature_names", tuple(f"w{j}" for j in range(self.weight.shape[1])))

    def __call__(self, items: ArrayLike) -> NDArray[np.float32]:
        """Return coordinates (N, k) of items (N, d), contiguous and in single precision, as indexes want them."""
        X = np.asarray(items, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.weight.shape[1]:
            raise DataError(
                f"items has shape {X.shape}, but the metric is of {self.weight.shape[1]} features; give (N, d)"
            )
        return np.ascontiguousarray(X @ self.weight.T + self.bias, dtype=np.float32)


def linear_head(
    model: CrowdMetric | SavedModel, preprocessing: ItemMap | None = None, *, rank: int | None = None
) -> LinearHead:
    """Return the linear map of a fitted or a saved model.

    Parameters
    ----------
    model : CrowdMetric or SavedModel
    preprocessing : ItemMap, optional
        What was done to items before the fit; a saved model knows it by itself.
    rank : int, optional
        Keep only this many coordinates, the most important ones: distances are then approximate, from below.

    Examples
    --------
    >>> from crowdmetric import PopulationMetric
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(2, None, None, users=400, comparisons=3, seed=0)
    >>> model = PopulationMetric(crowd.items).fit(crowd.pairs, crowd.y, users=crowd.users)
    >>> import numpy as np
    >>> from crowdmetric.export import linear_head
    >>> head = linear_head(model)
    >>> bool(np.allclose(head.weight.T @ head.weight, model.metric_, atol=1e-5))
    True
    """
    if isinstance(model, SavedModel):
        if preprocessing is not None:
            raise DataError("a saved model carries its preprocessing; leave it out")
        components, preprocessing = model.components, model.preprocessing
        names = tuple(model.feature_names)
    else:
        check_is_fitted(instance_of(model, "model", CrowdMetric, "give a fitted estimator, or a saved model"))
        components = model.components_
        # those of preprocessed features are not those of the items
        names = tuple(map(str, getattr(model, "feature_names_in_", ()))) if preprocessing is None else ()
    sizes = np.einsum("ij,ij->i", components, components)  # the eigenvalues of M, largest first
    seen = int(np.sum(sizes > UNSEEN * sizes.max(initial=0.0)))
    if seen == 0:
        raise DataError("the metric is zero: the answers support no learned metric, so there is no distance to export")
    if rank is not None and whole_number(rank, "rank") > seen:
        raise DataError(f"rank={rank} is not between 1 and {seen}, the rank of the metric")
    weight = components[: seen if rank is None else rank]
    bias = np.zeros(len(weight))
    if preprocessing is not None:
        weight = weight @ preprocessing.matrix_
        bias = -weight @ preprocessing.mean_
    return LinearHead(np.ascontiguousarray(weight), bias, names)


def _write_npz(head: LinearHead, file: BinaryIO) -> None:
    np.savez(file, weight=head.weight, bias=head.bias, feature_names=np.array(head.feature_names, dtype=str))


def _write_safetensors(head: LinearHead, file: BinaryIO) -> None:
    try:
        from safetensors.numpy import save  # noqa: PLC0415 - optional
    except ImportError:
        raise missing_extra("safetensors", "export", "writing a safetensors file") from None
    # the names of a linear layer of sentence-transformers (models.Dense)
    layer = {"linear.weight": head.weight.astype(np.float32), "linear.bias": head.bias.astype(np.float32)}
    file.write(save(layer, metadata={"format": "pt"}))


def _write_csv(head: LinearHead, file: BinaryIO) -> None:
    """Write one row per coordinate: the d weights under the names of their features, then the bias."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([*head.feature_names, "bias"])
    writer.writerows(np.column_stack([head.weight, head.bias]).tolist())
    file.write(text.getvalue().encode("utf-8"))


FORMATS: dict[str, Callable[[LinearHead, BinaryIO], None]] = {
    "npz": _write_npz,
    "safetensors": _write_safetensors,
    "csv": _write_csv,
}


def write_head(head: LinearHead, path: Place, kind: str = "npz") -> None:
    """Write a head as ``npz``, ``safetensors`` or ``csv``.

    The arrays of an npz file are `weight`, `bias` and `feature_names`, those of safetensors `linear.weight` and
    `linear.bias`.
    The file appears whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from crowdmetric.export import LinearHead, write_head
    >>> path = Path(tempfile.mkdtemp()) / 'head.npz'
    >>> write_head(LinearHead(np.eye(2), np.zeros(2)), path)
    >>> sorted(np.load(path).files)
    ['bias', 'feature_names', 'weight']
    """
    if kind not in FORMATS:
        raise DataError(f"format {kind!r} is not known; choose one of {', '.join(map(repr, FORMATS))}")
    with new_file(path) as file:
        FORMATS[kind](head, file)


def item_coordinates(model: SavedModel, *, rank: int | None = None) -> Array:
    """Return coordinates (N, k) of a saved `TasteMetric`'s items: close if the same people like them."""
    saved = instance_of(model, "model", SavedModel, "save the fit with save_model, or read one with load_model")
    estimator = saved.estimator()
    if not isinstance(estimator, TasteMetric) or model.items is None:
        raise DataError(
            f"coordinates of items are for TasteMetric with items, and this is {type(estimator).__name__}; leave "
            "--coordinates out for its matrix"
        )
    if rank is not None:
        whole_number(rank, "rank")
    return estimator.item_coordinates(model.items, rank)


def write_coordinates(model: SavedModel, coordinates: Array, path: Place, kind: str) -> None:
    """Write coordinates of items as ``npz`` (arrays `item_ids`, `coordinates`) or ``csv`` (item_id, y0, …)."""
    if kind not in ("npz", "csv"):
        raise DataError(f"coordinates are written as npz or csv, not as {kind!r}; choose one of them")
    with new_file(path) as file:
        if kind == "npz":
            np.savez(file, item_ids=model.item_ids, coordinates=coordinates)
            return
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(["item_id", *(f"y{j}" for j in range(coordinates.shape[1]))])
        writer.writerows([i, *row] for i, row in zip(model.item_ids.tolist(), coordinates.tolist(), strict=True))
        file.write(text.getvalue().encode("utf-8"))
