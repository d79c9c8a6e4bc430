"""What an evaluation found: a tidy table, differences between models with their errors, and sentences."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError
from crowdmetric.evaluate.scores import MEASURES, clustered, plus_minus
from crowdmetric.evaluate.splits import TITLES
from crowdmetric.evaluate.verdict import Difference, best_model, counted_hidden, findings, worth_of_metric
from crowdmetric.plots import draw_evaluation, new_figure
from crowdmetric.tables import Columns, to_pandas, write_columns

__all__ = ["Evaluation", "Result"]

Array = NDArray[Any]

# Columns of a terminal that summaries keep to.
WIDTH = 100


@dataclass(frozen=True)
class Result:
    """One model on one split.

    Attributes
    ----------
    split, model, repeat
    n_train, n_test : int
        Answers learned from and predicted: their weight, rounded, so a tie, two rows of half a weight, is one.
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
        Those of models that were fitted on the first split alone come last (`has`, `difference`).
    splits, models : tuple of str
        In the order asked for.
    train_answers : int or None
    drawn : (int, int) or None
        How many people it rests on, of how many; None: everybody.
    saved : str or None
        Which of the models is the one that was saved; tables mark it, and sentences are about it.
    unfinished : str
        A sentence on what was left out, if anything.
    ends : mapping
        Where the first fit of a model ended, by its name, for a fit to all answers to begin there. Not saved.
    """

    results: tuple[Result, ...]
    splits: tuple[str, ...]
    models: tuple[str, ...]
    train_answers: int | None
    drawn: tuple[int, int] | None = None
    saved: str | None = None
    unfinished: str = ""
    ends: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def of_saved(self, model: str | None) -> Evaluation:
        """Return the same evaluation, which knows that `model` is the one that was saved."""
        if model is not None and model not in self.models:
            raise DataError(f"{model!r} was not evaluated; name one of {', '.join(self.models)}, or None")
        return replace(self, saved=model)

    # ------------------------------------------------------------------------------------------ tables

    def columns(self) -> Columns:
        """Return the tidy table, one row per split, model and repeat."""
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
        """Return by how much `model` beats `other` per answer: log-likelihood or accuracy.

        Both predicted the same answers, so differences are taken answer by answer, summed by person over all
        repeats, and people are the independent units.
        """
        total, weight = self._sums(split, model, measure)
        return Difference(*clustered(total - self._sums(split, other, measure)[0], weight), *self.hidden(split))

    def hidden(self, split: str) -> tuple[int, int]:
        """Return how many hidden answers of how many people were predicted, over all repeats."""
        found = next(r for r in self.results if r.split == split)
        weight = np.sum([r.weight for r in self._of(split, found.model)], axis=0)
        return round(float(weight.sum())), int(np.sum(weight > 0))

    def has(self, split: str, model: str) -> bool:
        """Return whether a model was evaluated on a split."""
        return any(r.split == split and r.model == model for r in self.results)

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
        """Return the model of the highest hidden log-likelihood."""
        return best_model(self, split) or self.models[0]

    def findings(self, *, no_distance: bool | None = None) -> list[str]:
        """Return what follows, a sentence each: see `crowdmetric.evaluate.verdict`."""
        noted = sorted({f"Note: {r.model}: {text}." for r in self.results for text in r.notes})
        return findings(self, no_distance=no_distance) + noted

    def scope(self) -> list[str]:
        """Return what the evaluation rests on, where that is not everything: some of the people, or some fits only."""
        some = []
        if self.drawn is not None:
            few, everybody = self.drawn
            some.append(f"Evaluated on {few:,} of {everybody:,} people, drawn whatever they answered.")
        return [*some, self.unfinished] if self.unfinished else some

    def summary(self) -> str:
        """Return what follows, a readable table per split, and what metrics are worth; 100 columns wide."""
        lines = [textwrap.fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False) for text in self.findings()]
        parts = ["\n".join(lines)] if lines else []
        parts += [textwrap.fill(" ".join(self.scope()), WIDTH)] if self.scope() else []
        parts += [self._table(split) for split in self.splits]
        if self.saved is not None:
            parts[-1] += "\n> the saved model"
        parts += [table] if (table := self._worth_table()) else []
        return "\n\n".join(parts)

    def _table(self, split: str) -> str:
        first = self._of(split, self.models[0])
        n_train, n_test = (round(np.mean([getattr(r, name) for r in first])) for name in ("n_train", "n_test"))
        repeats = f", mean of {len(first)} repeats" if len(first) > 1 else ""
        people = round(np.mean([np.sum(r.weight > 0) for r in first]))
        best = self.best(split)
        width = self._name_width()
        lines = [
            f"{TITLES[split]}: {counted_hidden(n_test, people)} predicted from {n_train:,}{repeats}",
            f"  {'':<{width}}log-likelihood    behind the best   accuracy   too sure?",
        ]
        for model in self.models:
            gap = self.difference(split, best, model)
            behind = "best" if model == best else plus_minus(gap.mean, gap.error)
            lines.append(
                f"{self._mark(model)}{model:<{width}}{self.mean(split, model):14.4f}  {behind:>17}   "
                f"{100 * self.mean(split, model, 'accuracy'):6.2f} %   "
                f"{_calibration(self.mean(split, model, 'calibration_slope'))}"
            )
        return "\n".join(lines)

    def _worth_table(self) -> str:
        """Return what the metric of every model adds to it, a column per split; nothing without such models."""
        found = worth_of_metric(self)
        if not found:
            return ""
        width = self._name_width()
        lines = [
            "What the metric alone adds, in nats per answer: each model against itself without its metric",
            f"  {'':<{width}}{'without it':<13}" + "".join(f"{_SHORT[split]:>19}" for split in self.splits),
        ]
        for model, row in found.items():
            cells = [
                f"{plus_minus(c.likelihood.mean, c.likelihood.error, sign='+')}{_MARKS[c.outcome]}".rjust(19)
                for c in row
            ]
            lines.append(f"{self._mark(model)}{model:<{width}}{row[0].other:<13}" + "".join(cells))
        return "\n".join([*lines, "  + better, − worse, = equally good, ? these answers cannot tell"])

    def _mark(self, model: str) -> str:
        return "> " if model == self.saved else "  "

    def _name_width(self) -> int:
        return max(map(len, self.models)) + 1

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
        worth = [
            {"split": c.split, "model": c.model, "without": c.other, "outcome": c.outcome, **vars(c.likelihood)}
            for row in worth_of_metric(self).values()
            for c in row
        ]
        return {
            "splits": list(self.splits),
            "models": list(self.models),
            "train_answers": self.train_answers,
            "saved": self.saved,
            "drawn": None if self.drawn is None else list(self.drawn),
            "unfinished": self.unfinished,
            "results": rows,
            "behind_the_best": [_without_nan(d) for d in differences],
            "worth_of_metric": [_without_nan(w) for w in worth],
            "findings": self.findings(),
        }

    def plot(self, split: str | None = None) -> Any:
        """Return a matplotlib figure: log-likelihood and accuracy of every model, a column per split.

        With `split`, a narrow one with the log-likelihoods of that split alone, to be read on a phone. The saved model
        is marked by ▸.
        """
        splits = self.splits if split is None else (split,)
        measures = ("log_likelihood", "accuracy")[: 2 if split is None else 1]
        width, line = (3.6 * len(splits) + 1.6, 0.62) if split is None else (4.4, 0.27)
        figure = new_figure(width, 1.1 + line * len(self.models))
        values = {
            measure: np.array([[self.mean(s, m, measure) for m in self.models] for s in splits]) for measure in measures
        }
        errors = {
            measure: np.array([[self._error_beside_best(s, m, measure) for m in self.models] for s in splits])
            for measure in measures
        }
        labels = [f"▸ {model}" if model == self.saved else model for model in self.models]
        draw_evaluation(figure, values, errors, [TITLES[s] for s in splits], labels)
        return figure

    def _error_beside_best(self, split: str, model: str, measure: str) -> float:
        """Return the error of the difference to the model that is best by this measure; of the best, none."""
        best = max(self.models, key=lambda name: self.mean(split, name, measure))
        return 0.0 if model == best else self.difference(split, best, model, measure).error


# Heads of narrow columns, and signs of outcomes in them.
_SHORT = {"pairs": "new questions", "people": "new people", "items": "new items"}
_MARKS = {"better": " +", "worse": " −", "equal": " =", "unclear": " ?"}


def _calibration(slope: float) -> str:
    verdict = "too sure" if slope < 0.9 else "not sure enough" if slope > 1.1 else "calibrated"
    return f"{verdict} ({slope:.2f})"


def _without_nan(values: dict[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(v, float) and not np.isfinite(v) else v for name, v in values.items()}
