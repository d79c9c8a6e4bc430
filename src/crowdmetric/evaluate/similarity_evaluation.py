"""Which model predicts similarity judgements best: what is hidden, baselines, and a ceiling.

==========  =====================================  ===================================================================
split       what is hidden                         what it says
==========  =====================================  ===================================================================
items       questions about at least one item of   how well the metric carries over to *new items*: the figure to quote
            a group, in turn
questions   a fifth of the questions, in turn      how well other questions about known items are predicted
people      all answers of a fifth of the people   how well new people are predicted
==========  =====================================  ===================================================================

Models: ``euclid`` (the identity, with the best scale), ``diagonal``, ``full``, ``chosen`` (structure='auto'), ``own``
(everybody's own metric; not for new people) and ``embedding`` (coordinates of items without features, as in stochastic
triplet embedding: what is possible where items are known; not for new items). The structure of ``chosen`` and
``own`` is chosen for the split: by questions left out where questions are hidden, else by items left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.checks import function_or_none, instance_of, one_of, seed_number, whole_number
from crowdmetric.errors import DataError, NotIdentifiedWarning
from crowdmetric.estimators.similarity import SimilarityMetric
from crowdmetric.evaluate.scores import LEAST, clustered, plus_minus
from crowdmetric.evaluate.verdict import FEWEST_PEOPLE, Difference
from crowdmetric.inputs import check_items
from crowdmetric.judgements import Judgements, canonical_of_judgements
from crowdmetric.progress import TimeLeft
from crowdmetric.tables import ASKED, ids_of, matched, origin_of_pairs

__all__ = [
    "SIMILARITY_MODELS",
    "SIMILARITY_SPLITS",
    "Ceiling",
    "SimilarityEvaluation",
    "SimilarityResult",
    "ceiling_of",
    "evaluate_similarity",
    "few_people",
    "looks_ranked",
    "similarity_folds",
]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

SIMILARITY_SPLITS = {"items": "New items", "questions": "New questions", "people": "New people"}
SIMILARITY_MODELS: dict[str, dict[str, Any]] = {
    "euclid": {"structure": "identity"},
    "diagonal": {"structure": "diagonal"},
    "full": {"structure": "full"},
    "chosen": {"structure": "auto"},
    "own": {"structure": "auto", "people": "own"},
    "embedding": {},
}
# What the choice of a structure leaves out, where it is not items.
_LEFT_OUT = {"questions": "questions"}
# Dimensions of an embedding without features.
EMBEDDING_RANK = 8
# With fewer answers than this to questions that were answered twice, they say nothing about the best possible accuracy.
FEW_REPEATS = 200


@dataclass(frozen=True)
class SimilarityResult:
    """How one model did on one split: means over hidden answers, and the sums they come from.

    Attributes
    ----------
    split, model : str
    log_loss, accuracy : float
    log_loss_error, accuracy_error : float
        Standard errors, clustered by person, or by the first item of a question where only one person is known.
    n_answers : float
    seconds : float
        Of processor time, for all folds.
    sums : (4, C) array
        Per cluster: log-likelihood, right answers, and answers (twice).
    """

    split: str
    model: str
    log_loss: float
    accuracy: float
    log_loss_error: float
    accuracy_error: float
    n_answers: float
    seconds: float
    sums: Array


@dataclass(frozen=True)
class Ceiling:
    """What the best possible model reaches where answers were repeated, between two bounds.

    Attributes
    ----------
    n_answers : float
        Answers to questions that were answered at least twice.
    low, high : float
        Accuracy of the majority of the *other* answers, and of the majority of all of them.
    """

    n_answers: float
    low: float
    high: float

    def summary(self) -> str:
        """Return it in one sentence."""
        if not self.n_answers:
            return "No question was answered twice, so the best possible accuracy is not known."
        if self.n_answers < FEW_REPEATS:
            return f"Only {self.n_answers:,g} answers are repeated: too few to know the best possible accuracy."
        return (
            f"Repeated answers ({self.n_answers:,g}) agree so often that the best possible accuracy is between "
            f"{self.low:.1%} and {self.high:.1%}."
        )


@dataclass(frozen=True)
class SimilarityEvaluation:
    """The table of results, the ceiling, what to beware of, models that cannot be fitted, and how many people answered.

    `left_out` gives the reason for each of those models; `people` is None where nobody is named.
    """

    results: tuple[SimilarityResult, ...]
    ceiling: Ceiling
    notes: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    people: int | None = None

    def result(self, split: str, model: str) -> SimilarityResult:
        """Return one cell of the table."""
        for found in self.results:
            if (found.split, found.model) == (split, model):
                return found
        raise DataError(f"{model!r} was not evaluated on split {split!r}")

    def difference(self, split: str, model: str, other: str) -> Difference:
        """Return by how much the log-loss of `model` is above that of `other` per answer; errors count people."""
        one, two = self.result(split, model).sums, self.result(split, other).sums
        answers, people = self._seen(split)
        return Difference(*clustered(two[0] - one[0], one[2]), answers, people, fewest=2)

    def hidden(self, split: str) -> str:
        """Return '120 predictions of hidden answers of 30 people', or of nobody who is named."""
        answers, people = self._seen(split)
        return f"{answers:,} predictions of hidden answers" + ("" if people is None else f" of {people:,} people")

    def _seen(self, split: str) -> tuple[int, int | None]:
        """Return how many predictions of hidden answers of how many people there were."""
        found = next(result for result in self.results if result.split == split)
        return round(found.n_answers), None if self.people is None else int(np.sum(found.sums[2] > 0))

    def findings(self) -> list[str]:
        """Return what follows, a sentence each."""
        found = []
        for split in dict.fromkeys(r.split for r in self.results):
            models = {r.model for r in self.results if r.split == split}
            if {"chosen", "euclid"} <= models:
                gain = self.difference(split, "euclid", "chosen")
                word = "better than" if gain.is_clear else "worse than" if gain.reversed.is_clear else "no better than"
                found.append(
                    f"{SIMILARITY_SPLITS[split]}: the learned metric is {word} Euclidean distance, by "
                    f"{plus_minus(gain.mean, gain.error, digits=3)} nats per answer ({self.hidden(split)})."
                )
            if {"own", "chosen"} <= models:
                gain = self.difference(split, "chosen", "own")
                word = "help" if gain.is_clear else "do not help"
                found.append(
                    f"{SIMILARITY_SPLITS[split]}: metrics of people's own {word} "
                    f"({plus_minus(gain.mean, gain.error, digits=3)} nats)."
                )
        return [*found, self.ceiling.summary(), *self.notes, *self.left_out]

    def summary(self) -> str:
        """Return a readable table per split, and what follows."""
        parts = []
        for split in dict.fromkeys(r.split for r in self.results):
            rows = [r for r in self.results if r.split == split]
            lines = [
                f"{SIMILARITY_SPLITS[split]}: {self.hidden(split)}",
                f"  {'':<12}accuracy           log-loss",
            ]
            lines += [
                f"  {r.model:<12}{plus_minus(r.accuracy, r.accuracy_error):<15}    "
                f"{plus_minus(r.log_loss, r.log_loss_error)}"
                for r in rows
            ]
            parts.append("\n".join(lines))
        return "\n\n".join([*parts, "\n".join(self.findings())])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values, for JSON."""
        names = ("split", "model", "log_loss", "accuracy", "log_loss_error", "accuracy_error", "n_answers", "seconds")
        rows = [{name: _plain(getattr(r, name)) for name in names} for r in self.results]
        ceiling = {name: _plain(getattr(self.ceiling, name)) for name in ("n_answers", "low", "high")}
        found = {"results": rows, "ceiling": ceiling, "findings": self.findings()}
        return found | {"left_out": list(self.left_out), "people": self.people}


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


