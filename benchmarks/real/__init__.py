"""Real people: which model predicts what they will say, on eight sets of answers.

``python -m benchmarks real [--data PATH] [--repeats N] [set …]`` lets every model learn from some answers of a set and
predict the others, three ways (`tasks`), prints the tables of docs/explanation/real-data.md, and with ``--out`` writes
them and a picture (`page`, `pictures`). ``--out docs/explanation/real-data`` brings that page up to date.
Data stand beside the project (`sets.DATA`) or where ``--data`` says; without them there is one sentence and no study.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from benchmarks.real.page import merged, read_rows, refresh, stated_table, tables, write_rows
from benchmarks.real.pictures import draw
from benchmarks.real.sets import DATA, SETS
from benchmarks.real.stated import predict_from_stated
from benchmarks.real.tasks import TASKS, Row, findings, rows_of, run

__all__ = ["main"]

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "real-data.md"


def main(arguments: Sequence[str] = ()) -> None:
    """Run the study on the sets named, or on all of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks real", description=__doc__)
    parser.add_argument("sets", nargs="*", metavar="set", help=f"sets to study: {', '.join(SETS)}; all by default")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the sets")
    parser.add_argument("--repeats", type=int, help="how often something else is hidden (each set has its own number)")
    parser.add_argument("--jobs", type=int, help="processes; one per core by default")
    parser.add_argument("--out", type=Path, help="folder for results.csv, findings.csv, stated.csv and the picture")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.sets) - set(SETS))
    if unknown:
        parser.error(f"unknown set {', '.join(unknown)}; choose from {', '.join(SETS)}")
    names = options.sets or list(SETS)
    missing = [name for name in names if not (options.data / SETS[name].folder / "comparisons.csv").exists()]
    if missing:
        print(f"{options.data} has no {', '.join(missing)}: nothing was measured there (--data names another folder)")
    rows: list[Row] = []
    sentences: list[Row] = []
    for name in (name for name in names if name not in missing):
        found, clock = {}, perf_counter()
        items, answers = SETS[name].read(options.data)
        for task, kind in TASKS.items():
            found[task] = run(SETS[name], items, answers, kind, repeats=options.repeats, jobs=options.jobs)
            rows += rows_of(name, task, found[task])
        sentences += [{"set": name, "finding": text} for text in findings(found)]
        seconds = perf_counter() - clock
        print(f"\n{name}: {len(items)} items × {items.shape[1]}, {answers.n_users} people, {seconds:.0f} s", flush=True)
        print(tables([row for row in rows if row["set"] == name]))
        print("\n".join(row["finding"] for row in sentences if row["set"] == name), flush=True)
    stated = predict_from_stated(options.data) if "perfume" in names and "perfume" not in missing else []
    if stated:
        print("\nperfume: people never asked, from the ideal they stated\n" + stated_table(stated))
    if options.out is not None and rows:
        _write(options.out, rows, sentences, stated)


def _write(out: Path, rows: list[Row], sentences: list[Row], stated: list[Row]) -> None:
    """Write tables and picture; what an earlier run found on other sets is kept."""
    out.mkdir(parents=True, exist_ok=True)
    order = list(SETS)
    rows, sentences = (
        merged(new, out / file, order) for new, file in ((rows, "results.csv"), (sentences, "findings.csv"))
    )
    for file, table in (("results", rows), ("findings", sentences), ("stated", stated)):
        if table:
            write_rows(table, out / f"{file}.csv")
    draw(rows, out / "gains.png")
    if out.resolve() == PAGE.with_suffix("").resolve() and PAGE.exists():
        refresh(PAGE, {"results": tables(rows), "stated": stated_table(read_rows(out / "stated.csv"))})
