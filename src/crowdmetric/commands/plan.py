"""crowdmetric plan: how many people an error takes."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from crowdmetric.commands.design import design_arguments, shared_arguments
from crowdmetric.commands.similarity_commands import plan_similarity
from crowdmetric.design import plan
from crowdmetric.design.entry import KINDS
from crowdmetric.progress import show_progress

__all__ = ["add_arguments", "run"]


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    shared_arguments(parser)
    add = parser.add_argument
    add("--error", type=float, default=0.10, metavar="X", help="relative error of the metric wanted (default: 0.10)")
    add("--shape", action="store_true", help="--error is the error of the shape, up to scale")
    add("--kind", choices=KINDS, action="append", help="kinds of questions, repeatable (default: optimal and random)")


def run(options: Namespace) -> None:
    """Run the command."""
    if options.judgements is not None:
        plan_similarity(options)
        return
    kinds = options.kind or ["optimal", "random"]
    items, arguments = design_arguments(options, kinds)
    with show_progress("Planning", quiet=options.quiet):
        found = plan(
            None if items is None else items.features, target=options.error, answers=options.answers,
            kinds=tuple(dict.fromkeys(kinds)), shape=options.shape, **arguments,
        )  # fmt: skip
    if options.json:
        print(json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False))
    else:
        print(found.summary())