# ------------------------------------------------------------------------------------------ what is hidden


def similarity_folds(
    judgements: Judgements, split: str, folds: int, seed: int, items: Any = None
) -> list[tuple[Mask, Mask]]:
    """Return masks (T,) of what is learned from and what is hidden, one pair per fold.

    They depend on who said what, and on features `items` (N, d), not on names or on the order of rows, items or people.
    """
    rng = np.random.default_rng(seed)
    by_content = canonical_of_judgements((judgements,), items)
    if split == "items":
        shown = np.unique(judgements.items)
        group = np.full(judgements.n_items, -1)
        group[by_content.sorted_items(shown)] = rng.permutation(shown.size) % folds
        hidden = [(group[judgements.items] == fold).any(axis=1) for fold in range(folds)]
    elif split == "questions":
        asked = np.sort(by_content.items[judgements.pairs], axis=2)
        asked = np.sort(asked[..., 0] * judgements.n_items + asked[..., 1], axis=1)  # options in any order
        _, question = np.unique(asked, axis=0, return_inverse=True)
        group = rng.permutation(int(question.max()) + 1) % folds
        hidden = [group[question.ravel()] == fold for fold in range(folds)]
    elif split == "people":
        if judgements.n_people < folds:
            raise DataError(f"{judgements.n_people} people cannot be dealt into {folds} groups; leave this split out")
        group = (rng.permutation(judgements.n_people) % folds)[by_content.people]
        hidden = [group[judgements.person] == fold for fold in range(folds)]
    else:
        raise DataError(f"split {split!r} is not known; choose {', '.join(map(repr, SIMILARITY_SPLITS))}")
    pairs = [(~mask, mask) for mask in hidden]
    if not all(learned.any() and mask.any() for learned, mask in pairs):
        raise DataError(f"split {split!r} leaves nothing to learn from, or nothing to predict; use fewer folds")
    return pairs


