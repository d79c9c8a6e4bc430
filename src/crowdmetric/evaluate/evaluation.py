"""What an evaluation found: a tidy table, differences between models with their errors, and sentences."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError
from crowdmetric.evaluate.scores import MEASURES, clustered
from crowdmetric.evaluate.splits import TITLES
from crowdmetric.evaluate.verdict import Difference, findings
from crowdmetric.plots import draw_evaluation, new_figure
from crowdmetric.tables import Columns, to_pandas, write_columns

__all__ = ["Evaluation", "Result"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Result:
    """One model on one split.

    Attributes
    ----------
    split, model, repeat
    n_train, n_test : int
        Answers learnt from and predicted (rows; a tie is two).
    measures : dict
        Of `crowdmetric.evaluate.scores.MEASURES`.
    log_likelihood, correct, weight : (K,)
        Each person's sums over the answers predicted, for errors clustered by person.
    seconds : float
        Of processor time.
    notes : tuple of str
        What the fit warned of.
    """

    split: str
    model: str
    repeat: int
    n_train: int
    n_test: int
    measures: Mapping[str, float]
    log_likelihood: Array
    correct: Array
    weight: Array
    seconds: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Evaluation:
    """Every model on every split.

    Attributes
    ----------
    results : tuple of Result
    splits, models : tuple of str
        In the order asked for.
    train_answers : int or None
    drawn : (int, int) or None
        How many people it rests on, of how many in a scan; None: everybody.
    """

    results: tuple[Result, ...]
    splits: tuple[str, ...]
    models: tuple[str, ...]
    train_answers: int | None
    drawn: tuple[int, int] | None = None

    # ------------------------------------------------------------------------------------------ tables

    def columns(self) -> Columns:
        """Return the tidy table, one row a split, model and repeat."""
        names = ("split", "model", "repeat", "n_train", "n_test")
        columns: Columns = {name: np.array([getattr(r, name) for r in self.results]) for name in names}
        columns = {name: c.astype(object) if c.dtype.kind == "U" else c for name, c in columns.items()}
        columns |= {name: np.array([r.measures[name] for r in self.results]) for name in MEASURES}
        columns["seconds"] = np.array([r.seconds for r in self.results])
        return columns

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the tidy table (Parquet, if that is the suffix)."""
        write_columns(self.columns(), path)

    def to_pandas(self) -> Any:
        """Return the tidy table as a ``pandas.DataFrame``."""
        return to_pandas(self.columns())

    def mean(self, split: str, model: str, measure: str = "log_likelihood") -> float:
        """Return the mean of a measure over repeats."""
        return float(np.mean([r.measures[measure] for r in self._of(split, model)]))

    def error(self, split: str, model: str, measure: str = "log_likelihood") -> float:
        """Return the standard error of log-likelihood or accuracy, clustered by person."""
        total, weight = self._sums(split, model, measure)
        return clustered(total, weight)[1]

    def difference(self, split: str, model: str, other: str, measure: str = "log_likelihood") -> Difference:
        """Return by how much `model` beats `other` an answer: log-likelihood or accuracy.

        Both predicted the same answers, so that differences are taken answer by answer, summed by person over all
        repeats, and people are the independent units.
        """
        total, weight = self._sums(split, model, measure)
        return Difference(*clustered(total - self._sums(split, other, measure)[0], weight))

    def _of(self, split: str, model: str) -> list[Result]:
        found = [r for r in self.results if r.split == split and r.model == model]
        if not found:
            raise DataError(
                f"{model!r} was not evaluated on split {split!r}; there are models {', '.join(self.models)} and "
                f"splits {', '.join(self.splits)}"
            )
        return found

    def _sums(self, split: str, model: str, measure: str) -> tuple[Array, Array]:
        """Return people's sums and weights (K,) over all repeats."""
        field = {"log_likelihood": "log_likelihood", "accuracy": "correct"}.get(measure)
        if field is None:
            raise DataError(f"measure {measure!r} is no mean over answers; use 'log_likelihood' or 'accuracy'")
        found = self._of(split, model)
        return np.sum([getattr(r, field) for r in found], axis=0), np.sum([r.weight for r in found], axis=0)

    # --------------------------------------------------------------------------------------- sentences

    def best(self, split: str) -> str:
        """Return the model of the highest held-out log-likelihood."""
        return max(self.models, key=lambda model: self.mean(split, model))

    def findings(self) -> list[str]:
        """Return what follows, a sentence each: see `crowdmetric.evaluate.verdict`."""
        noted = sorted({f"Note: {r.model}: {text}." for r in self.results for text in r.notes})
        return findings(self) + noted

    def summary(self) -> str:
        """Return a readable table a split, and what follows."""
        parts = [self._table(split) for split in self.splits]
        if self.drawn is not None:
            some, everybody = self.drawn
            parts.insert(0, f"Evaluated on {some:,} of {everybody:,} people, drawn by a hash of their number.")
        return "\n\n".join([*parts, "\n".join(self.findings())])

    def _table(self, split: str) -> str:
        first = self._of(split, self.models[0])
        n_train, n_test = (round(np.mean([getattr(r, name) for r in first])) for name in ("n_train", "n_test"))
        repeats = f", mean of {len(first)} repeats" if len(first) > 1 else ""
        best = self.best(split)
        width = max(map(len, self.models)) + 2
        lines = [
            f"{TITLES[split]}: {n_test:,} answers predicted from {n_train:,}{repeats}",
            f"  {'':<{width}}log-likelihood        behind the best   accuracy     Brier   too sure?",
        ]
        for model in self.models:
            gap = self.difference(split, best, model)
            behind = "best" if model == best else f"{gap.mean:.4f} ± {gap.error:.4f}"
            lines.append(
                f"  {model:<{width}}{self.mean(split, model):8.4f} ± {self.error(split, model):.4f}   "
                f"{behind:>17}   {100 * self.mean(split, model, 'accuracy'):6.2f} %   "
                f"{self.mean(split, model, 'brier'):.4f}   {_calibration(self.mean(split, model, 'calibration_slope'))}"
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values, for JSON."""
        rows = [
            {"split": r.split, "model": r.model, "repeat": r.repeat, "n_train": r.n_train, "n_test": r.n_test,
             **r.measures, "seconds": r.seconds, "notes": list(r.notes)}
            for r in self.results
        ]  # fmt: skip
        differences = [
            {"split": split, "best": best, "model": model, "measure": "log_likelihood", **vars(gap)}
            for split in self.splits
            for best in [self.best(split)]
            for model in self.models
            for gap in [self.difference(split, best, model)]
        ]
        return {
            "splits": list(self.splits),
            "models": list(self.models),
            "train_answers": self.train_answers,
            "drawn": None if self.drawn is None else list(self.drawn),
            "results": rows,
            "behind_the_best": [_without_nan(d) for d in differences],
            "findings": self.findings(),
        }

    def plot(self) -> Any:
        """Return a matplotlib figure: log-likelihood and accuracy of every model, a column a split."""
        figure = new_figure(3.6 * len(self.splits) + 1.6, 1.4 + 0.62 * len(self.models))
        values = {
            measure: np.array([[self.mean(s, m, measure) for m in self.models] for s in self.splits])
            for measure in ("log_likelihood", "accuracy")
        }
        errors = {
            measure: np.array([[self._error_beside_best(s, m, measure) for m in self.models] for s in self.splits])
            for measure in values
        }
        draw_evaluation(figure, values, errors, [TITLES[s] for s in self.splits], self.models)
        return figure

    def _error_beside_best(self, split: str, model: str, measure: str) -> float:
        """Return the error of the difference to the model that is best by this measure; of the best, none."""
        best = max(self.models, key=lambda name: self.mean(split, name, measure))
        return 0.0 if model == best else self.difference(split, best, model, measure).error


def _calibration(slope: float) -> str:
    verdict = "too sure" if slope < 0.9 else "not sure enough" if slope > 1.1 else "calibrated"
    return f"{verdict} ({slope:.2f})"


def _without_nan(values: dict[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(v, float) and not np.isfinite(v) else v for name, v in values.items()}
