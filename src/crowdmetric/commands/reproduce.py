"""crowdmetric reproduce: the paper's figures, run again."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path
from time import perf_counter

from crowdmetric.commands.command import UsageError, note
from crowdmetric.experiments.cells import FIGURES, Figure, cells_of, figure_named
from crowdmetric.experiments.figures import draw_figures
from crowdmetric.experiments.reproduction_page import write_page
from crowdmetric.experiments.result_tables import summarize, write_tables
from crowdmetric.experiments.runner import run_cells
from crowdmetric.plots import new_figure
from crowdmetric.progress import show_progress

__all__ = ["add_arguments", "run"]

QUICK_RUNS, FULL_RUNS = 3, 30


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    names = ", ".join(figure.name for figure in FIGURES)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"what to run: all (default), or some of {names}")
    parser.add_argument("--runs", type=int, help=f"runs per cell (default {FULL_RUNS}, with --quick {QUICK_RUNS})")
    parser.add_argument(
        "--quick", action="store_true", help="a thinned grid and few runs: every figure in a minute or two"
    )
    parser.add_argument("--jobs", type=int, help="processes (default: one per core); results do not depend on it")
    parser.add_argument(
        "--out", default="reproduction", metavar="DIR", help="folder for results; finished runs in it are kept"
    )


def run(options: Namespace) -> None:
    """Run the command."""
    figures = _chosen(options.figures)
    runs = options.runs if options.runs is not None else QUICK_RUNS if options.quick else FULL_RUNS
    if runs < 1:
        raise UsageError(f"--runs {runs} is not a number of runs; give 1 or more")
    new_figure(1.0, 1.0)  # fail now, not after an hour of work, if matplotlib is missing
    out = Path(options.out)
    clock = perf_counter()
    cells = cells_of(figures, quick=options.quick)
    with show_progress("Reproducing", quiet=options.quiet) as say:
        rows = run_cells(cells, runs, out, jobs=options.jobs, report=lambda progress: say(str(progress)))
        say("drawing")
        summary = summarize(rows)
        tables = write_tables(rows, out)
        draw_figures(figures, summary, out, jobs=options.jobs)
        page = write_page(figures, summary, out, command=_command(options), seconds=perf_counter() - clock)
    note(options, f"{len(rows):,} results of {len(cells)} cells in {perf_counter() - clock:.0f} s")
    for path in (page, *tables):
        print(path)


def _chosen(names: list[str]) -> tuple[Figure, ...]:
    if not names or names == ["all"]:
        return FIGURES
    found = [figure_named(name) for name in names]
    unknown = [name for name, figure in zip(names, found, strict=True) if figure is None]
    if unknown:
        raise UsageError(f"there is no figure {unknown[0]!r}; choose from all, {', '.join(f.name for f in FIGURES)}")
    return tuple(dict.fromkeys(figure for figure in found if figure is not None))


def _command(options: Namespace) -> str:
    words = ["crowdmetric", "reproduce", *options.figures]
    words += ["--quick"] if options.quick else []
    words += ["--runs", str(options.runs)] if options.runs is not None else []
    return shlex.join(words)
