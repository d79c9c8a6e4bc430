"""crowdmetric fit --memory: a population fit to answers that stay on disk."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.commands.base import note, print_model
from crowdmetric.commands.scans import scan_answers
from crowdmetric.estimators import PopulationMetric
from crowdmetric.persist import save_model
from crowdmetric.preprocess import ItemMap
from crowdmetric.progress import show_progress
from crowdmetric.tables import Items

__all__ = ["fit_streamed"]


def fit_streamed(
    options: Namespace,
    parameters: dict[str, Any],
    items: Items,
    features: NDArray[np.float64],
    preprocessing: ItemMap | None,
) -> None:
    """Fit, save and print a model; what the answers could teach, and where people stand, is left out for its size."""
    estimator = PopulationMetric(features, **parameters)
    scan = scan_answers(options, items)
    note(options, estimator.memory_plan(scan).sentence)
    with show_progress("Learning the metric", quiet=options.quiet) as say:
        estimator.set_params(progress=say).fit(scan)
    estimator.set_params(progress=None, engine=None)  # which a saved model has no use for
    model = save_model(
        options.out,
        estimator,
        item_ids=items.ids,
        feature_names=items.feature_names,
        comparisons=scan,
        preprocessing=preprocessing,
        overwrite=options.overwrite,
    )
    print_model(options, model, options.out)
