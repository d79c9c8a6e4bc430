"""One way in: `design` any kind of questionnaire, and `plan` how many people an error takes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crowdmetric.checks import positive_number, seed_number, whole_number
from crowdmetric.design.guess import guess_about_items, guess_about_space
from crowdmetric.design.matched_questions import matched_from_catalogue, matched_from_generator
from crowdmetric.design.optimal import optimal_questions, random_questions
from crowdmetric.design.question_sources import Catalogue, ItemSource, NewItems
from crowdmetric.design.questionnaire import Questionnaire, names_of
from crowdmetric.design.within import within_questions
from crowdmetric.errors import DataError, NotIdentifiedError
from crowdmetric.inputs import check_items
from crowdmetric.tables import in_order_of

__all__ = ["KINDS", "Plan", "Planned", "design", "plan"]

KINDS = ("optimal", "random", "within", "matched")
# Options that only some kinds use.
ONLY = {
    "criterion": ("optimal",), "rounds": ("optimal",), "subspaces": ("within",), "rank": ("within",),
    "tolerance": ("matched",), "covariance": ("optimal", "random", "within"), "reach": ("optimal", "random", "matched"),
}  # fmt: skip
# Number of people with which planning starts, and the number of corrections.
FIRST_TRY, TRIES = 1000, 6


def design(
    items: ArrayLike | None = None,
    *,
    people: int,
    answers: int = 2,
    kind: str = "optimal",
    dimension: int | None = None,
    metric: ArrayLike | None = None,
    doubt: float | None = None,
    beta: float = 1.0,
    ideal_points: ArrayLike | None = None,
    item_ids: Any = None,
    seed: int = 0,
    **options: Any,
) -> Questionnaire:
    """Return what to ask whom, and the error of the metric to expect.

    Parameters
    ----------
    items
        (N, d) catalogue, or a data frame, which may have ids; None: items are made for the purpose, in `dimension`
        dimensions.
    people, answers
        Number of people, and of questions per person.
    kind : {'optimal', 'random', 'within', 'matched'}
        'optimal'
            The questions that tell most about the metric to PopulationMetric: people are one population.
        'random'
            Random pairs, for PopulationMetric.
        'within'
            Within subspaces, more answers than a subspace has dimensions: nothing need be known of people.
        'matched'
            Parallel questions, for MatchedMetric: nothing need be known of people.
    metric, doubt, beta
        A guess of M (None: a multiple of the identity), how wrong it may be as a share of its size (None: 1 without a
        guess, 0.3 with one; 0 is unsafe), and the sharpness of the answers.
    ideal_points
        (S, d) where people may be; None: scattered like the items.
    item_ids
        What items are called in the table; None: by the ids that `items` has, else by row number.
    seed
        Random seed.
    options
        ``covariance`` ('isotropic' or 'free'; all but matched), ``criterion`` ('A', 'D' or 'E') and ``rounds``
        (optimal), ``subspaces`` and ``rank`` (within), ``tolerance`` (matched, on a catalogue), ``reach`` (how far from
        people's center new items may be).

    Examples
    --------
    >>> from crowdmetric.design import design
    >>> ask = design(dimension=2, people=500, kind="random")
    >>> len(ask), ask.n_people
    (1000, 500)
    """
    if kind not in KINDS:
        raise DataError(f"kind={kind!r} is unknown; use {', '.join(map(repr, KINDS))}")
    for name, value in list(options.items()):
        if name not in ONLY:
            raise DataError(f"{name}={value!r} is unknown; use {', '.join(ONLY)}")
        if value is None:
            del options[name]
        elif kind not in ONLY[name]:
            raise DataError(f"{name}={value!r} has no effect with kind={kind!r}; leave it out")
    people, answers = whole_number(people, "people", 1), whole_number(answers, "answers", 1)
    X = _catalogue(items, dimension, options)
    item_ids = None if X is None else names_of(item_ids, items, len(X))
    given: dict[str, Any] = {"metric": metric, "doubt": doubt, "beta": beta, "ideal_points": ideal_points}
    if kind == "matched":
        given |= options | {"questions": answers, "seed": seed}
        if X is None:
            return matched_from_generator(whole_number(dimension, "dimension", 1), people, **given)
        return matched_from_catalogue(X, people, item_ids=item_ids, **given)
    rng = np.random.default_rng(seed_number(seed, "seed"))
    if X is not None:
        guess = guess_about_items(X, metric, doubt, beta, ideal_points, rng)
        source: ItemSource = Catalogue(X, item_ids)
    else:
        guess = guess_about_space(whole_number(dimension, "dimension", 1), metric, doubt, beta, ideal_points, rng)
        reach = options.pop("reach", None)
        source = NewItems(guess, None if reach is None else positive_number(reach, "reach"))
    if kind == "within":
        if not isinstance(source, Catalogue) or "subspaces" not in options:
            raise DataError(
                "kind='within' needs items and subspaces=, a label for each of them, the bases, or 'discover'"
            )
        subspaces = in_order_of(options.pop("subspaces"), items, "subspaces")
        return within_questions(source, people, answers, guess, subspaces, seed=seed, **options)
    make = optimal_questions if kind == "optimal" else random_questions
    return make(source, people, answers, guess, seed=seed, **options)


def _catalogue(items: ArrayLike | None, dimension: int | None, options: dict[str, Any]) -> np.ndarray | None:
    """Return items as an array, or None if they are to be made."""
    if (items is None) == (dimension is None):
        raise DataError("give either items, to ask about them, or dimension, to make items for the purpose")
    unused = "tolerance" if items is None else "reach"
    if unused in options:
        where = "new items" if items is None else "a catalogue"
        raise DataError(f"{unused}={options[unused]!r} has no effect with {where}; leave it out")
    return None if items is None else check_items(items)


@dataclass(frozen=True)
class Planned:
    """One kind of questionnaire, and how many people it takes.

    Attributes
    ----------
    kind
        Kind of the questionnaire.
    people
        How many are needed; None if no number of people would do.
    expected_error, expected_shape_error
        With that many people; if no number is enough, with the largest number that was tried.
    note
        Why no number is enough, or another remark.

    Examples
    --------
    >>> from crowdmetric.design import plan
    >>> needed = plan(dimension=2, target=0.3, kinds=('random',)).kinds[0]
    >>> needed.kind, needed.expected_error <= 0.3
    ('random', True)
    """

    kind: str
    people: int | None
    expected_error: float
    expected_shape_error: float
    note: str = ""


@dataclass(frozen=True)
class Plan:
    """How many people an error takes, by kind of questionnaire.

    Attributes
    ----------
    target
        The relative error wanted.
    shape
        Whether it is that of the shape, after the best rescaling.
    answers
        Answers per person.
    kinds
        One entry per kind.
    assumptions
        What the numbers rest on.

    Examples
    --------
    >>> from crowdmetric.design import plan
    >>> print(plan(dimension=2, target=0.3, kinds=('random',)).summary().splitlines()[0])
    For a relative error of 0.3 of the metric, with 2 answers per person:
    """

    target: float
    shape: bool
    answers: int
    kinds: tuple[Planned, ...]
    assumptions: str

    def people(self, kind: str) -> int | None:
        """Return how many people a kind of questionnaire takes."""
        return {found.kind: found.people for found in self.kinds}[kind]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, infinite errors as None."""
        found = asdict(self)
        for entry in found["kinds"]:
            entry |= {key: None for key, value in entry.items() if value == float("inf")}
        return found

    def summary(self) -> str:
        """Return the plan in a few lines."""
        what = "the metric up to scale" if self.shape else "the metric"
        lines = [f"For a relative error of {self.target:g} of {what}, with {self.answers} answers per person:"]
        for found in self.kinds:
            if found.people is None:
                lines.append(f"  {found.kind:<8} cannot: {found.note}")
                continue
            error = found.expected_shape_error if self.shape else found.expected_error
            lines.append(
                f"  {found.kind:<8} {found.people:>9,} people, {found.people * self.answers:>10,} answers "
                f"(expected error {error:.3g}){f'; {found.note}' if found.note else ''}"
            )
        lines.append(f"This holds {self.assumptions}; errors fall with the square root of the number of people.")
        return "\n".join(lines)


def plan(
    items: ArrayLike | None = None,
    *,
    target: float = 0.10,
    answers: int = 2,
    kinds: tuple[str, ...] = ("optimal", "random"),
    shape: bool = False,
    **options: Any,
) -> Plan:
    """Return how many people it takes to learn the metric to a relative error.

    Errors are ``√(a²/people + bias²)`` to first order, with a from the Fisher information of a design and the bias from
    its mismatch; so a design for some number of people says how many are needed. The design for that many checks this
    number, because people come in whole numbers.

    Parameters
    ----------
    items, answers, options
        As in `design`.
    target
        The relative error ``‖M̂ − M‖_F/‖M‖_F`` wanted.
    kinds
        Kinds of questionnaires to compare.
    shape
        Whether the error after the best rescaling is meant. The scale of a metric is known only through the noise in
        answers, and often the harder part.

    Examples
    --------
    >>> from crowdmetric.design import plan
    >>> needed = plan(dimension=2, target=0.3, answers=2, kinds=('random',))
    >>> needed.people('random') > 50
    True
    """
    target = positive_number(target, "target")
    for name, value in options.items():
        if value is not None and not set(kinds) & set(ONLY.get(name, KINDS)):
            raise DataError(f"{name}={value!r} has no effect with kinds={', '.join(kinds)}; leave it out")
    found, said = [], ""
    for kind in kinds:
        own = {name: value for name, value in options.items() if kind in ONLY.get(name, KINDS)}
        try:
            planned, said = _people_for(target, shape, items, answers, kind, own)
        except NotIdentifiedError as error:
            planned = Planned(kind, None, float("inf"), float("inf"), str(error))
        found.append(planned)
    return Plan(target, shape, answers, tuple(found), said or "for no kind of questionnaire")


def _people_for(
    target: float, shape: bool, items: ArrayLike | None, answers: int, kind: str, options: dict[str, Any]
) -> tuple[Planned, str]:
    """Return how many people a kind of questionnaire takes, and on what that rests."""
    people, note = FIRST_TRY, ""
    for _ in range(TRIES):
        try:
            ask = design(items, people=people, answers=answers, kind=kind, **options)
        except NotIdentifiedError:
            if people >= 64 * FIRST_TRY:
                raise
            people *= 8
            continue
        error = ask.expected_shape_error if shape else ask.expected_error
        if ask.expected_bias >= target:
            note = f"a bias of {ask.expected_bias:.2g} would remain however many people are asked"
            return Planned(kind, None, ask.expected_error, ask.expected_shape_error, note), ask.assumptions
        # part of the bias is an error of the shape too; counting all of it promises enough people
        scatter = max(error**2 - ask.expected_bias**2, 1e-300)
        needed = max(ceil(people * scatter / (target**2 - ask.expected_bias**2)), 1)
        if 0.95 * target <= error <= target or needed == people:
            break
        people = needed
    fewer = sqrt(ask.n_people / people)
    return Planned(kind, people, fewer * ask.expected_error, fewer * ask.expected_shape_error, note), ask.assumptions
