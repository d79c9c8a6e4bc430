"""Fit every model on every split and score it on what was hidden."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.comparisons import Comparisons
from crowdmetric.engines.local import LocalEngine
from crowdmetric.errors import CrowdmetricWarning, DataError
from crowdmetric.estimators.smooth import TasteMetric
from crowdmetric.evaluate.crowds import CrowdModel, FittedCrowd
from crowdmetric.evaluate.evaluation import Evaluation, Result
from crowdmetric.evaluate.model import Model
from crowdmetric.evaluate.models import WITHOUT_DISTANCE, choose_models
from crowdmetric.evaluate.scores import measures, per_answer
from crowdmetric.evaluate.smooth import FittedTastes, TasteModel
from crowdmetric.evaluate.splits import SPLITS, Split, SplitPlan, split
from crowdmetric.fits.memory import RUNTIME, MemoryPlan, bytes_to_lay_out, read_memory
from crowdmetric.fits.starts import Start
from crowdmetric.inputs import check_items
from crowdmetric.tables import ComparisonScan

__all__ = ["evaluate", "plan_evaluation"]

Array = NDArray[Any]

# People of a scan to evaluate on, if it is not said.
PEOPLE = 20_000
# Bytes of an answer in the tables of a split, and layouts of it that a model holds.
BYTES_OF_ROWS, COPIES = 200, 2


def evaluate(
    items: ArrayLike,
    comparisons: Comparisons | ComparisonScan,
    models: Sequence[str | Model] | None = None,
    *,
    splits: Sequence[str] = tuple(SPLITS),
    train_answers: int | None = None,
    given: int = 0,
    repeats: int = 3,
    seed: int = 0,
    subspaces: Any = None,
    both_new: bool = False,
    jobs: int | None = 1,
    after_fit: Callable[[str], None] | None = None,
    people: int | None = None,
    memory: int | str | None = None,
) -> Evaluation:
    """Compare models by how well they predict answers that were hidden from them.

    Parameters
    ----------
    items : (N, d) array
    comparisons : Comparisons or ComparisonScan
        Binary answers about these items. Of a scan (`Comparisons.scan_parquet`) some people are drawn, as a check needs
        no more, and `Evaluation.drawn` says how many.
    models : sequence of str or Model, optional
        Names of `crowdmetric.evaluate.MODELS`, or objects of your own. None: all of them, 'stitched' only with
        `subspaces`.
    splits : sequence of {'pairs', 'people', 'items'}
        What to hide: questions to people we know, people, items.
    train_answers : int, optional
        Questions a person to learn from; None: all that are not hidden.
    given : int, default 0
        Answers of a new person that are known when the others are predicted (people split).
    repeats : int, default 3
        How often to hide something else.
    seed : int, default 0
    subspaces : (N,) labels, optional
        For 'stitched', as in `StitchedMetric`.
    both_new : bool, default False
        Items split: predict questions about two unseen items only, not one and a known one.
    jobs : int, optional
        Processes; None: one a core. Results do not depend on it.
    after_fit : function of a sentence, optional
        Called when a fit is done.
    people : int, optional
        How many people of a scan to evaluate on, about; None: 20,000.
    memory : int or str, optional
        Limit for a scan, in bytes or such as '2GB'; None: half of what is free. See `plan_evaluation`.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> from crowdmetric import Comparisons
    >>> from crowdmetric.evaluate import evaluate
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(2, None, None, users=300, comparisons=8, seed=0)
    >>> answers = Comparisons.from_arrays(crowd.users, crowd.pairs, crowd.y, n_items=len(crowd.items))
    >>> found = evaluate(crowd.items, answers, ["linear", "population"], splits=["people"], repeats=1)
    >>> found.difference("people", "population", "linear").is_clear
    True
    """
    X = check_items(items)
    drawn = None
    if isinstance(comparisons, ComparisonScan):
        plan_evaluation(X, comparisons, people=people, memory=memory, jobs=jobs)
        scan = comparisons
        comparisons = Comparisons.from_scan(scan, PEOPLE if people is None else people)
        drawn = (comparisons.n_users, scan.n_users)
    elif people is not None or memory is not None:
        raise DataError("people and memory are for scanned comparisons (Comparisons.scan_parquet); leave them out")
    if X.shape[0] != comparisons.n_items:
        raise DataError(
            f"the comparisons are about {comparisons.n_items} items, but items has {X.shape[0]} rows; "
            "read both from the same catalogue (Comparisons.read(..., items=...))"
        )
    if not comparisons.is_binary:
        raise DataError("the answers are real numbers; probabilities can only be compared on answers −1 and +1")
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise DataError(f"repeats={repeats!r} is not a whole number of at least 1")
    if isinstance(splits, str):
        raise DataError(f"splits={splits!r} is one name; give a list, such as splits=[{splits!r}]")
    if not splits or len(set(splits)) < len(splits):
        raise DataError(f"splits={list(splits)!r} is empty or repeats a name; name each split once")
    chosen = choose_models(models, subspaces, X.shape[0])
    plan = SplitPlan(train_answers=train_answers, given=given, both_new=both_new)
    hidden = [split(comparisons, kind, plan, repeat=n, seed=seed) for kind in splits for n in range(repeats)]
    work = [(number, model) for number in range(len(hidden)) for model in range(len(chosen))]
    found: dict[tuple[int, int], Result] = {}
    # splits differ in some of the answers: after the first of them, a crowd begins where it ended there
    begun = list(chosen)
    for some in _stages(work, chosen):
        for place, (result, end) in LocalEngine(jobs).map(partial(_score, X, comparisons, hidden, tuple(begun)), some):
            found[place] = result
            if place[0] == 0:
                _begin_at(begun, place[1], end)
            if after_fit is not None:
                after_fit(f"{len(found)} of {len(work)} fits done")
    return Evaluation(
        tuple(found[place] for place in work),
        tuple(splits),
        tuple(model.name for model in chosen),
        train_answers,
        drawn,
    )


def _stages(work: list[tuple[int, int]], models: Sequence[Model]) -> list[list[tuple[int, int]]]:
    """Return the fits in the order in which they need each other's ends.

    The first split comes first, and in it a model with any symmetric matrix after its twin with a metric.
    """
    names = {model.name for model in models}
    late = {other for twin, other in WITHOUT_DISTANCE.items() if twin in names}
    first = [job for job in work if job[0] == 0]
    waiting = [job for job in first if models[job[1]].name in late]
    return [[job for job in first if job not in waiting], waiting, [job for job in work if job[0] > 0]]


def _begin_at(models: list[Model], number: int, end: Start | TasteMetric | None) -> None:
    """Let a model, and its twin with any symmetric matrix, begin where it ended."""
    twin = WITHOUT_DISTANCE.get(models[number].name)
    for place, model in enumerate(models):
        if isinstance(model, CrowdModel | TasteModel) and (place == number or model.name == twin):
            models[place] = replace(model, start=end)  # type: ignore[arg-type]


def plan_evaluation(
    items: ArrayLike,
    scan: ComparisonScan,
    *,
    people: int | None = None,
    memory: int | str | None = None,
    jobs: int | None = 1,
) -> MemoryPlan:
    """Return how much memory an evaluation on a scan will take, before it starts; a limit that is too low is an error.

    Every process holds the answers of the people drawn, and a model's layout of them.
    """
    N, d = check_items(items).shape
    share = min(1.0, (PEOPLE if people is None else people) / max(scan.n_users, 1))
    answers = int(min(1.0, 2.0 * share) * len(scan))  # one in so many people: up to twice as many as asked for
    a_process = RUNTIME + 8 * N * d + answers * (BYTES_OF_ROWS + COPIES * bytes_to_lay_out(d))
    work = LocalEngine(jobs).jobs * a_process
    limit = read_memory(memory)
    return MemoryPlan.of_work(scan.n_users, len(scan), work, limit, "evaluation", remedy=", or lower people or jobs")


def _score(
    items: Array, comparisons: Comparisons, hidden: list[Split], models: Sequence[Model], job: tuple[int, int]
) -> tuple[Result, Start | TasteMetric | None]:
    """Return one model on one split, and where its fit ended if the next may begin there."""
    parts, model = hidden[job[0]], models[job[1]]
    train, test = comparisons.take(parts.train), comparisons.take(parts.test)
    clock = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CrowdmetricWarning)
        fitted = model.fit(items, train)
        right = np.asarray(fitted.probability(_blank(test), comparisons.take(parts.known)), dtype=np.float64)
    if right.shape != (len(test),) or not np.all((right >= 0) & (right <= 1)):
        raise DataError(f"model {model.name!r} must give a probability for each of {len(test)} questions")
    notes = tuple(sorted({str(w.message) for w in caught if issubclass(w.category, CrowdmetricWarning)}))
    for other in caught:  # what others warn of is theirs to say
        if not issubclass(other.category, CrowdmetricWarning):
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    log_p, correct = per_answer(right, test.response)
    people = partial(np.bincount, test.user, minlength=comparisons.n_users)
    result = Result(
        split=parts.kind,
        model=model.name,
        repeat=parts.repeat,
        n_train=round(float(train.weight.sum())),
        n_test=round(float(test.weight.sum())),
        measures=measures(right, test.response, test.weight),
        log_likelihood=people(weights=test.weight * log_p),
        correct=people(weights=test.weight * correct),
        weight=people(weights=test.weight),
        seconds=time.process_time() - clock,
        notes=notes,
    )
    return result, fitted.end if isinstance(fitted, FittedCrowd | FittedTastes) else None


def _blank(questions: Comparisons) -> Comparisons:
    """Return the questions with every answer +1, so that no model can look."""
    return Comparisons(
        user=questions.user,
        left=questions.left,
        right=questions.right,
        response=np.ones(len(questions)),
        weight=np.ones(len(questions)),
        user_ids=questions.user_ids,
        item_ids=questions.item_ids,
    )
