"""One self-contained page with every figure of a reproduction."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path

from crowdmetric._version import __version__
from crowdmetric.experiments.cells import Figure
from crowdmetric.experiments.learners import Row
from crowdmetric.experiments.result_tables import rows_of_figure
from crowdmetric.folders import write_file

__all__ = ["write_page"]

STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --paper: #fdfdfb; --line: #ccc; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e6e3; --paper: #16181a; --line: #444; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
body { max-width: 62rem; margin: 0 auto; padding: 1rem; }
figure { margin: 2rem 0; } img { width: 100%; height: auto; background: #fff; border: 1px solid var(--line); }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
td, th { padding: .2rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
figcaption, .small { font-size: .9rem; opacity: .85; } code { font-size: .9em; }
@media print { body { max-width: none; } figure { break-inside: avoid; } }
"""

INTRODUCTION = """
<p>Every panel of the experiments of <em>Metric Learning from Limited Pairwise Preference Comparisons</em>
(Wang, So and Vinayak, UAI 2024), run again. From left to right: the published method, whose radii are computed from the
true metric (<strong>oracle</strong>); the same method with radii chosen from the answers (<strong>honest</strong>),
which is what a user can do; and, for logistic answers with noise, people taken as one population
(<strong>population</strong>), which needs neither radii nor subspaces. Error is ‖M̂ − M‖ / ‖M‖ in Frobenius norm, mean
over runs. Bands, and numbers after ±, are one standard deviation over runs; a single run has none. In Experiments 1 and
3 the dotted line is the best multiple of the identity: at or above it, nothing has been learned; in Experiment 2, the
fewest subspaces that can identify the metric.</p>
"""


def write_page(figures: Sequence[Figure], summary: Sequence[Row], out: Path, *, command: str, seconds: float) -> Path:
    """Write ``index.html`` beside the pictures, which it carries inside."""
    parts = [
        f"<h1>The paper's figures, reproduced</h1>{INTRODUCTION}",
        f'<p class="small">crowdmetric {__version__}, {_runs(summary)}, <code>{html.escape(command)}</code>, '
        f"{seconds / 60:.1f} minutes in this run.</p>",
        "<ul>" + "".join(f'<li><a href="#{f.name}">{html.escape(f.title)}</a></li>' for f in figures) + "</ul>",
    ]
    parts += [_section(figure, rows_of_figure(figure, summary), out) for figure in figures]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f"<title>crowdmetric: reproduction</title><style>{STYLE}</style>"
    page = f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>'
    path = out / "index.html"
    write_file(path, page)
    return path


def _runs(summary: Sequence[Row]) -> str:
    """Return how many runs each cell has, by learner where they differ: ``3 runs per cell (1 of population)``."""
    by_learner: dict[str, set[int]] = {}
    for row in summary:
        by_learner.setdefault(row["learner"], set()).add(row["runs"])
    runs = {learner: _range(counts) for learner, counts in by_learner.items()}
    usual = runs.get("oracle", next(iter(runs.values()), "0"))
    others = ", ".join(f"{many} of {learner}" for learner, many in runs.items() if many != usual)
    return f"{usual} run{'' if usual == '1' else 's'} per cell" + (f" ({others})" if others else "")


def _range(counts: set[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _section(figure: Figure, rows: list[Row], out: Path) -> str:
    picture = base64.b64encode((out / f"{figure.name}.png").read_bytes()).decode()
    return (
        f'<figure id="{figure.name}"><h2>{html.escape(figure.title)}</h2>'
        f'<img alt="{html.escape(figure.title)}" src="data:image/png;base64,{picture}">'
        f"<figcaption>{_caption(figure, rows)}</figcaption>{_table(figure, rows)}</figure>"
    )


def _caption(figure: Figure, rows: list[Row]) -> str:
    active = [row["active_share_mean"] for row in rows if row["learner"] == "oracle" and row["stitch"] == "huber"]
    text = f"Panel <code>{figure.source}</code> of the paper's source; Huber stitching."
    if active:
        share = 100 * sum(active) / len(active)
        text += f" With oracle radii, {share:.0f} % of the subspace metrics end on their radius."
    if figure.beta != 1.0 and any(row["learner"] == "population" for row in rows):
        text += " The population finds βM, so only the error of its shape is given."
    return text


def _table(figure: Figure, rows: list[Row]) -> str:
    """Return a small table of corner cells: error and shape error of every learner and method.

    A learner that does not stitch has its errors in the columns of the main method.
    """
    chosen = _corners(figure, rows)
    titles = ("cell", "learner", "error", "error with OLS stitching", "error of shape", "runs")
    head = "<tr>" + "".join(f"<th>{title}</th>" for title in titles) + "</tr>"
    lines = []
    for label, members in chosen.items():
        for learner in dict.fromkeys(row["learner"] for row in members):
            by_method = {row["stitch"]: row for row in members if row["learner"] == learner}
            main = by_method.get("huber") or by_method[""]
            finds_size = learner != "population" or figure.beta == 1.0
            values = [
                _pm(main if finds_size else None, "relative_error"),
                _pm(by_method.get("ols"), "relative_error"),
                _pm(main, "shape_error"),
            ]
            cells = "".join(f"<td>{value}</td>" for value in (label, learner, *values, main["runs"]))
            lines.append(f"<tr>{cells}</tr>")
    return f"<table>{head}{''.join(lines)}</table>"


def _corners(figure: Figure, rows: list[Row]) -> dict[str, list[Row]]:
    names = {1: ("K", "m"), 2: ("d", "n"), 3: ("K", "sigma")}[figure.experiment]
    values = {name: sorted({row[name] for row in rows}) for name in names}
    picks = {name: dict.fromkeys((v[0], v[len(v) // 2], v[-1])) for name, v in values.items()}
    corners: dict[str, list[Row]] = {}
    for row in rows:
        if all(row[name] in picks[name] for name in names):
            corners.setdefault(", ".join(f"{name} = {row[name]:g}" for name in names), []).append(row)
    return corners


def _pm(row: Row | None, name: str) -> str:
    """Return ``mean ± standard deviation``; a single run has no deviation."""
    if row is None:
        return ""
    mean = f"{row[f'{name}_mean']:.3f}"
    return mean if row["runs"] == 1 else f"{mean} ± {row[f'{name}_sd']:.3f}"
