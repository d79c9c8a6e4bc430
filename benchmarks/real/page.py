"""The study as files: one tidy table, and the tables of docs/explanation/real-data.md, made from it alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.real.tasks import MODELS, REFERENCE, Row
from crowdmetric.tables import read_columns, write_columns

__all__ = ["merged", "read_rows", "refresh", "stated_table", "tables", "write_rows"]

TASK_TITLES = {
    "warm, few": "Known people, known items, few answers (5 per person)",
    "warm, many": "Known people, known items, more answers (20 per person; train: 8)",
    "cold, few": "Items nobody has answered about, 5 answers per person",
    "cold": "Items nobody has answered about, 10 answers per person",
    "new people": "New people of whom nothing is known",
}
MARK = "<!-- {name}: written by python -m benchmarks real -->"


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Write rows of one kind as a table."""
    columns = {name: np.array([row[name] for row in rows], dtype=_kind(rows[0][name])) for name in rows[0]}
    write_columns(columns, path)


def _kind(value: Any) -> type:
    return object if isinstance(value, str) else type(value)


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a table."""
    columns = read_columns(path)
    return [{name: column[n] for name, column in columns.items()} for n in range(len(next(iter(columns.values()))))]


def merged(rows: Sequence[Row], path: Path, order: Sequence[str]) -> list[Row]:
    """Return rows and, of sets that are not among them, those of the table at `path`; sets in order."""
    new = {row["set"] for row in rows}
    kept = [row for row in read_rows(path) if row["set"] not in new] if path.exists() else []
    return sorted([*kept, *rows], key=lambda row: order.index(row["set"]))


def tables(rows: Sequence[Row]) -> str:
    """Return a table in Markdown for each task: accuracy of the reference, and every other model's gain over it."""
    parts = []
    for task, title in TASK_TITLES.items():
        here = {(row["set"], row["model"]): row for row in rows if row["task"] == task}
        names = list(dict.fromkeys(name for name, _ in here))
        if not names:
            continue
        models = [model for model in MODELS if any((name, model) in here for name in names)]
        lines = [f"**{title}**", "", "| set | " + " | ".join(models) + " |", "|---" * (len(models) + 1) + "|"]
        for name in names:
            best = max(row["accuracy"] for (one, _), row in here.items() if one == name)
            cells = [_cell(here[name, model], best) if (name, model) in here else "" for model in models]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _cell(row: Row, best: float) -> str:
    accuracy = f"{row['accuracy']:.1f}"
    text = f"**{accuracy}**" if row["accuracy"] == best else accuracy
    if row["model"] == REFERENCE:
        return text
    return f"{text} ({row['gain']:+.1f} ± {error_of(row):.1f})"


def error_of(row: Row) -> float:
    """Return the standard error of a gain: by person or, where larger, by repeat, which counts the hidden items."""
    by_repeat = float(row["gain_sd"]) / np.sqrt(float(row["repeats"])) if row["repeats"] > 1 else 0.0
    return max(float(row["gain_error"]), by_repeat)


def stated_table(rows: Sequence[Row]) -> str:
    """Return the table of stated ideals in Markdown."""
    lines = ["| prediction | accuracy | gain over the identity |", "|---|---|---|"]
    lines += [
        f"| {row['model']} | {row['accuracy']:.1f} ± {row['error']:.1f} | "
        + ("" if row["model"] == "identity" else f"{row['gain']:+.1f} ± {row['gain_error']:.1f}")
        + " |"
        for row in rows
    ]
    return "\n".join(lines)


def refresh(page: Path, parts: dict[str, str]) -> None:
    """Replace what stands between the marks of each part of a page."""
    text = page.read_text(encoding="utf-8")
    for name, new in parts.items():
        begin, end = MARK.format(name=name), f"<!-- end of {name} -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        old = pattern.search(text)
        if old is None:
            raise ValueError(f"{page} has no part {name!r}: it begins with {begin} and ends with {end}")
        text = text[: old.start()] + f"{begin}\n{new}\n{end}" + text[old.end() :]
    page.write_text(text, encoding="utf-8")