# ------------------------------------------------------------------------------------------ fit and score


def evaluate_similarity(
    items: Any,
    judgements: Judgements,
    models: Sequence[str] | None = None,
    *,
    splits: Sequence[str] | None = None,
    folds: int = 5,
    seed: int = 0,
    after_fit: Callable[[str], None] | None = None,
    **options: Any,
) -> SimilarityEvaluation:
    """Return how well models predict judgements that were hidden from them.

    Parameters
    ----------
    items : (N, d) array
    judgements : Judgements
    models : names of `SIMILARITY_MODELS`, optional
        All but ``own`` by default, and that too where there are several people.
    splits : names of `SIMILARITY_SPLITS`, optional
        New items and new questions by default, and new people where there are enough.
    folds, seed : int
    after_fit : function of a str, optional
        Told after every fit.
    **options
        Of every `SimilarityMetric`, such as ``link='distance'``.

    Examples
    --------
    >>> from crowdmetric.evaluate import evaluate_similarity
    >>> from crowdmetric.simulate_judgements import simulate_judgements
    >>> study = simulate_judgements(30, 2, 1500, seed=0)
    >>> found = evaluate_similarity(study.items, study.judgements, ['euclid', 'full'], splits=['questions'], folds=2)
    >>> found.result('questions', 'full').accuracy > 0.6
    True
    """
    how = "make one with Judgements.from_table or .read"
    X, judgements = check_items(items), instance_of(judgements, "judgements", Judgements, how)
    judgements = matched(judgements, ids_of(items), len(X)).merged()
    if whole_number(folds, "folds", 2) > len(judgements):
        raise DataError(f"folds={folds} is more than there are judgements, {len(judgements):,}; use fewer folds")
    seed_number(seed, "seed")
    function_or_none(after_fit, "after_fit", "a sentence")
    several = judgements.n_people >= 2
    usual = [name for name in SIMILARITY_MODELS if name != "own" or several]
    models = _names(models, "models", usual, tuple(SIMILARITY_MODELS))
    usual = ["items", "questions", *(["people"] if judgements.n_people >= folds else [])]
    splits = _names(splits, "splits", usual, tuple(SIMILARITY_SPLITS))
    cluster = judgements.person if several else judgements.items[:, 0]
    results, refused = [], dict[str, DataError]()
    impossible = {("items", "embedding"), ("people", "own")}
    time_left = TimeLeft(model for split in splits for model in models if (split, model) not in impossible)
    for split in splits:
        masks = similarity_folds(judgements, split, folds, seed, X)
        for model in models:
            if model in refused or (split, model) in impossible:
                continue
            clock = process_time()
            try:
                results.append(_result(X, judgements, split, model, masks, cluster, options))
            except DataError as error:
                refused[model] = error
            if after_fit is not None:
                after_fit(time_left.after(model, process_time() - clock))
    results = [result for result in results if result.model not in refused]
    if refused and not results:
        raise next(iter(refused.values()))
    notes: tuple[str, ...] = ()
    if looks_ranked(judgements):
        notes = (
            "The judgements of one person about one anchor look cut from choices or rankings: they are not "
            "independent, errors are too small, and new questions are easier than they seem. Look at new items.",
        )
    if several and judgements.n_people < FEWEST_PEOPLE:
        notes += (few_people(judgements.n_people),)
    left_out = tuple(f"The model {model!r} is left out: {error}." for model, error in refused.items())
    people = judgements.n_people if several else None
    return SimilarityEvaluation(tuple(results), ceiling_of(judgements), notes, left_out, people)


