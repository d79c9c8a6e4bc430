"""Fit every model on every split and score it on what was hidden."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import process_time, time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.checks import function_or_none, positive_number, whole_number
from crowdmetric.comparisons import Comparisons
from crowdmetric.engines.local import LocalEngine
from crowdmetric.errors import CrowdmetricError, CrowdmetricWarning, DataError
from crowdmetric.evaluate.evaluation import Evaluation, Result
from crowdmetric.evaluate.model import Model
from crowdmetric.evaluate.models import choose_models
from crowdmetric.evaluate.scores import measures, per_answer
from crowdmetric.evaluate.splits import SPLITS, TITLES, Split, SplitPlan, all_splits
from crowdmetric.fits.memory import RUNTIME, MemoryPlan, bytes_to_lay_out, read_memory
from crowdmetric.inputs import answers_about, check_items
from crowdmetric.progress import TimeLeft
from crowdmetric.tables import ComparisonScan, in_order_of

__all__ = ["evaluate", "plan_evaluation"]

Array = NDArray[Any]

# Default number of people drawn from a scan.
PEOPLE = 20_000
# Memory: bytes per answer in the tables of a split, and the number of copies that a model holds.
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
    time_limit: float | None = None,
    on_first_split: Sequence[str] = (),
    give_up: Callable[[Evaluation], Collection[str]] | None = None,
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
        `subspaces`. One that cannot be fitted is left out, and `Evaluation.unfinished` says why; it is an error if
        none can.
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
        Processes; None: one per core. Results do not depend on it.
    after_fit : function of a sentence, optional
        Called when a fit is done.
    people : int, optional
        How many people of a scan to evaluate on, about; None: 20,000.
    memory : int or str, optional
        Limit for a scan, in bytes or such as '2GB'; None: half of what is free. See `plan_evaluation`.
    time_limit : float, optional
        Seconds after which no further fit begins. Splits, or models on the first split, that were not reached are left
        out, and `Evaluation.unfinished` says so.
    on_first_split : sequence of str
        Those of the models that are fitted on the first of the splits alone: one to compare another with, where that
        question has one answer for all splits. Tables leave them out.
    give_up : function, optional
        Called with what the first split has shown so far, before more is fitted there and before the other splits. It
        returns the names of models that need not be fitted any further; tables leave them out.

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
    function_or_none(after_fit, "after_fit", "a sentence")
    function_or_none(give_up, "give_up", "an Evaluation")
    drawn = None
    if isinstance(comparisons, ComparisonScan):
        plan_evaluation(X, comparisons, people=people, memory=memory, jobs=jobs)
        scan = comparisons
        comparisons = Comparisons.from_scan(scan, PEOPLE if people is None else people)
        drawn = (comparisons.n_users, scan.n_users)
    elif people is not None or memory is not None:
        raise DataError("people and memory are for scanned comparisons (Comparisons.scan_parquet); leave them out")
    comparisons = _checked(answers_about(comparisons, items, X.shape[0]), splits, repeats)
    people_there = np.unique(comparisons.user).size
    subspaces = in_order_of(subspaces, items, "subspaces")
    chosen = choose_models(models, subspaces, X.shape[0], X.shape[1], people_there)
    plan = SplitPlan(train_answers=train_answers, given=given, both_new=both_new)
    hidden = all_splits(comparisons, splits, plan, repeats, seed, X)
    work = [
        (number, model)
        for number, parts in enumerate(hidden)
        for model, asked in enumerate(chosen)
        if parts.kind == splits[0] or asked.name not in on_first_split
    ]
    found: dict[tuple[int, int], Result] = {}
    refused: dict[str, CrowdmetricError] = {}
    # splits differ in some of the answers only: a fit begins where that of its model to the first split ended, and on
    # the first split where that of a simpler model ended
    ends: dict[str, Any] = {}
    time_left = TimeLeft(chosen[model].name for _, model in work)
    deadline = None if time_limit is None else time() + positive_number(time_limit, "time_limit")
    given_up = set(on_first_split)
    for stage in _stages(work, chosen):
        some = stage
        if found and give_up is not None:
            seen = tuple(found.values())
            dropped = set(give_up(Evaluation(seen, tuple(splits[:1]), tuple(r.model for r in seen), train_answers)))
            given_up |= dropped
            some = [job for job in stage if chosen[job[1]].name not in dropped]
        some = [place for place in some if chosen[place[1]].name not in refused]
        begins = tuple(ends.get(model.name, ends.get(getattr(model, "simpler", ""))) for model in chosen)
        job = partial(_score_in_time, X, comparisons, hidden, chosen, begins, deadline)
        for place, (result, end) in LocalEngine(jobs).map(job, some):
            if isinstance(result, CrowdmetricError):
                refused.setdefault(chosen[place[1]].name, result)
            if not isinstance(result, Result):
                continue
            found[place] = result
            if place[0] == 0 and end is not None:
                ends[result.model] = end
            if after_fit is not None:
                after_fit(time_left.after(result.model, result.seconds))
    found = {place: result for place, result in found.items() if result.model not in refused}
    given_up |= set(refused)
    everywhere = [model for model, asked in enumerate(chosen) if asked.name not in given_up]
    if refused and not everywhere:
        raise next(iter(refused.values()))
    evaluation = _evaluation(found, hidden, chosen, everywhere, train_answers, drawn, time_limit)
    said = [f"The model {name!r} is left out, because it cannot be fitted: {why}." for name, why in refused.items()]
    return replace(
        evaluation,
        ends={name: end for name, end in ends.items() if name not in refused},
        unfinished=" ".join([*filter(None, [evaluation.unfinished]), *said]),
    )


def _checked(comparisons: Comparisons, splits: Sequence[str], repeats: int) -> Comparisons:
    """Return answers that can be evaluated, and refuse splits that cannot be made."""
    if not comparisons.is_binary:
        raise DataError("the answers are real numbers; probabilities can only be compared on answers −1 and +1")
    whole_number(repeats, "repeats")
    if isinstance(splits, str):
        raise DataError(f"splits={splits!r} is one name; give a list, such as splits=[{splits!r}]")
    if not splits or len(set(splits)) < len(splits):
        raise DataError(f"splits={list(splits)!r} is empty or repeats a name; name each split once")
    return comparisons


def _evaluation(
    found: Mapping[tuple[int, int], Result],
    hidden: Sequence[Split],
    models: Sequence[Model],
    everywhere: Sequence[int],
    train_answers: int | None,
    drawn: tuple[int, int] | None,
    time_limit: float | None,
) -> Evaluation:
    """Return the evaluation of every model on every split that a time limit has left, and say what it left out."""
    done = _rectangle(found, len(hidden), everywhere)
    if not done:
        raise DataError(f"no model was fitted within {time_limit:g} s; raise the time limit, or evaluate fewer people")
    splits, names = [parts.kind for parts in hidden], [models[model].name for model in everywhere]
    reached = [splits[number] for number in sorted({number for number, _ in done})]
    fitted = [models[number].name for number in sorted({model for _, model in done})]
    left_out = [name for name in names if name not in fitted]
    beside = {place for place in found if place[1] not in everywhere and place[0] in {number for number, _ in done}}
    for kind, wanted in Counter(splits).items():
        missing, title = wanted - reached.count(kind), TITLES[kind].lower()
        if missing:
            left_out.append(title if missing == wanted else f"{missing} of {wanted} repeats of {title}")
    return Evaluation(
        tuple(found[place] for place in (*done, *sorted(beside))),
        tuple(dict.fromkeys(reached)),
        tuple(fitted),
        train_answers,
        drawn,
        unfinished=f"The time limit of {time_limit:g} s left out {', '.join(left_out)}." if left_out else "",
    )


def _rectangle(found: Mapping[tuple[int, int], Any], splits: int, models: Sequence[int]) -> list[tuple[int, int]]:
    """Return the places of whole splits that were finished, of the first as far as it was if none was."""
    whole = [number for number in range(splits) if all((number, model) in found for model in models)]
    if not whole:
        return sorted(place for place in found if place[0] == 0 and place[1] in models)
    return [(number, model) for number in whole for model in models]


def _stages(work: list[tuple[int, int]], models: Sequence[Model]) -> list[list[tuple[int, int]]]:
    """Return the fits in the order in which they need each other's ends: on the first split, simpler models first."""
    first = [job for job in work if job[0] == 0]
    simpler = {model.name: getattr(model, "simpler", "") for model in models}

    def depth(name: str) -> int:
        return 1 + depth(simpler[name]) if simpler[name] in simpler else 0

    depths = {job: depth(models[job[1]].name) for job in first}
    stages = [[job for job in first if depths[job] == level] for level in range(max(depths.values(), default=0) + 1)]
    return [*stages, [job for job in work if job[0] > 0]]


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
    answers = int(min(1.0, 2.0 * share) * len(scan))  # every k-th person: up to twice as many as asked for
    a_process = RUNTIME + 8 * N * d + answers * (BYTES_OF_ROWS + COPIES * bytes_to_lay_out(d))
    work = LocalEngine(jobs).jobs * a_process
    limit = read_memory(memory)
    return MemoryPlan.of_work(scan.n_users, len(scan), work, limit, "evaluation", remedy=", or lower people or jobs")


