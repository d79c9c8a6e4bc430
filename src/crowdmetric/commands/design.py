"""crowdmetric design: what to ask whom."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from crowdmetric.commands.command import UsageError, note
from crowdmetric.commands.item_tables import read_labels
from crowdmetric.commands.reading import TABLE, add_categories, add_columns, answers_of, items_of
from crowdmetric.commands.similarity_commands import design_similarity
from crowdmetric.design import Questionnaire, design, next_questionnaire
from crowdmetric.design.entry import KINDS
from crowdmetric.design.exchange import CRITERIA
from crowdmetric.errors import DataError
from crowdmetric.folders import check_not_input
from crowdmetric.judgements import KINDS as JUDGED
from crowdmetric.persist import load_model
from crowdmetric.progress import show_progress
from crowdmetric.tables import Items
from crowdmetric.users.population_sums import STRUCTURES

__all__ = ["add_arguments", "design_arguments", "run", "shared_arguments"]

# Options that have no effect with --from, which learns from answers.
NOT_OF_A_NEXT_WAVE = ("dimension", "guess", "doubt", "labels", "rank", "criterion", "tolerance", "reach", "items_out")


def shared_arguments(parser: ArgumentParser) -> None:
    """Add the options that crowdmetric design and crowdmetric plan share."""
    add = parser.add_argument
    add("items", metavar="ITEMS", nargs="?", help=f"{TABLE}, .npy or .npz: one row per item; or give --dimension")
    add_columns(parser)
    add_categories(parser)
    add("--dimension", type=int, metavar="D", help="instead of ITEMS: make new items in D dimensions")
    add("--answers", type=int, default=2, metavar="M", help="answers per person (default: 2)")
    add("--judgements", choices=JUDGED, help="ask for judgements of similarity, of this kind, instead of preferences")
    add("--guess", metavar="MODEL", help="a saved model, whose metric is the guess (default: all features alike)")
    add("--doubt", type=float, metavar="X", help="how wrong the guess may be (default: 0.3; without a guess 1)")
    add("--beta", type=float, default=1.0, help="sharpness of the answers (default: 1)")
    add("--labels", metavar="FILE", help="within: CSV or Parquet, item_id and subspace (default: discovered)")
    add("--rank", type=int, metavar="R", help="within: dimension of the subspaces (default: found from the items)")
    add("--criterion", choices=CRITERIA, help="optimal: mean variance, volume or worst direction (default: A)")
    add("--covariance", choices=STRUCTURES, help="what PopulationMetric will assume of people (default: isotropic)")
    add("--tolerance", type=float, metavar="X", help="matched: how far from parallel (default: 0.2)")
    add("--reach", type=float, metavar="X", help="how far from people's center new items may be (default: any)")
    add("--seed", type=int, default=0, help="random seed (default: 0)")
    add("--json", action="store_true", help="print one JSON object")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    shared_arguments(parser)
    add = parser.add_argument
    add(
        "--from", dest="comparisons", metavar="ANSWERS", help=f"{TABLE}: answers so far; design the next wave from them"
    )
    add("--random-share", type=float, metavar="X", help="share of people with random pairs, with --from (default: 0.1)")
    add("--people", type=int, required=True, metavar="N", help="number of people who will be asked")
    add("--kind", choices=KINDS, default="optimal", help="kind of questions (default: optimal)")
    add("--out", required=True, metavar="FILE", help="CSV or Parquet to write: person, question, left, right")
    add("--items-out", metavar="FILE", help="CSV or Parquet to write new items to; goes with --dimension")


def design_arguments(options: Namespace, kinds: list[str]) -> tuple[Items | None, dict[str, Any]]:
    """Return the items and the other arguments of `design`."""
    if (options.items is None) == (options.dimension is None):
        raise UsageError("give either ITEMS, to ask about them, or --dimension, to make items for the purpose")
    items = None if options.items is None else items_of(options)
    arguments: dict[str, Any] = {
        name: getattr(options, name)
        for name in ("dimension", "doubt", "rank", "criterion", "covariance", "tolerance", "reach", "beta", "seed")
        if getattr(options, name) is not None
    }
    if options.guess is not None:
        arguments["metric"] = _guess(options, items)
    if options.labels is not None:
        if items is None or "within" not in kinds:
            raise UsageError("--labels says which subspace an item lies in; it is only used with --kind within")
        arguments["subspaces"] = read_labels(options, items)
    elif "within" in kinds:
        arguments["subspaces"] = "discover"
    return items, arguments


def _guess(options: Namespace, items: Items | None) -> Any:
    metric = load_model(options.guess).metric
    d = options.dimension if items is None else items.features.shape[1]
    if len(metric) != d:
        raise DataError(f"the metric of {options.guess} has {len(metric)} features, but items have {d}; use one space")
    return metric


def run(options: Namespace) -> None:
    """Run the command."""
    if options.judgements is not None:
        design_similarity(options)
        return
    if (options.items_out is None) != (options.dimension is None):
        raise UsageError("--dimension makes new items, which go to --items-out; give both or neither")
    for out in (options.out, options.items_out):
        check_not_input(out, options.items, options.labels, options.comparisons)
    if options.comparisons is not None:
        _finish(options, _next_wave(options))
        return
    if options.random_share is not None:
        raise UsageError("--random-share is for a next wave; use it together with --from")
    items, arguments = design_arguments(options, [options.kind])
    with show_progress("Choosing questions", quiet=options.quiet):
        ask = design(
            None if items is None else items.features, people=options.people, answers=options.answers,
            kind=options.kind, item_ids=None if items is None else items.ids, **arguments,
        )  # fmt: skip
    _finish(options, ask)


def _next_wave(options: Namespace) -> Questionnaire:
    """Return the questions for the next people, from the answers that are there."""
    unused = [name for name in NOT_OF_A_NEXT_WAVE if getattr(options, name) is not None]
    if options.kind != "optimal" or unused:
        wrong = f"--kind {options.kind}" if options.kind != "optimal" else f"--{unused[0].replace('_', '-')}"
        raise UsageError(f"{wrong} has no effect with --from, which learns its guess from the answers; leave it out")
    items = items_of(options)
    answers = answers_of(options, items)
    with show_progress("Learning from the answers and choosing questions", quiet=options.quiet):
        return next_questionnaire(
            items.features, answers, people=options.people, answers=options.answers, beta=options.beta,
            random_share=0.1 if options.random_share is None else options.random_share,
            covariance=options.covariance or "isotropic", item_ids=items.ids, seed=options.seed,
        )  # fmt: skip


def _finish(options: Namespace, ask: Questionnaire) -> None:
    """Write a questionnaire and say what it is."""
    written = _write(options, ask)
    if options.json:
        print(json.dumps(ask.to_dict() | {"written": written}, ensure_ascii=False, allow_nan=False))
    else:
        print(ask.summary())
    note(options, f"wrote {' and '.join(written)}")


def _write(options: Namespace, ask: Questionnaire) -> list[str]:
    ask.write(options.out)
    if options.items_out is None:
        return [str(Path(options.out))]
    ask.write_items(options.items_out)
    return [str(Path(options.out)), str(Path(options.items_out))]
