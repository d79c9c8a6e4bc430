"""The report's pictures, as SVG to stand inside a page. They hold no text of the user's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crowdmetric.evaluate import Evaluation
from crowdmetric.plots import draw_ellipses, draw_strengths, draw_taste_map, draw_tastes, figure_svg, new_figure
from crowdmetric.report.directions import Directions
from crowdmetric.tastes import HALF, TasteMap, Tastes

__all__ = ["eigenvalue_picture", "evaluation_picture", "plane_picture", "taste_map_picture", "tastes_picture"]

Array = NDArray[np.float64]

MOST_DIRECTIONS = 24
MOST_POINTS = 600
DRAWS = 30
MOST_PANELS = 9


def eigenvalue_picture(found: Directions) -> str:
    """Return the strengths of the directions with their intervals."""
    count = min(len(found.strengths), MOST_DIRECTIONS)
    figure = new_figure(4.6, 3.4)
    sure = found.strength_intervals
    intervals = None if sure is None else (sure.low[:count], sure.high[:count])
    draw_strengths(figure.subplots(), found.strengths[:count], intervals)
    return figure_svg(figure, "strengths")


def plane_picture(found: Directions, items: Array, seed: int = 0) -> str:
    """Return items in the plane of the two leading directions, with what is equally far before and after.

    Thin curves are metrics that the answers allow as well: draws from the posterior, in that plane. In every direction
    the learned curve is as far from the center as the median of all draws.
    """
    rng = np.random.default_rng(seed)
    points = (items / found.units) @ found.vectors[:, :2]
    points = points - points.mean(axis=0)
    radius = 0.75 * float(np.sqrt(np.mean(points**2)))
    points = points[rng.permutation(len(points))[:MOST_POINTS]]
    drawn = np.diag(np.maximum(found.strengths[:2], 0.0))[None] if found.plane is None else found.plane
    values = np.linalg.eigvalsh(drawn)
    curves = _equally_far(drawn[values[:, 0] > 1e-9 * values[:, 1]], radius)
    others = list(curves[:: max(1, len(curves) // DRAWS)][:DRAWS]) if found.plane is not None else []
    learned = np.median(np.linalg.norm(curves, axis=2), axis=0)[:, None] * _circle() if len(curves) else None
    figure = new_figure(4.6, 4.6)
    draw_ellipses(figure.subplots(), points, radius * _circle(), learned, others)
    return figure_svg(figure, "plane")


def _circle() -> Array:
    """Return points (121, 2) of the unit circle."""
    angle = np.linspace(0.0, 2.0 * np.pi, 121)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def _equally_far(M: Array, radius: float) -> Array:
    """Return curves (n, 121, 2) of equal distance under metrics (n, 2, 2), one point in each direction of a circle.

    Inside each is as much area as in a circle of this radius.
    """
    circle = _circle()
    length = np.linalg.det(M)[:, None] ** 0.25 / np.sqrt(np.einsum("pi,nij,pj->np", circle, M, circle))
    return np.asarray(radius * length[:, :, None] * circle)


def evaluation_picture(evaluation: Evaluation, split: str) -> str:
    """Return how well every model predicts the hidden answers of one split."""
    return figure_svg(evaluation.plot(split), f"evaluation-{split}")


def tastes_picture(found: Tastes) -> str:
    """Return the utility along each of the features that move most."""
    lines = [(e.values, e.mean, HALF * e.error, HALF * e.people) for e in found.effects[:MOST_PANELS]]
    columns = min(len(lines), 2)
    figure = new_figure(1.0 + 2.3 * columns, 0.6 + 1.9 * -(-len(lines) // columns))
    draw_tastes(figure, lines)
    return figure_svg(figure, "tastes")


def taste_map_picture(found: TasteMap) -> str:
    """Return the crowd's utility over the plane of two features."""
    figure = new_figure(5.2, 4.2)
    axes = figure.subplots()
    sure = np.abs(found.utility) > HALF * found.error
    image = draw_taste_map(axes, found.x, found.y, found.utility, found.items, sure)
    figure.colorbar(image, ax=axes, label="utility")
    return figure_svg(figure, "map")
