"""crowdmetric fit --memory: a fit to answers that stay on disk."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

from crowdmetric.commands.command import note
from crowdmetric.commands.fit_ending import print_ending
from crowdmetric.commands.fit_saving import saved_and_safe
from crowdmetric.commands.reading import scan_answers
from crowdmetric.estimators import IdealPointMetric, MatchedMetric, PopulationMetric
from crowdmetric.preprocess import ItemMap
from crowdmetric.progress import show_progress
from crowdmetric.tables import Items

__all__ = ["Streaming", "fit_streamed", "fit_with_progress"]

Streaming = PopulationMetric | IdealPointMetric | MatchedMetric


def fit_with_progress(estimator: Any, answers: Any, say: Callable[[str], None], **more: Any) -> None:
    """Fit an estimator and show its progress if it reports any. Afterwards it has neither engine nor progress.

    `more` are further arguments of `fit`.
    """
    known = estimator.get_params()
    if "progress" in known:
        estimator.set_params(progress=say)
    estimator.fit(answers, **more)
    # they are not part of a saved model
    estimator.set_params(**{name: None for name in ("progress", "engine") if name in known})


def fit_streamed(
    options: Namespace,
    estimator: Streaming,
    items: Items,
    preprocessing: ItemMap | None,
) -> None:
    """Fit, save and print a model; what the answers could teach, and where people stand, is left out for its size."""
    scan = scan_answers(options, items)
    note(options, estimator.memory_plan(scan).sentence)
    with show_progress("Learning the metric", quiet=options.quiet) as say:
        fit_with_progress(estimator, scan, say)
    catalogue = {"item_ids": items.ids, "feature_names": items.feature_names, "preprocessing": preprocessing}
    with saved_and_safe(options, estimator, comparisons=scan, **catalogue) as model:
        print_ending(options, model)
