"""Small pictures as SVG, drawn with the colors of the page; text in them is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["bars", "forecast", "heat_map", "intervals"]

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 560, 200, 58, 28, 12
# Space for names at the left, and how much of a name is shown.
NAMES, LONGEST_NAME = 150, 16


def _svg(height: int, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}" focusable="false">'
        f"{''.join(parts)}</svg>"
    )


def _name(x: float, y: float, name: str) -> str:
    return _text(x, y, name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…", "end")


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def bars(values: Sequence[float], labels: Sequence[str], title: str) -> str:
    """Return bars, each with its value in a tooltip, and a few of the labels below."""
    top = max([*values, 2.0])
    top += top % 2  # the line in the middle is a whole number too
    step = (WIDTH - LEFT - 8) / max(len(values), 1)
    parts = [_grid(y / 2 * top, top) for y in range(3)]
    every = max(1, -(-len(values) // 8))
    for k, (value, label) in enumerate(zip(values, labels, strict=True)):
        tall = (HEIGHT - BOTTOM - TOP) * value / top
        x = LEFT + k * step
        parts.append(
            f'<rect class="bar" x="{x + 0.08 * step:.1f}" y="{HEIGHT - BOTTOM - tall:.1f}" width="{0.84 * step:.1f}"'
            f' height="{tall:.1f}" rx="1.5"><title>{escape(label)}: {value:,.0f}</title></rect>'
        )
        if k % every == 0:
            parts.append(_text(x + step / 2, HEIGHT - 9, label))
    return _svg(HEIGHT, title, parts)


def _grid(value: float, top: float) -> str:
    y = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top
    line = f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 8}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return line + _text(LEFT - 6, y + 4, f"{value:,.0f}" if top >= 4 else f"{value:.1f}", "end")


def intervals(
    names: Sequence[str], values: Sequence[float], low: Sequence[float], high: Sequence[float], title: str
) -> str:
    """Return one line per name: a dot at its value, a line over its interval, and zero marked."""
    least, most = min([0.0, *low]), max([*high, 1e-9])
    wide, row = NAMES, 26
    height = row * len(names) + 30

    def place(value: float) -> float:
        return wide + (WIDTH - wide - 16) * (value - least) / ((most - least) or 1.0)

    parts = [f'<line class="zero" x1="{place(0):.1f}" x2="{place(0):.1f}" y1="4" y2="{height - 22}"/>']
    for k, (name, value, a, b) in enumerate(zip(names, values, low, high, strict=True)):
        y = row * k + 18
        parts += [
            _name(wide - 10, y + 4, name),
            f'<line class="interval" x1="{place(a):.1f}" x2="{place(b):.1f}" y1="{y}" y2="{y}"/>',
            f'<circle class="dot" cx="{place(value):.1f}" cy="{y}" r="5"><title>{escape(name)}: {value:.3g} '
            f"({a:.3g} to {b:.3g})</title></circle>",
        ]
    parts += [_text(place(0), height - 6, "0"), _text(place(most), height - 6, f"{most:.2g}", "end")]
    return _svg(height, title, parts)


def heat_map(names: Sequence[str], matrix: Sequence[Sequence[float]], title: str) -> str:
    """Return a symmetric matrix as squares: size and strength by magnitude, color by sign."""
    n = len(names)
    left, top = NAMES, 8
    side = min((WIDTH - left - 16) / n, 44)
    largest = max(max(abs(x) for x in row) for row in matrix) or 1.0
    parts = []
    for i, row in enumerate(matrix):
        name = names[i]
        parts.append(_name(left - 10, top + (i + 0.5) * side + 4, name))
        for j, value in enumerate(row):
            share = abs(value) / largest
            size = side * (0.25 + 0.65 * share)
            x, y = left + (j + 0.5) * side - size / 2, top + (i + 0.5) * side - size / 2
            parts.append(
                f'<rect class="{"plus" if value >= 0 else "minus"}" x="{x:.1f}" y="{y:.1f}" width="{size:.1f}"'
                f' height="{size:.1f}" rx="3" fill-opacity="{0.15 + 0.85 * share:.2f}">'
                f"<title>{escape(name)} × {escape(names[j])}: {value:.3g}</title></rect>"
            )
    return _svg(round(top + n * side + 10), title, parts)


def forecast(people: int, error: float, planned: int, promise: float | None, title: str) -> str:
    """Return the error of the metric against the number of people: now, as it will fall, and as the plan promised.

    ``error(n) = error · √(people / n)`` and ``promise(n) = promise · √(planned / n)``; the scale ends at 100 %.
    """
    most = max(people, planned) * 1.05
    top = min(1.0, 1.15 * max(error, promise or 0.0, 0.05))

    def place(n: float, value: float) -> tuple[float, float]:
        return LEFT + (WIDTH - LEFT - 8) * n / most, HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * min(value, top) / top

    def curve(name: str, at: int, value: float, first: float) -> str:
        steps = [first + (most - first) * (k / 60) ** 2 for k in range(61)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(n, value * (at / n) ** 0.5) for n in steps))
        return f'<polyline class="{name}" points="{points}"/>'

    parts = []
    for share in (0.0, 0.5, 1.0):
        y = place(0, share * top)[1]
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 8}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(LEFT - 6, y + 4, f"{share * top:.0%}", "end"))
    if promise:
        parts.append(curve("promised", planned, promise, planned * min(1.0, (promise / top) ** 2)))
    parts.append(curve("expected", people, error, people))
    marks = [(people, error, "now")] + (
        [(planned, error * (people / planned) ** 0.5, "planned")] if planned > people else []
    )
    for n, value, name in marks:
        x, y = place(n, value)
        parts.append(
            f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="5"><title>{n:,} people: {value:.0%}</title></circle>'
        )
        parts.append(_text(min(max(x, LEFT + 40), WIDTH - 80), HEIGHT - 9, f"{n:,} {name}"))
    return _svg(HEIGHT, title, parts)