def _score_in_time(
    items: Array,
    comparisons: Comparisons,
    hidden: list[Split],
    models: Sequence[Model],
    begins: Sequence[Any],
    deadline: float | None,
    job: tuple[int, int],
) -> tuple[Result | CrowdmetricError | None, Any]:
    """Return the same as `_score`, or why the model cannot be fitted; nothing after the deadline, in seconds."""
    if deadline is not None and time() > deadline:
        return None, None
    try:
        return _score(items, comparisons, hidden[job[0]], models[job[1]], begins[job[1]])
    except CrowdmetricError as error:
        return error, None


def _score(items: Array, comparisons: Comparisons, parts: Split, model: Model, begin: Any) -> tuple[Result, Any]:
    """Return one model on one split, and where its fit ended if the next may begin there."""
    train, test = comparisons.take(parts.train), comparisons.take(parts.test)
    clock = process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CrowdmetricWarning)
        fitted: Any = model.fit(items, train, **({} if begin is None else {"begin": begin}))
        right = np.asarray(fitted.probability(_blank(test), comparisons.take(parts.known)), dtype=np.float64)
    if right.shape != (len(test),) or not np.all((right >= 0) & (right <= 1)):
        raise DataError(f"model {model.name!r} must give a probability for each of {len(test)} questions")
    notes = tuple(sorted({str(w.message) for w in caught if issubclass(w.category, CrowdmetricWarning)}))
    for other in caught:  # other models report their own warnings
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
        seconds=process_time() - clock,
        notes=notes,
    )
    return result, getattr(fitted, "end", None)


def _blank(questions: Comparisons) -> Comparisons:
    """Return the questions with every answer +1, so no model can look."""
    return replace(questions, response=np.ones(len(questions)), weight=np.ones(len(questions)))
