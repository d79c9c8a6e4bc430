"""What is hidden from the models, and one tidy row for each of them.

==============  ===================================================================  ====================
task            hidden                                                               answers learned from
==============  ===================================================================  ====================
warm, few       all but a few answers of everybody                                   5 per person
warm, many      all but some more                                                    20 (train: 8)
cold, few       30 % of the items, with every question that shows one                5
cold            the same                                                             10
new people      a quarter of the people                                              20 (train: 8)
==============  ===================================================================  ====================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.real.sets import RealSet
from crowdmetric import Comparisons
from crowdmetric.evaluate import Evaluation, evaluate
from crowdmetric.evaluate.models import BASELINES, WITH_ITEM_EFFECTS

__all__ = ["MODELS", "REFERENCE", "TASKS", "Row", "findings", "rows_of", "run"]

Row = dict[str, Any]

MODELS = (*BASELINES, "population", "population-free", *WITH_ITEM_EFFECTS, "symmetric")
# Gains are over people without a metric.
REFERENCE = "linear"


@dataclass(frozen=True)
class Task:
    """A split of `crowdmetric.evaluate`, and answers per person to learn from: the set's 'few', 'many', or a number."""

    split: str
    answers: str | int

    def train_answers(self, chosen: RealSet) -> int:
        """Return how many answers per person are learned from."""
        return self.answers if isinstance(self.answers, int) else int(getattr(chosen, self.answers))


TASKS = {
    "warm, few": Task("pairs", "few"),
    "warm, many": Task("pairs", "many"),
    "cold, few": Task("items", 5),
    "cold": Task("items", 10),
    "new people": Task("people", "many"),
}


def run(
    chosen: RealSet,
    items: NDArray[np.float64],
    answers: Comparisons,
    task: Task,
    *,
    models: Sequence[str] | None = None,
    repeats: int | None = None,
    jobs: int | None = None,
) -> Evaluation:
    """Return every model on a task, but for those that the set leaves out."""
    if models is None:
        models = [model for model in MODELS if model not in chosen.left_out]
    return evaluate(
        items,
        answers,
        models,
        splits=[task.split],
        train_answers=task.train_answers(chosen),
        repeats=repeats or chosen.repeats,
        jobs=jobs,
    )


def rows_of(name: str, task: str, found: Evaluation) -> list[Row]:
    """Return a row a model: accuracies in points (%), log-likelihoods in nats an answer.

    A gain is over `REFERENCE`, answer by answer; its error takes people as the independent units, and its ``_sd`` is
    the standard deviation over repeats, which for unseen items is the larger matter.
    """
    split = found.splits[0]
    rows = []
    for model in found.models:
        results = [r for r in found.results if r.model == model]
        other = [r for r in found.results if r.model == REFERENCE]
        accuracy = found.difference(split, model, REFERENCE, "accuracy")
        likelihood = found.difference(split, model, REFERENCE)
        gains = [100 * (r.measures["accuracy"] - o.measures["accuracy"]) for r, o in zip(results, other, strict=True)]
        rows.append(
            {
                "set": name,
                "task": task,
                "answers": found.train_answers,
                "model": model,
                "repeats": len(results),
                "n_train": round(np.mean([r.n_train for r in results])),
                "n_test": round(np.mean([r.n_test for r in results])),
                "accuracy": round(100 * found.mean(split, model, "accuracy"), 3),
                "gain": round(100 * accuracy.mean, 3),
                "gain_error": round(100 * accuracy.error, 3),
                "gain_sd": round(float(np.std(gains, ddof=1)), 3) if len(gains) > 1 else float("nan"),
                "log_likelihood": round(found.mean(split, model), 5),
                "log_likelihood_gain": round(likelihood.mean, 5),
                "log_likelihood_gain_error": round(likelihood.error, 5),
                "calibration_slope": round(found.mean(split, model, "calibration_slope"), 3),
                "seconds": round(float(np.mean([r.seconds for r in results])), 2),
            }
        )
    return rows


def findings(found: dict[str, Evaluation]) -> list[str]:
    """Return the sentences of `crowdmetric.evaluate` on warm pairs (many answers), new people and cold items."""
    parts = [found[task] for task in ("warm, many", "new people", "cold")]
    together = Evaluation(
        tuple(result for part in parts for result in part.results),
        tuple(part.splits[0] for part in parts),
        parts[0].models,
        None,
    )
    # what is in short depends on splits that were learned from different numbers of answers here
    return [text for text in together.findings() if not text.startswith(("Note", "In short"))]