def few_people(count: int) -> str:
    """Return what fewer than ten people mean, in a sentence."""
    return (
        f"Only {count} people answered: errors and intervals count people, not answers, and what is found may hold for "
        "these people alone."
    )


def _result(
    X: Array, judgements: Judgements, split: str, model: str, masks: list[tuple[Mask, Mask]], cluster: Any,
    options: dict[str, Any],
) -> SimilarityResult:  # fmt: skip
    clock = process_time()
    n = int(cluster.max()) + 1
    sums = np.zeros((3, n))
    for learned, hidden in masks:
        fitted = _fit(X, judgements.take(learned), model, {"left_out": _LEFT_OUT.get(split, "items")} | options)
        asked = judgements.take(hidden)
        p = np.clip(fitted.predict_proba(asked), LEAST, 1.0)
        log_p = np.einsum("tk,tk->t", asked.counts, np.log(p))
        best = p == p.max(axis=1, keepdims=True)  # a draw is a share of an answer
        right = np.einsum("tk,tk->t", asked.counts, best / best.sum(axis=1, keepdims=True))
        for row, each in enumerate((log_p, right, asked.counts.sum(axis=1))):
            sums[row] += np.bincount(cluster[hidden], each, n)
    (likelihood, error), (accuracy, accuracy_error) = clustered(sums[0], sums[2]), clustered(sums[1], sums[2])
    return SimilarityResult(
        split, model, -likelihood, accuracy, error, accuracy_error, float(sums[2].sum()), process_time() - clock, sums
    )


def _names(given: Sequence[str] | None, what: str, usual: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the names that were given, each once and known; None: the usual ones."""
    if given is None:
        return list(usual)
    if not isinstance(given, list | tuple) or not given or len({repr(name) for name in given}) < len(given):
        raise DataError(f"{what}={given!r} is no list of different names; choose among {', '.join(map(repr, known))}")
    return [one_of(name, what, known) for name in given]


def _fit(X: Array, judgements: Judgements, model: str, options: dict[str, Any]) -> SimilarityMetric:
    if model == "embedding":  # an embedding is a metric on one-hot codes of the items
        N = len(X)
        link = options.get("link", "squared")
        return SimilarityMetric(np.eye(N), rank=min(EMBEDDING_RANK, N), link=link).fit(judgements)
    given = {"uncertainty": False} | options | SIMILARITY_MODELS[model]
    with warnings.catch_warnings():  # a size that is not known shows in the log-loss
        warnings.simplefilter("ignore", NotIdentifiedWarning)
        return SimilarityMetric(X, **given).fit(judgements)


# ------------------------------------------------------------------------------------------ what bounds it


def ceiling_of(judgements: Judgements) -> Ceiling:
    """Return between what the best possible accuracy lies, from questions that were answered more than once.

    The majority of all answers knows each answer itself, which is too good; the majority of the others knows less than
    the truth does.
    """
    nobody = np.zeros(len(judgements), dtype=np.int64)
    pooled = Judgements(
        judgements.kind, judgements.items, judgements.counts, nobody, np.zeros(1, dtype=np.int64), judgements.item_ids
    ).merged()
    counts = pooled.counts[pooled.counts.sum(axis=1) >= 2]
    total = float(counts.sum())
    if not total:
        return Ceiling(0.0, float("nan"), float("nan"))
    right = 0.0
    for chosen in range(counts.shape[1]):
        others = counts.copy()
        others[:, chosen] -= 1.0
        best = others == others.max(axis=1, keepdims=True)
        right += float(counts[:, chosen] @ (best[:, chosen] / best.sum(axis=1)))
    return Ceiling(total, right / total, float(counts.max(axis=1).sum()) / total)


def looks_ranked(judgements: Judgements) -> bool:
    """Return whether one person's triplets about one anchor look cut from a choice or an order."""
    if judgements.kind != "triplet":
        return False
    near, far = judgements.items[:, 1], judgements.items[:, 2]
    is_near = judgements.counts[:, 0] > judgements.counts[:, 1]
    group = judgements.person * judgements.n_items + judgements.items[:, 0]
    return origin_of_pairs(group, np.where(is_near, near, far), np.where(is_near, far, near)) != ASKED
