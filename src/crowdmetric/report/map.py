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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes

from crowdmetric.report.changes import neighbors

__all__ = ["ItemMaps", "map_section", "place_items", "rows_on_map"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Maximum number of items on the map, and of those that have their name beside them.
MOST_ITEMS, MOST_NAMES = 150, 40
# Width and height of a map, its margin, and the radius of a dot, in units of the SVG.
SIZE, MARGIN, DOT = 400.0, 24.0, 5.0
# Side of a small picture instead of a dot, and the least height of a map.
PICTURE, LEAST_HEIGHT = 26.0, 160.0
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


def rows_on_map(n_items: int, asked: Indices) -> Indices:
    """Return the rows of the items that are on the map: `asked` first, then others, evenly from the catalogue."""
    others = np.setdiff1d(np.arange(n_items), asked)
    spread = others[np.linspace(0, len(others) - 1, min(len(others), MOST_ITEMS)).astype(np.intp)]
    return np.concatenate([asked, spread])[:MOST_ITEMS]


def map_section(
    items: Array, components: Array, rows: Indices, names: Sequence[str], pictures: Mapping[int, str] | None = None
) -> str:
    """Return the section with both maps.

    Parameters
    ----------
    items : (N, d)
    components : (k, d)
        L with M = LᵀL.
    rows : rows of items that are on the map; the first of them carry their names
    names : what each of the N items is called
    pictures : small pictures of items, as data addresses by row
    """
    if len(items) < 4:
        return ""
    found = place_items(items, components, rows)
    shown = f"{len(rows)} of {len(items):,} items" if len(rows) < len(items) else f"All {len(items)} items"
    before, after = (f"{100 * share:.0f} %" for share in found.kept)
    lead = (
        f"{shown}. First by their features, then as this crowd sees them: items that are close on the second map are "
        f"alike to people. A map is flat, and shows {before} (before) and {after} (after) of the squared distances; "
        "lists of nearest items use all of them."
    )
    options = "".join(f'<option value="{i}">{html.escape(names[row])}</option>' for i, row in enumerate(rows))
    maps = "".join(_figure(found, title, names, pictures or {}) for title in ("before", "after"))
    return (
        f'<section id="map"><h2>The map</h2><p>{lead}</p>'
        '<p class="controls" hidden><label>Show the items nearest to <select><option value="">choose an item</option>'
        f"{options}</select> or click one</label> <label>Second map: before "
        "<input type='range' min='0' max='100' value='100'> after</label></p>"
        f'<div class="pictures">{maps}</div><p class="neighbors" aria-live="polite"></p></section>'
        f"<style>{STYLE}</style><script>{SCRIPT}</script>"
    )


def _figure(found: ItemMaps, title: str, names: Sequence[str], pictures: Mapping[int, str]) -> str:
    """Return one map as SVG; each dot knows its places on both maps and its neighbors, for the script.

    Dots with names are drawn last, so no other dot covers a name.
    """
    places = np.array([_point(place) for place in getattr(found, title)])
    sides = _sides(places, [names[row] for row in found.rows])
    dots: list[tuple[bool, str]] = []
    for i, (row, (left, top)) in enumerate(zip(found.rows.tolist(), places.tolist(), strict=True)):
        (x0, y0), (x1, y1) = _point(found.before[i]), _point(found.after[i])
        near = [" ".join(map(str, near[i])) for near in (found.near_before, found.near_after)]
        name, side = html.escape(names[row]), sides.get(i)
        ends = left > 0.75 * SIZE if side is None else side < 0
        quiet, away = ' class="quiet"' if side is None else "", 0.6 * PICTURE + 3 if row in pictures else 9
        anchor = "end" if ends else "start"
        label = f'<text x="{-away if ends else away:g}" y="4" text-anchor="{anchor}"{quiet}>{name}</text>'
        circle = f'<circle r="{DOT:g}"/>'
        if row in pictures:
            corner, width = -PICTURE / 2, f'width="{PICTURE:g}" height="{PICTURE:g}"'
            circle = (
                f'<circle r="{0.6 * PICTURE:g}"/><image href="{pictures[row]}" x="{corner:g}" y="{corner:g}" {width}/>'
            )
        dots.append(
            (
                side is not None,
                f'<g data-i="{i}" data-at="{x0:.0f} {y0:.0f} {x1:.0f} {y1:.0f}" data-before="{near[0]}" '
                f'data-after="{near[1]}" transform="translate({left:.0f} {top:.0f})"><title>{name}</title>'
                f"{circle}{label}</g>",
            )
        )
    dots.sort(key=lambda dot: dot[0])
    both = np.array([_point(place)[1] for place in np.concatenate([found.before, found.after])])
    top = float(both.min()) - MARGIN
    height = max(float(both.max()) + MARGIN - top, LEAST_HEIGHT)
    caption = "Before: Euclidean distance of the features" if title == "before" else "After: the learned distance"
    return (
        f'<figure><svg class="map" data-map="{title}" viewBox="0 {top:.0f} {SIZE:g} {height:.0f}" role="img" '
        f'aria-label="{caption}">{"".join(text for _, text in dots)}</svg><figcaption>{caption}</figcaption></figure>'
    )


def _sides(places: Array, names: Sequence[str]) -> dict[int, int]:
    """Return on which side of its dot a name has room, 1 for right and −1 for left; others wait for the mouse."""
    sides: dict[int, int] = {}
    taken: list[tuple[float, float, float]] = []  # left end, right end and height of the names that are written
    for i in range(min(MOST_NAMES, len(places))):
        x, y = places[i]
        width = LETTER * len(names[i])
        for side in (1, -1):
            low, high = (x + 9, x + 9 + width) if side > 0 else (x - 9 - width, x - 9)
            covered = (np.abs(places[:, 1] - y) < LINE) & (places[:, 0] > low - DOT) & (places[:, 0] < high + DOT)
            covered[i] = False
            free = all(high < other[0] or low > other[1] or abs(y - other[2]) > LINE for other in taken)
            if free and not covered.any() and low >= 0 and high <= SIZE:
                sides[i] = side
                taken.append((low, high, y))
                break
    return sides


def _point(place: Array) -> tuple[float, float]:
    """Return a place in the unit square in units of the SVG, whose y points down."""
    x, y = MARGIN + (SIZE - 2 * MARGIN) * place
    return float(x), SIZE - float(y)


STYLE = """
.map { width: 100%; border: 1px solid var(--line); border-radius: 6px; }
.map circle { fill: #6f8fc4; fill-opacity: .75; } .map g { cursor: pointer; }
.map text { font-size: 11px; pointer-events: none; paint-order: stroke; stroke: var(--paper); stroke-width: 3px; }
.map .quiet { display: none; } .map line { stroke: #d1495b; stroke-width: 1.5; }
.map .chosen circle { fill: var(--ink); fill-opacity: 1; } .map .near circle { fill: #d1495b; fill-opacity: 1; }
.map .chosen .quiet, .map .near .quiet, .map g:hover .quiet { display: inline; }
.map.choosing g:not(:hover) .covered { visibility: hidden; }
.map.choosing g:not(.chosen, .near, :hover) { opacity: .45; }
.map.choosing g:not(.chosen, .near, :hover) text { display: none; }
.controls label { display: inline-block; margin-right: 1.5rem; } .controls select { max-width: 14rem; }
.controls input { vertical-align: middle; }
@media print { .controls { display: none; } }
"""

# Reads everything from the picture, so it holds no text of the user's.
SCRIPT = """
(() => {
  const section = document.getElementById("map"), select = section.querySelector("select");
  const slider = section.querySelector("input"), said = section.querySelector(".neighbors");
  const maps = [...section.querySelectorAll("svg")];
  const dots = maps.map(map => [...map.querySelectorAll("g")].sort((a, b) => a.dataset.i - b.dataset.i));
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
        map.append(dots[m][i]);
      }
      if (chosen !== null) map.append(dots[m][chosen]);
      const written = [];
      for (const i of chosen === null ? [] : [chosen, ...close]) {
        const text = dots[m][i].querySelector("text"), box = text.getBoundingClientRect();
        const covered = written.some(other => box.left < other.right && other.left < box.right &&
          box.top < other.bottom && other.top < box.bottom);
        text.classList.toggle("covered", covered);
        if (!covered) written.push(box);
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
