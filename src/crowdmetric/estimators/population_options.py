"""The options of a population fit: their values, and which can be combined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crowdmetric.checks import function_or_none, positive_number, true_or_false, whole_number
from crowdmetric.engines.contract import Engine, device_of
from crowdmetric.errors import DataError
from crowdmetric.fits.correction import INTEGRATIONS
from crowdmetric.inputs import CONSTRAINTS, Rows, check_options
from crowdmetric.losses import Logistic, Loss
from crowdmetric.tables import ComparisonScan
from crowdmetric.users.population_sums import STRUCTURES

__all__ = [
    "POPULATION_CONSTRAINTS",
    "check_for_gradients",
    "check_for_sets",
    "check_items_are_named",
    "check_population_options",
    "items_with_effects",
    "refuse_judgements",
    "refuse_scan_of_pooled",
]

# What the metric of a population may be: a learned one, any symmetric matrix, a multiple of the identity, or none.
POPULATION_CONSTRAINTS = (*CONSTRAINTS, "identity", "zero")


def check_population_options(options: Mapping[str, Any], d: int, loss: Loss, engine: Engine | None) -> None:
    """Check the parameters of a `PopulationMetric` for items of d features, and a fit by gradients alone or not."""
    covariance, constraint, rank, ridge = (options[name] for name in ("covariance", "constraint", "rank", "ridge"))
    if not (loss.needs_binary and loss.is_smooth):
        raise DataError(f"loss={loss.name!r} is not a likelihood of binary answers; use 'logistic' or 'probit'")
    if device_of(engine) is not None and not isinstance(loss, Logistic):
        raise DataError(f"loss={loss.name!r} is not for {type(engine).__name__}; use 'logistic', or leave engine out")
    for name, value, known in (
        ("covariance", covariance, (*STRUCTURES, "none")),
        ("constraint", constraint, POPULATION_CONSTRAINTS),
        ("integration", options["integration"], INTEGRATIONS),
    ):
        if not isinstance(value, str) or value not in known:
            raise DataError(f"{name}={value!r} is unknown; use {' or '.join(map(repr, known))}")
    if rank is not None and whole_number(rank, "rank") > d:
        raise DataError(f"rank={rank!r} is not between 1 and the {d} features of the items")
    if rank is not None and constraint != "psd":
        raise DataError(f"rank={rank} has no effect with constraint={constraint!r}; leave one of them out")
    if covariance == "none":
        _check_pooled(options, loss, engine)
    if isinstance(ridge, str) and ridge != "evidence":
        raise DataError(f"ridge={ridge!r} is unknown; use 'evidence', a number or None")
    if not (ridge is None or isinstance(ridge, str) or (isinstance(ridge, int | float) and ridge == 0)):
        positive_number(ridge, "ridge")
    if true_or_false(options["item_effects"], "item_effects") and not isinstance(ridge, str):
        raise DataError(
            f"item_effects are shrunk by the evidence, which ridge={ridge!r} rules out; use ridge='evidence'"
        )
    function_or_none(options["progress"], "progress", "a sentence")
    check_options(options["tol"], options["max_iter"], 2, options["random_state"])
    whole_number(options["starts"], "starts")


def _check_pooled(options: Mapping[str, Any], loss: Loss, engine: Engine | None) -> None:
    """Check a fit in which people do not differ."""
    kind = options["constraint"], bool(options["item_effects"])
    if kind not in (("zero", True), ("symmetric", False)):
        raise DataError(
            "covariance='none' is for constraint='zero' with item_effects=True (popularity), or constraint='symmetric' "
            "without (one quadratic utility); choose one of them, or let people differ"
        )
    for name, value, expected in (
        ("loss", loss.name, "logistic"), ("beta", float(loss.beta), 1.0), ("ridge", options["ridge"], "evidence"),
        ("engine", engine, None), ("checkpoint", options["checkpoint"], None), ("rank", options["rank"], None),
    ):  # fmt: skip
        if value != expected:
            raise DataError(f"{name}={value!r} has no effect with covariance='none'; leave it out")


def refuse_scan_of_pooled(covariance: Any) -> None:
    """Refuse scanned comparisons in a fit in which people do not differ."""
    if isinstance(covariance, str) and covariance == "none":
        raise DataError("covariance='none' is for answers in memory; read them with Comparisons.from_scan")


def check_for_sets(options: Mapping[str, Any], d: int, loss: Loss, given: Sequence[Any], *, by_gradients: bool) -> None:
    """Check that a fit can learn from answers about several items; `given` are y, users and sample_weight."""
    if any(part is not None for part in given):
        raise DataError("Choices carry their answers, people and weights; leave y, users and sample_weight out")
    if not isinstance(loss, Logistic):
        raise DataError(f"loss={loss.name!r} is for comparisons; choices among several need loss='logistic'")
    for name in ("engine", "item_effects", "checkpoint"):
        if options[name]:
            raise DataError(f"{name} is for comparisons; leave it out to learn from choices among several")
    if options["covariance"] == "none" or options["constraint"] == "zero":
        raise DataError(
            "baselines without a metric (covariance='none', constraint='zero') learn from comparisons; leave these "
            "options out to learn from choices among several"
        )
    if by_gradients:
        raise DataError(
            f"{d} features need a fit by gradients, which learns from comparisons only; reduce the items to at most 76 "
            "features (crowdmetric.preprocess) to learn from choices among several"
        )


def check_for_gradients(options: Mapping[str, Any], d: int, n_items: int, engine: Engine | None) -> None:
    """Check that a fit by gradients alone can do what is asked."""
    constraint, integration = options["constraint"], options["integration"]
    is_linear = constraint == "zero" and options["covariance"] == "isotropic"
    about = f"{d} features" + (f", effects of {n_items:,} items" if options["item_effects"] else "") + " or float32"
    if constraint != "psd" and not is_linear:
        instead = "covariance='isotropic'" if constraint == "zero" else "constraint='psd'"
        raise DataError(
            f"constraint={constraint!r} needs outer products of scores, which {about} rule out; use {instead}, or "
            "reduce the items first (crowdmetric.preprocess)"
        )
    if is_linear and engine is not None:
        raise DataError("linear utilities with covariance='isotropic' are fitted on this machine; leave engine out")
    for name, asked in (
        (f"integration={integration!r}", integration == "grid"),
        ("checkpoint", options["checkpoint"] is not None),
        ("warm_start", options["warm_start"]),
    ):
        if asked:
            why = "linear utilities" if is_linear else about
            raise DataError(f"{name} is for fits by scoring, which {why} rule out; leave it out")
    if engine is not None and engine.is_remote:
        raise DataError(
            f"a cluster is for fits by scoring, which {d} features rule out; leave engine out, use a TorchEngine, or "
            "reduce the items first (crowdmetric.preprocess)"
        )


def refuse_judgements(judgements: Any) -> None:
    """Refuse similarity judgements in a fit by gradients alone."""
    if judgements is not None:
        raise DataError(
            "judgements cannot be added to a fit by gradients alone (more than 76 features, or single precision); "
            "reduce the features, or fit the judgements with SimilarityMetric"
        )


def items_with_effects(answers: ComparisonScan | Rows, n_items: int, engine: Engine | None) -> int:
    """Return the number of items with effects in a fit by scoring; an error if effects are not possible."""
    if isinstance(answers, ComparisonScan):
        raise DataError(
            "item_effects is not for scanned comparisons; read them into memory with Comparisons.from_scan, or "
            "leave it out"
        )
    if device_of(engine) is not None:
        raise DataError("item_effects is not for a GPU; leave out engine or item_effects")
    check_items_are_named(answers)
    return n_items


def check_items_are_named(rows: Rows) -> None:
    """Check that pairs are row numbers or ids, which say which items are the same."""
    if not rows.by_row:
        raise DataError("item_effects needs to know which items are the same; give pairs as rows (T, 2) of items")
