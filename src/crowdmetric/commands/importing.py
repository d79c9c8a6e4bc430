"""crowdmetric import: a data set as it was distributed -> tables that the other commands read."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any

from crowdmetric.commands.command import UsageError, note
from crowdmetric.datasets import Dataset, load_jester, load_movielens, load_sushi, load_travel
from crowdmetric.datasets.dataset import FORMATS, check_folder
from crowdmetric.datasets.sushi import ANSWERS
from crowdmetric.progress import show_progress

__all__ = ["add_arguments", "run"]

LOADERS: dict[str, Callable[..., Dataset]] = {
    "sushi": load_sushi,
    "movielens": load_movielens,
    "jester": load_jester,
}
# Comes with the library: there is nothing to read, and nothing to choose.
INCLUDED = "travel"
# Options that only one data set has.
OWN = {"answers": "sushi", "groups": "sushi", "components": "jester"}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    names = [INCLUDED, *LOADERS]
    add("name", choices=names, metavar="NAME", help=f"which data set: {', '.join(names)}; {INCLUDED} is included")
    add("path", nargs="?", metavar="PATH", help="the folder or zip file as it was distributed; nothing is downloaded")
    add("--out", required=True, metavar="DIR", help="folder to make")
    add("--pairs", metavar="N", help="comparisons per person to keep, or 'all' (default: 20)")
    add("--people", type=int, metavar="N", help="people to keep (default: everybody)")
    add("--gap", type=float, metavar="X", help="how far apart two ratings must be (default: 0, at all)")
    add("--features", metavar="FILE", help="your own (CSV, Parquet, .npz: item_id, …); movielens: or genres, genome")
    add("--answers", choices=ANSWERS, help="sushi: rankings of set a or b, or scores (default: b)")
    add("--groups", action="store_true", default=None, help="sushi: also the twelve groups as features")
    add("--components", type=int, metavar="K", help="jester: directions to keep of the jokes' words (default: 16)")
    add("--numbers", action="store_true", help="name items by the numbers of the data set, not by their names")
    add("--seed", type=int, default=0, help="random seed of which comparisons and people are kept (default: 0)")
    add("--format", choices=FORMATS, default="csv", help="format of the tables (default: csv)")
    add("--overwrite", action="store_true", help="replace an older import")


def run(options: Namespace) -> None:
    """Run the command."""
    _check(options)
    arguments = {} if options.name == INCLUDED else _loader_arguments(options)
    check_folder(options.out, options.overwrite)
    with show_progress("Reading", quiet=options.quiet):
        included = options.name == INCLUDED
        found = load_travel(seed=options.seed) if included else LOADERS[options.name](options.path, **arguments)
    found = found if options.numbers else found.named()
    found.write(options.out, format=options.format, overwrite=options.overwrite)
    print(found.summary())
    note(options, f"wrote items.{options.format}, item_names.{options.format} and comparisons.{options.format}")


def _check(options: Namespace) -> None:
    """Raise UsageError if a path is missing, or if anything is asked of the data set that comes with the library."""
    if options.name != INCLUDED:
        if options.path is None:
            raise UsageError(
                f"{options.name} does not come with crowdmetric, its terms forbid it; name the folder or zip file that "
                f"you have, or begin with crowdmetric import {INCLUDED}, which is included"
            )
        return
    given = [f"--{name}" for name in ("pairs", "people", "gap", "features", *OWN) if getattr(options, name) is not None]
    for name in [options.path, *given]:
        if name is not None:
            raise UsageError(f"{name} has no effect with {INCLUDED}, which is read whole; leave it out")


def _loader_arguments(options: Namespace) -> dict[str, Any]:
    """Return the arguments of the loader; an option of another data set is a usage error."""
    arguments: dict[str, Any] = {"people": options.people, "gap": options.gap or 0.0, "seed": options.seed}
    pairs = "20" if options.pairs is None else options.pairs
    try:
        arguments["pairs"] = None if pairs == "all" else int(pairs)
    except ValueError:
        raise UsageError(f"--pairs {options.pairs} is neither a number nor 'all'") from None
    if options.features is not None:
        arguments["features"] = options.features
    for option, name in OWN.items():
        if getattr(options, option) is None:
            continue
        if options.name != name:
            raise UsageError(f"--{option} has no effect with {options.name}, only with {name}; leave it out")
        arguments[option] = getattr(options, option)
    return arguments
