"""crowdmetric export: a saved model -> the one matrix that other programs need."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from crowdmetric.commands.base import Command, UsageError, note
from crowdmetric.export import FORMATS, linear_head, write_head
from crowdmetric.persist import load_model

__all__ = ["EXPORT"]


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a folder written by crowdmetric fit")
    parser.add_argument("--out", required=True, metavar="FILE", help="file to write")
    parser.add_argument("--format", choices=FORMATS, help="default: what the name of the file ends in")
    parser.add_argument("--rank", type=int, metavar="K", help="coordinates to keep (default: the rank of the metric)")


def _run(options: Namespace) -> None:
    kind = options.format or Path(options.out).suffix.removeprefix(".")
    if kind not in FORMATS:
        raise UsageError(f"{options.out} ends in no known format; give --format {', '.join(FORMATS)}")
    head = linear_head(load_model(options.model), rank=options.rank)
    write_head(head, options.out, kind)
    k, d = head.weight.shape
    note(options, f"wrote a {k} × {d} matrix; Euclidean distance after it is the learnt distance")
    print(options.out)


EXPORT = Command(
    name="export",
    help="write a model's linear map for vector indexes and linear layers",
    example="crowdmetric export model --out head.npz",
    add_arguments=_arguments,
    run=_run,
)
