"""What is done to items before anything is learned from them: the same options for fit, evaluate and diagnose."""

from __future__ import annotations

from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.commands.command import UsageError, note
from crowdmetric.identifiability.relations import MOST_RELATED, Relation, linear_relations
from crowdmetric.preprocess import DIFFERENT_UNITS, WORTH_A_WORD, ItemMap, scale_ratio, varying_features
from crowdmetric.tables import Items
from crowdmetric.tables.columns import listed

__all__ = ["add_preparation", "check_preparation", "prepared", "related"]


def add_preparation(parser: ArgumentParser) -> None:
    """Add the options of preprocessing."""
    add = parser.add_argument
    add(
        "--standardize",
        "--standardise",  # the British spelling
        action=BooleanOptionalAction,
        help="divide every feature by its standard deviation first (default: if these differ by more than "
        f"{DIFFERENT_UNITS} times, and none of --pca, --whiten, --labels and --discover is given)",
    )
    add("--pca", metavar="K", help="keep K principal directions first, or a share of the variance such as 0.95")
    add("--whiten", action="store_true", help="give the principal directions variance 1 first")


def check_preparation(options: Namespace) -> None:
    """Raise UsageError for options that make no sense, before tables are read."""
    _components(options.pca)


def prepared(options: Namespace, items: Items) -> tuple[NDArray[np.float64], list[str], ItemMap | None]:
    """Return the features that are learned from, their names, and what turned items into them (None: nothing did)."""
    preprocessing = _preprocessing(options, items)
    if preprocessing is None:
        return items.features, items.feature_names, None
    features = preprocessing.fit_transform(items.features)
    note(options, f"items: {preprocessing.summary()}")
    units = preprocessing.units()
    if units is None:
        return features, [f"direction {j + 1}" for j in range(features.shape[1])], preprocessing
    return features, [items.feature_names[j] for j in units[0]], preprocessing


def related(
    options: Namespace, items: Items, shown: NDArray[np.integer[Any]], preprocessing: ItemMap | None
) -> list[Relation]:
    """Return which features of the items shown follow from others, and say it; none of principal directions."""
    reduced = preprocessing is not None and (preprocessing.components is not None or preprocessing.whiten)
    if reduced or len(items.feature_names) > MOST_RELATED:
        return []
    found = linear_relations(items.features[np.unique(shown)], items.feature_names)
    for relation in found:
        note(options, relation.sentence)
    return found


def _preprocessing(options: Namespace, items: Items) -> ItemMap | None:
    """Return what is to be done to items; None for nothing."""
    constant = np.flatnonzero(~varying_features(items.features))
    if constant.size:
        names = listed([items.feature_names[j] for j in constant], most=6)
        note(options, f"left out, as all items are alike in {'it' if constant.size == 1 else 'them'}: {names}")
    standardize = options.standardize
    if standardize is None:
        standardize = _in_different_units(options, items)
    if not (standardize or options.whiten or options.pca is not None):
        return ItemMap(center=False) if constant.size else None
    return ItemMap(standardize=standardize, components=_components(options.pca), whiten=options.whiten)


def _in_different_units(options: Namespace, items: Items) -> bool:
    """Return whether features differ so much in scale that they are standardized, and say so."""
    ratio, largest, smallest = scale_ratio(items.features)
    if ratio <= WORTH_A_WORD or len(items.features) < 2:
        return False
    names = items.feature_names
    seen = (
        f"{names[largest]} varies {ratio:{',.0f' if 100 <= ratio < 1e9 else ',.3g'}} times as much as {names[smallest]}"
    )
    subspaces = getattr(options, "labels", None) is not None or getattr(options, "discover", False)
    if ratio <= DIFFERENT_UNITS:
        note(options, f"{seen}; if they are in different units, --standardize gives all features the same scale")
        return False
    if options.pca is not None or options.whiten or subspaces:
        note(options, f"{seen}, as if in another unit; --standardize would give all features the same scale")
        return False
    note(options, f"{seen}, as if in another unit: all features are standardized (--no-standardize leaves them)")
    return True


def _components(text: str | None) -> int | float | None:
    if text is None:
        return None
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise UsageError(f"--pca {text} is neither a number of directions nor a share of the variance") from None
