"""crowdmetric export: a saved model -> the one matrix that other programs need."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from crowdmetric.commands.command import UsageError, note
from crowdmetric.export import FORMATS, item_coordinates, linear_head, write_coordinates, write_head
from crowdmetric.persist import load_model

__all__ = ["add_arguments", "run"]


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("model", metavar="MODEL", help="a folder written by crowdmetric fit")
    parser.add_argument("--out", required=True, metavar="FILE", help="file to write")
    parser.add_argument("--format", choices=FORMATS, help="file format (default: from the suffix of FILE)")
    parser.add_argument(
        "--coordinates",
        action="store_true",
        help="TasteMetric: write coordinates of the items (kernel principal components) instead of the matrix",
    )
    parser.add_argument("--rank", type=int, metavar="K", help="coordinates to keep (default: the rank of the metric)")


def run(options: Namespace) -> None:
    """Run the command."""
    kind = options.format or Path(options.out).suffix.removeprefix(".")
    if kind not in FORMATS:
        raise UsageError(f"{options.out} ends in no known format; give --format {', '.join(FORMATS)}")
    model = load_model(options.model)
    if options.coordinates:
        coordinates = item_coordinates(model, rank=options.rank)
        write_coordinates(model, coordinates, options.out, kind)
        n, k = coordinates.shape
        note(options, f"wrote {k} coordinates of {n} items; items are close if the same people like them")
        print(options.out)
        return
    head = linear_head(model, rank=options.rank)
    write_head(head, options.out, kind)
    k, d = head.weight.shape
    note(options, f"wrote a {k} × {d} matrix; Euclidean distance after it is the learned distance")
    print(options.out)
