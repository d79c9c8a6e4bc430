"""What smooth tastes look like: the crowd's utility along every feature, and over the plane of the two that move most.

A feature moves the crowd by the standard deviation of its effect over the items (`crowdmetric.smooth.effects`), and
people by how much they scatter around that effect. Shares are of the sum of all these squares, with the squares of what
the crowd and a person think of single items beyond all features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crowdmetric.coefficients import Coefficients
from crowdmetric.errors import DataError
from crowdmetric.importance import LearnedModel, as_percent
from crowdmetric.smooth.effects import Effect

__all__ = ["TasteMap", "Tastes", "find_tastes"]

Array = NDArray[np.float64]

# Maximum number of features shown, and grid points per side of the map.
MOST_FEATURES, SIDE = 24, 21
# Half the width of a 90 % band, in standard errors.
HALF = 1.645
# A turning point of the crowd's utility counts if its height exceeds this share of the whole range.
TURNS = 0.15


class Tasteful(LearnedModel, Protocol):
    """A model that can be turned into a fitted estimator."""

    def estimator(self) -> Any:
        """Return the fitted estimator."""
        ...


@dataclass(frozen=True)
class TasteMap:
    """The crowd's utility over the plane of two features, the others at their means.

    Attributes
    ----------
    features : (int, int)
    x, y : (SIDE,)
    utility, error : (SIDE, SIDE)
        Rows by y.
    items : (N, 2)
    """

    features: tuple[int, int]
    x: Array
    y: Array
    utility: Array
    error: Array
    items: Array


@dataclass(frozen=True)
class Tastes:
    """What the crowd and its people like, feature by feature, the feature that moves most first.

    Attributes
    ----------
    order : (k,)
        Columns of the features.
    names : (k,) of str
    effects : (k,) of Effect
        With values in the units that features came in, where they have them.
    crowd, people : (k,)
        Shares of what moves choices: through the crowd's taste for each feature, and through how people differ on it.
    crowd_items, people_items : float
        Shares of what the crowd and single people think of single items, for reasons that no feature explains.
    map : TasteMap or None
        None with one feature.
    """

    order: tuple[int, ...]
    names: tuple[str, ...]
    effects: tuple[Effect, ...]
    crowd: Array
    people: Array
    crowd_items: float
    people_items: float
    map: TasteMap | None

    def words(self, place: int) -> str:
        """Return what the crowd likes along a feature: more, less, a middle, ends, or nothing clear."""
        effect = self.effects[place]
        mean, error = effect.mean, effect.error
        top, bottom = int(np.argmax(mean)), int(np.argmin(mean))
        reach = float(mean[top] - mean[bottom])
        if reach < HALF * float(np.hypot(error[top], error[bottom])):
            return "no clear common taste"
        last, fall = len(mean) - 1, TURNS * reach
        up_after = float(mean[last] - mean[bottom]) > fall
        if top in (0, last):
            away = float(mean[last - top] - mean[bottom])
            turns = bottom not in (0, last) and away > fall
            return "both ends rather than the middle" if turns else ("more" if top == last else "less")
        if mean[top] - mean[0] > fall and mean[top] - mean[last] > fall:
            return f"about {effect.values[top]:.3g}"
        return "more, up to a point" if up_after else "less, down to a point"

    def sentence(self) -> str:
        """Return what moves choices most, in plain words."""
        share, taste = self.crowd + self.people, self.words(0)
        likes = f"; the crowd likes {taste}" if taste != "no clear common taste" else ""
        rest = [f"{name} ({as_percent(part)})" for name, part in zip(self.names[1:3], share[1:3], strict=True)]
        then = f"({as_percent(share[0])}{likes}){', then ' if rest else ''}{' and '.join(rest)}"
        if self.people_items > 0.5:
            return (
                "Most of what moves choices is what people think of single items, which no feature explains: expect "
                f"less accurate predictions for new items. Of the features, {self.names[0]} moves choices most {then}."
            )
        return f"What moves choices most is {self.names[0]} {then}."

    def table(self) -> Coefficients:
        """Return the table that a fit ends with."""
        columns = {"share": self.crowd + self.people, "crowd": self.crowd, "people": self.people}
        single = f"{100 * (self.crowd_items + self.people_items):.0f} %"
        explained = (
            "share: part of what moves choices, which is the sum of crowd (what everybody likes) and people (how they "
            f"differ). The other {single} are about single items, beyond what features say."
        )
        return Coefficients(self.names, columns, self.sentence(), explained)


def find_tastes(model: Tasteful) -> Tastes:
    """Return the tastes of a saved `TasteMetric` with items."""
    name = model.description["estimator"]
    if name != "TasteMetric" or model.items is None:
        raise DataError(f"{name} has no smooth tastes; give a TasteMetric that was fitted to items")
    estimator = model.estimator()
    scale, center, names = _units(model)
    d = model.items.shape[1]
    effects = [estimator.effect_of(j) for j in range(min(d, MOST_FEATURES))]
    seen = estimator.shown_items_
    crowd = np.array([float(np.std(np.interp(seen[:, j], e.values, e.mean))) for j, e in enumerate(effects)])
    people = np.array([float(np.sqrt(np.mean(e.people**2))) for e in effects])
    order = np.argsort(-np.hypot(crowd, people), kind="stable")
    scales = estimator.scales_
    squares = np.concatenate([crowd**2, people**2, [scales["items"] ** 2, scales["person_items"] ** 2]])
    squares /= squares.sum()
    crowd, people = squares[: crowd.size], squares[crowd.size : -2]
    shown = [
        Effect(effects[j].values * scale[j] + center[j], effects[j].mean, effects[j].error, effects[j].people)
        for j in order
    ]
    plane = None if d < 2 else _map(estimator, (int(order[0]), int(order[1])), scale, center)
    return Tastes(
        tuple(order.tolist()), tuple(names[j] for j in order), tuple(shown), crowd[order], people[order],
        float(squares[-2]), float(squares[-1]), plane,
    )  # fmt: skip


def _units(model: LearnedModel) -> tuple[Array, Array, list[str]]:
    """Return how to undo preprocessing, feature by feature, and the names of features; of coordinates, if it cannot."""
    assert model.items is not None
    d, done = model.items.shape[1], model.preprocessing
    if done is None:
        return np.ones(d), np.zeros(d), list(model.feature_names)
    units = done.units()
    if units is None:
        return np.ones(d), np.zeros(d), [f"coordinate {j + 1}" for j in range(d)]
    kept, scale = units
    return scale, done.mean_[kept], [model.feature_names[j] for j in kept]


def _map(estimator: Any, features: tuple[int, int], scale: Array, center: Array) -> TasteMap:
    items = estimator.shown_items_
    x, y = (np.linspace(items[:, j].min(), items[:, j].max(), SIDE) for j in features)
    points = np.tile(items.mean(axis=0), (SIDE * SIDE, 1))
    points[:, features[0]], points[:, features[1]] = (part.ravel() for part in np.meshgrid(x, y))
    utility, error = (part.reshape(SIDE, SIDE) for part in estimator.utilities_of(points))
    a, b = features
    return TasteMap(
        features, x * scale[a] + center[a], y * scale[b] + center[b], utility, error,
        items[:, list(features)] * scale[list(features)] + center[list(features)],
    )  # fmt: skip
