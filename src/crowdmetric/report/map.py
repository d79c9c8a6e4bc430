"""The map of the report: items before and after, with a choice of an item whose neighbors are shown.

Both maps are drawn as plain SVG, so they can be read and printed without a script. With one, a reader chooses an
item, sees its nearest items on both maps, and slides the second map from before to after. Names of items are text
nodes and never part of the script.

    before   first two principal directions of the items X (n, d)
    after    those of X Lᵀ, M = LᵀL, turned by the rotation (Procrustes) that brings them closest to `before`

Both are of one size, because only the shape of a map means something.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes

from crowdmetric.report.changes import neighbors

__all__ = ["ItemMaps", "map_section", "place_items"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Maximum number of items on the map, and of those that have their name beside them.
MOST_ITEMS, MOST_NAMES = 150, 16
# Width and height of a map, its margin, and the radius of a dot, in units of the SVG.
SIZE, MARGIN, DOT = 400.0, 24.0, 5.0
# Width of a letter and height of a line of the names beside the dots: names that would overlap wait for the mouse.
LETTER, LINE = 6.2, 11.0


@dataclass(frozen=True)
class ItemMaps:
    """Where items are on both maps.

    Attributes
    ----------
    rows : (n,)
        Rows of the catalog that are on the map.
    before, after : (n, 2)
        Places from 0 to 1.
    kept : (2,)
        Share of the squared distances that each map shows; the rest lies in other directions.
    near_before, near_after : (n, k)
        Places in `rows` of the nearest items on the map, by distance in all directions.
    """

    rows: Indices
    before: Array
    after: Array
    kept: Array
    near_before: Indices
    near_after: Indices


def place_items(items: Array, components: Array, rows: Indices) -> ItemMaps:
    """Return both maps of some rows of the items (N, d), under components L (k, d) with M = LᵀL."""
    X = items[rows]
    (before, kept_before), (after, kept_after) = _plane(X), _plane(X @ components.T)
    turn, _ = orthogonal_procrustes(after, before)
    near = neighbors(X, components, np.arange(len(rows)))
    places = _onto_unit_square(np.stack([before, after @ turn]))
    return ItemMaps(rows, places[0], places[1], np.array([kept_before, kept_after]), near.before, near.after)


def _plane(X: Array) -> tuple[Array, float]:
    """Return the first two principal coordinates (n, 2), of root mean square one, and their share of the variance."""
    U, s, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    plane = np.zeros((len(X), 2))
    plane[:, : min(2, s.size)] = U[:, :2] * s[:2]
    size = float(np.sqrt(np.mean(plane**2)))
    total = float(np.sum(s**2))
    return plane / (size if size > 0 else 1.0), float(np.sum(s[:2] ** 2) / total) if total > 0 else 1.0


def _onto_unit_square(places: Array) -> Array:
    """Return maps (2, n, 2) moved and scaled alike so that all of both lies in the unit square."""
    low, high = places.min(axis=(0, 1)), places.max(axis=(0, 1))
    span = float(np.max(high - low)) or 1.0
    return (places - (low + high) / 2.0) / span + 0.5


def map_section(items: Array, components: Array, asked: Indices, names: Sequence[str]) -> str:
    """Return the section with both maps.

    Parameters
    ----------
    items : (N, d)
    components : (k, d)
        L with M = LᵀL.
    asked : rows of items, the ones asked about most first; they are on the map and carry their names
    names : what each of the N items is called
    """
    if len(items) < 4:
        return ""
    others = np.setdiff1d(np.arange(len(items)), asked)
    spread = others[np.linspace(0, len(others) - 1, min(len(others), MOST_ITEMS)).astype(np.intp)]
    rows = np.concatenate([asked, spread])[:MOST_ITEMS]
    found = place_items(items, components, rows)
    named = range(min(MOST_NAMES, len(rows)))
    shown = f"{len(rows)} of {len(items):,} items" if len(rows) < len(items) else f"All {len(items)} items"
    lead = (
        f"{shown}. First by their features, then as this crowd sees them: items that are close on the second map are "
        f"alike to people. The maps show {found.kept[0]:.0%} and {found.kept[1]:.0%} of the squared distances; lists "
        "of neighbors use all of them."
    )
    options = "".join(f'<option value="{i}">{html.escape(names[row])}</option>' for i, row in enumerate(rows))
    return (
        f'<section id="map"><h2>The map</h2><p>{lead}</p>'
        '<p class="controls" hidden><label>Show the neighbors of <select><option value="">choose an item</option>'
        f"{options}</select></label> <label>before <input type='range' min='0' max='100' value='100'> after</label></p>"
        '<div class="pictures">'
        f"{_figure(found, found.before, 'before', names, named)}{_figure(found, found.after, 'after', names, named)}"
        f'</div><p class="neighbors" aria-live="polite"></p></section><style>{STYLE}</style><script>{SCRIPT}</script>'
    )


def _figure(found: ItemMaps, places: Array, title: str, names: Sequence[str], named: range) -> str:
    """Return one map as SVG; each dot knows its places on both maps and its neighbors, for the script."""
    dots: list[str] = []
    taken: list[tuple[float, float, float]] = []  # left end, right end and height of the names that are written
    for i, (row, place) in enumerate(zip(found.rows, places, strict=True)):
        (x0, y0), (x1, y1), (left, top) = _point(found.before[i]), _point(found.after[i]), _point(place)
        near = [" ".join(map(str, near[i])) for near in (found.near_before, found.near_after)]
        name, ends = html.escape(names[row]), left > 0.75 * SIZE
        box = (
            left - 9 - LETTER * len(names[row]) if ends else left,
            left if ends else left + LETTER * len(names[row]),
            top,
        )
        free = all(box[1] < other[0] or box[0] > other[1] or abs(top - other[2]) > LINE for other in taken)
        if i in named and free:
            taken.append(box)
        quiet = "" if i in named and free else ' class="quiet"'
        label = f'<text x="{-9 if ends else 9}" y="4" text-anchor="{"end" if ends else "start"}"{quiet}>{name}</text>'
        dots.append(
            f'<g data-i="{i}" data-at="{x0:.0f} {y0:.0f} {x1:.0f} {y1:.0f}" data-before="{near[0]}" '
            f'data-after="{near[1]}" transform="translate({left:.0f} {top:.0f})"><title>{name}</title>'
            f'<circle r="{DOT:g}"/>{label}</g>'
        )
    caption = "Before: Euclidean distance of the features" if title == "before" else "After: the learned distance"
    return (
        f'<figure><svg class="map" data-map="{title}" viewBox="0 0 {SIZE:g} {SIZE:g}" role="img" '
        f'aria-label="{caption}">{"".join(dots)}</svg><figcaption>{caption}</figcaption></figure>'
    )


def _point(place: Array) -> tuple[float, float]:
    """Return a place in the unit square in units of the SVG, whose y points down."""
    x, y = MARGIN + (SIZE - 2 * MARGIN) * place
    return float(x), SIZE - float(y)


STYLE = """
.map { width: 100%; border: 1px solid var(--line); border-radius: 6px; }
.map circle { fill: #6f8fc4; cursor: pointer; } .map text { font-size: 11px; pointer-events: none; }
.map .quiet { display: none; } .map line { stroke: #d1495b; stroke-width: 1.5; }
.map .chosen circle { fill: var(--ink); } .map .near circle { fill: #d1495b; }
.map .chosen .quiet, .map .near .quiet, .map g:hover .quiet { display: inline; }
.map.choosing g:not(.chosen, .near, :hover) { opacity: .45; }
.map.choosing g:not(.chosen, .near, :hover) text { display: none; }
.controls label { margin-right: 1.5rem; } .controls select { max-width: 14rem; }
.controls input { vertical-align: middle; }
@media print { .controls { display: none; } }
"""

# Reads everything from the picture, so it holds no text of the user's.
SCRIPT = """
(() => {
  const section = document.getElementById("map"), select = section.querySelector("select");
  const slider = section.querySelector("input"), said = section.querySelector(".neighbors");
  const maps = [...section.querySelectorAll("svg")];
  const dots = maps.map(map => [...map.querySelectorAll("g")]);
  const name = i => dots[0][i].querySelector("title").textContent;
  const near = (i, when) => dots[0][i].dataset[when].split(" ").map(Number);
  section.querySelector(".controls").hidden = false;
  function draw() {
    const share = slider.value / 100, chosen = select.value === "" ? null : Number(select.value);
    maps.forEach((map, m) => {
      const when = m === 0 || share < 0.5 ? "before" : "after", t = m === 0 ? 0 : share;
      const close = chosen === null ? [] : near(chosen, when);
      map.querySelectorAll("line").forEach(line => line.remove());
      map.classList.toggle("choosing", chosen !== null);
      const at = dots[m].map(dot => {
        const [x0, y0, x1, y1] = dot.dataset.at.split(" ").map(Number);
        return [x0 + t * (x1 - x0), y0 + t * (y1 - y0)];
      });
      dots[m].forEach((dot, i) => {
        dot.setAttribute("transform", `translate(${at[i][0]} ${at[i][1]})`);
        dot.classList.toggle("chosen", i === chosen);
        dot.classList.toggle("near", close.includes(i));
      });
      for (const i of close) {
        const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
        [["x1", at[chosen][0]], ["y1", at[chosen][1]], ["x2", at[i][0]], ["y2", at[i][1]]].forEach(
          ([key, value]) => line.setAttribute(key, value));
        map.prepend(line);
      }
    });
    said.textContent = chosen === null ? "" : `Nearest to ${name(chosen)}. Before: ` +
      `${near(chosen, "before").map(name).join(", ")}. After: ${near(chosen, "after").map(name).join(", ")}.`;
  }
  dots.forEach(all => all.forEach((dot, i) => dot.addEventListener("click", () => {
    select.value = select.value === String(i) ? "" : String(i);
    draw();
  })));
  select.addEventListener("change", draw);
  slider.addEventListener("input", draw);
})();
"""
