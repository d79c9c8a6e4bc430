"""`LiveDesign`: questions that get better with every answer.

People come one after another. Each gets one bundle from a queue (`waves`), and what is in the queue depends on *other*
people's answers only: a person's questions are fixed before their first answer. Their ideal point is therefore
independent of their questions, which is what `PopulationMetric` assumes, what `question_bias_` tests, and what
`MatchedMetric` conditions on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdmetric.checks import one_of, positive_number, seed_number, share_of_one, true_or_false, whole_number
from crowdmetric.design.adaptive import best_next_pair
from crowdmetric.design.guess import guess_about_items
from crowdmetric.design.kinds import KINDS, source_of
from crowdmetric.design.learning import AnswerTable, Learned
from crowdmetric.design.live_file import LiveState, read_state, write_state
from crowdmetric.design.questionnaire import names_of
from crowdmetric.design.stopping import Forecast, Settled, Stop, always_valid, log_ratios, people_for
from crowdmetric.design.waves import Wave, WaveOrder, next_wave
from crowdmetric.errors import DataError
from crowdmetric.inputs import check_items
from crowdmetric.symmetric import smat
from crowdmetric.tables import in_order_of
from crowdmetric.users.population_sums import STRUCTURES

__all__ = ["Asked", "LiveDesign"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Pair = tuple[Any, Any]

# The first fit is made with this many answers per parameter, the next ones each time the number of people has grown by
# this factor.
ANSWERS_PER_PARAMETER, GROWTH = 2.0, 1.4
# Minimum number of people for the first fit.
FEWEST_PEOPLE = 20
# Accepted names of a choice and its y: −1 if the left item is preferred. A tie is half an answer for each side.
CHOICES = {"left": (-1.0,), "right": (1.0,), -1: (-1.0,), 1: (1.0,), "tie": (-1.0, 1.0), 0: (-1.0, 1.0)}
SKIPPED = (None, "", "skip")
OWN_ANSWERS = (
    "Later questions depend on a person's own answers: fit them with PopulationMetric(adaptive=True), whose test for "
    "questions chosen near people's ideal points does not apply."
)
# Largest forecast, in people for each who has come.
FARTHEST = 1000.0


@dataclass(frozen=True)
class Asked:
    """What one person is asked.

    Attributes
    ----------
    person
        Who.
    pairs
        Left and right, by item id, in the order of asking.
    purpose : {'designed', 'random'}
        Chosen by the design, or at random for evaluation and safety.
    wave
        The number of the wave that it comes from.
    propensity
        The chance with which this person was given this purpose: what weights of an evaluation need.
    """

    person: str
    pairs: tuple[Pair, ...]
    purpose: str
    wave: int
    propensity: float

    def __iter__(self) -> Iterator[Pair]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, question: int) -> Pair:
        return self.pairs[question]


class LiveDesign:
    """Ask, learn, and ask better.

    Parameters
    ----------
    items : (N, d) array
        The catalogue.
    answers : int, default 2
        Questions per person.
    kind : {'optimal', 'within', 'matched'}, default 'optimal'
        'optimal': any pairs. 'within': all questions of a person lie in one of `subspaces`, so that StitchedMetric can
        learn from them too; 'matched': they come in parallel pairs, for MatchedMetric. Which subspace or parallelogram
        is for whom is then chosen, and random people get random ones.
    subspaces, rank
        With 'within', as in `design`: a label for each item, bases, or 'discover'.
    tolerance : float, default 0.2
        With 'matched': the largest difference of parallel questions, relative to their length.
    item_ids : optional
        What items are called; row numbers by default.
    random_share : float, default 0.1
        Share of people who get random pairs: to evaluate on, and to be safe.
    within : float, default 0.10
        The study is done when the metric is within this relative error with 90 % probability.
    shape : bool, default True
        Whether that is meant up to scale. The scale is known only through the noise in answers. Questions are chosen
        accordingly: they find the shape with far fewer people, and the scale a little worse.
    settle : ((id, id), (id, id)), optional
        Stop instead when it is known which of two distances is larger.
    budget : int, optional
        Number of people after whom it is done anyway.
    covariance, beta
        As PopulationMetric will be told.
    metric, doubt, ideal_points
        A guess to begin with, as in `design`.
    adapt : {'across', 'within'}, default 'across'
        'across': a person's questions depend on other people's answers only. 'within': `next_question` also looks at
        the person's own earlier answers, which tells more, and rests everything on the Gaussian law of people. Fit such
        answers with ``PopulationMetric(adaptive=True)``; MatchedMetric and StitchedMetric do not apply to them.
    executor : concurrent.futures.Executor, optional
        Where re-designs run, for instance a ProcessPoolExecutor(1): `ask` then never waits, and takes questions from
        the last queue (before the first one: random questions) until the next is there. `wait` waits for it. None: a
        re-design runs inside `ask`, and what is asked depends on the seed and the order of calls only.
    seed : int, default 0
        Random seed.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.design import LiveDesign
    >>> live = LiveDesign(np.random.default_rng(0).standard_normal((50, 2)), answers=1, seed=1)
    >>> asked = live.ask("ada")
    >>> live.tell("ada", [(left, right, "left") for left, right in asked])
    >>> live.people
    1
    >>> live.done()
    Stop(done=False, reason='nothing has been learned yet')
    >>> live.forecast().more_people is None
    True
    """

    def __init__(
        self,
        items: ArrayLike,
        *,
        answers: int = 2,
        kind: str = "optimal",
        subspaces: Any = None,
        rank: int | None = None,
        tolerance: float = 0.2,
        item_ids: Any = None,
        random_share: float = 0.1,
        within: float = 0.10,
        shape: bool = True,
        settle: tuple[Pair, Pair] | None = None,
        budget: int | None = None,
        covariance: str = "isotropic",
        beta: float = 1.0,
        metric: ArrayLike | None = None,
        doubt: float | None = None,
        ideal_points: ArrayLike | None = None,
        adapt: str = "across",
        executor: Executor | None = None,
        seed: int = 0,
    ) -> None:
        self.items = check_items(items)
        self.item_ids = names_of(item_ids, items, len(self.items))
        self._row = {str(name): row for row, name in enumerate(self.item_ids.tolist())}
        self.answers = whole_number(answers, "answers", 1)
        self.random_share = share_of_one(random_share, "random_share")
        self.within, self.shape = positive_number(within, "within"), true_or_false(shape, "shape")
        self.settle = settle
        self._compared = None if settle is None else self._differences(settle)
        self.budget = None if budget is None else whole_number(budget, "budget", 1)
        self.covariance = one_of(covariance, "covariance", tuple(STRUCTURES))
        self.beta, self.seed = positive_number(beta, "beta"), seed_number(seed, "seed")
        self.adapt = one_of(adapt, "adapt", ("across", "within"))
        self._guess = {"metric": metric, "doubt": doubt, "ideal_points": ideal_points}
        self.kind, self.tolerance = one_of(kind, "kind", KINDS), positive_number(tolerance, "tolerance")
        if self.adapt == "within" and self.kind != "optimal":
            raise DataError(
                f"adapt='within' has no use with kind={kind!r}, whose estimators do not apply to questions that depend "
                "on a person's own answers; leave one of them out"
            )
        labels = in_order_of(subspaces, items, "subspaces")
        self._source, self.subspaces, self.rank = source_of(
            self.kind, self.items, self.item_ids, self.answers, labels, rank, self.tolerance, self.seed
        )
        # a wrong guess is told now: a re-design that fails later does not end a study
        guess_about_items(self.items, metric, doubt, self.beta, ideal_points, np.random.default_rng(self.seed))
        if executor is not None and not callable(getattr(executor, "submit", None)):
            raise DataError(f"executor={executor!r} is no executor; give one of concurrent.futures, or leave it out")
        self._state = LiveState.empty()
        self._wave: Wave | None = None
        self._executor = executor
        self._running: Future[Wave] | None = None
        # why the last re-design failed, and with how many people it is tried again
        self._failure, self._retry = "", 0

    # ------------------------------------------------------------------------------------------------- ask and tell

    def ask(self, person: Any = None) -> Asked:
        """Return the questions for a person; the same ones if they were asked before. None: somebody new."""
        state = self._state
        name = f"person {len(state.asked) + 1}" if person is None else str(person)
        if name not in state.asked:
            self.redesign_if_due()
            number = len(state.asked)
            rng = np.random.default_rng([self.seed, 0, number])
            share = 1.0 if self._wave is None or self._wave.doubt else self.random_share
            is_random = bool(rng.random() < share)
            wave = -1 if self._wave is None else self._wave.number
            bundle = self._source.draw(1, self.answers, rng)[0] if is_random else self._from_queue()
            shown = rng.permutation(rng.permuted(bundle, axis=1))
            state.asked[name] = (shown, is_random, wave, share if is_random else 1.0 - share)
        shown, is_random, wave, propensity = state.asked[name]
        pairs = tuple((self.item_ids[a].item(), self.item_ids[b].item()) for a, b in shown)
        return Asked(name, pairs, "random" if is_random else "designed", wave, propensity)

    def tell(self, person: Any, answers: Sequence[Any]) -> None:
        """Take in a person's answers: late, out of order or incomplete; a second time they replace the first.

        Parameters
        ----------
        answers
            (left, right, choice) each, items by their ids; choice is 'left', 'right' or 'tie' (or −1, 1, 0), and None
            or 'skip' where there is none.
        """
        name, told = str(person), []
        if isinstance(answers, str) or not isinstance(answers, Iterable):
            raise DataError(f"answers={answers!r} of {name} are no answers; give a list of (left, right, choice)")
        for left, right, choice in map(self._read, answers):
            if choice not in SKIPPED:
                told += [(left, right, y, 1.0 / len(CHOICES[choice])) for y in CHOICES[choice]]
        if told:
            self._state.told[name] = told
            self._state.fresh.add(name)
        else:
            self._state.told.pop(name, None)

    def next_question(self, person: Any, answers: Sequence[Any] = ()) -> Pair | None:
        """Return the next question for a person who has given some answers; None after the last.

        With ``adapt='across'`` it is the next of their bundle. With 'within' it is chosen by their answers, except for
        those who are asked at random.
        """
        asked = self.ask(person)
        told = [(left, right, choice) for left, right, choice in map(self._read, answers)]
        if len(told) >= self.answers:
            return None
        shown, is_random, _, _ = self._state.asked[asked.person]
        y = [CHOICES[choice][0] for _, _, choice in told if choice in CHOICES and len(CHOICES[choice]) == 1]
        fixed = self.adapt == "across" or is_random or self.learned is None or not told or len(y) < len(told)
        left, right = shown[len(told)]
        if not fixed:
            assert self._wave is not None
            # the same question if it is asked for again: it depends on the person's place and number of answers
            rng = np.random.default_rng([self.seed, 4, list(self._state.asked).index(asked.person), len(told)])
            pairs = np.array([(left, right) for left, right, _ in told], dtype=np.intp)
            planned = shown[len(told) :]
            chosen = best_next_pair(
                self._source, self._wave, pairs, np.array(y), planned, self.beta, rng, shape=self.shape
            )
            left, right = rng.permuted(chosen)
        return self.item_ids[left].item(), self.item_ids[right].item()

    def redesign_if_due(self) -> bool:
        """Take up a re-design that is ready, or begin one that is due; return whether the questions have changed."""
        if self._running is not None and self._running.done():
            ready, self._running = self._running, None
            return self._start_wave(ready.result)
        if self._running is not None or not self._is_due():
            return False
        order = self._order()
        self._state.fresh.clear()
        if self._executor is None:
            return self._start_wave(partial(next_wave, order))
        self._running = self._executor.submit(next_wave, order)
        return False

    def wait(self, seconds: float | None = None) -> bool:
        """Begin a re-design if it is due, wait for it and take it up; return whether the questions have changed.

        `seconds` is the longest wait; None: as long as it takes. Without an executor there is nothing to wait for.
        """
        changed = self.redesign_if_due()
        if self._running is not None and wait([self._running], seconds).done:
            changed |= self.redesign_if_due()
        return changed

    @property
    def people(self) -> int:
        """How many people have told something."""
        return len(self._state.told)

    @property
    def wave(self) -> Wave | None:
        """The questions that are being asked, and what they rest on."""
        return self._wave

    @property
    def learned(self) -> Learned | None:
        """What was learned when questions were last chosen."""
        return None if self._wave is None else self._wave.learned

    def _is_due(self) -> bool:
        return self.people >= self._retry and (self._wave is None or self.people >= self._next_look())

    def _next_look(self) -> int:
        """Return with how many people questions are chosen again."""
        parameters = STRUCTURES[self.covariance].layout(self.items.shape[1]).size
        first = max(FEWEST_PEOPLE, ceil(ANSWERS_PER_PARAMETER * parameters / self.answers))
        if self._wave is None or self._wave.learned is None:
            return first
        looked, more = self._wave.people, self.forecast().more_people
        usual = ceil(GROWTH * looked)
        # not far beyond the end, and not again immediately; no sooner than usual after the end
        return usual if not more else min(usual, max(looked + more, looked + ceil(0.05 * looked)))

    def _order(self) -> WaveOrder:
        told = self.answers_so_far()
        names = list(self._state.told)
        fresh = np.array([name in self._state.fresh for name in names], dtype=np.bool_)
        return WaveOrder(
            number=0 if self._wave is None else self._wave.number + 1, source=self._source,
            answers=self.answers, covariance=self.covariance, beta=self.beta, random_share=self.random_share, told=told,
            new=fresh[told.person] if len(told) else np.zeros(0, dtype=np.bool_), before=self._wave, guess=self._guess,
            seed=self.seed, shape=self.shape,
        )  # fmt: skip

    def answers_so_far(self) -> AnswerTable:
        """Return all answers so far, people in the order in which they were told of first."""
        rows = [(k, *row) for k, rows in enumerate(self._state.told.values()) for row in rows]
        table = np.array(rows, dtype=float).reshape(-1, 5)
        person, pairs = table[:, 0].astype(np.intp), table[:, 1:3].astype(np.intp)
        return AnswerTable(person, pairs, table[:, 3], table[:, 4])

    def _start_wave(self, make: Callable[[], Wave]) -> bool:
        """Start a new wave. If it fails, the study goes on with the questions it has and tries again later."""
        try:
            wave = make()
        except (ArithmeticError, ValueError) as error:
            self._failure, self._retry = str(error), ceil(GROWTH * max(self.people, FEWEST_PEOPLE))
            return False
        self._wave, self._failure = wave, ""
        state = self._state
        places = np.repeat(np.arange(len(wave.counts)), wave.counts)
        state.queue = np.random.default_rng([self.seed, 2, wave.number]).permutation(places)
        state.served = 0
        settled = self._settled_now()
        if settled is not None and state.rho is None:
            state.rho = 1.0 / max(settled[1], 1e-300)
        if wave.learned is not None:
            state.forecasts.append(self._forecast(wave))
        return True

    def _from_queue(self) -> Indices:
        assert self._wave is not None
        state = self._state
        place = state.queue[state.served % len(state.queue)]
        state.served += 1
        bundle: Indices = self._wave.bundles[place]
        return bundle

    # ------------------------------------------------------------------------------------------------- the end

    def forecast(self) -> Forecast:
        """Return how well the metric was known at the last look, and how many more people it takes."""
        if self._state.forecasts:
            return self._state.forecasts[-1]
        return Forecast(self.people, float("inf"), self.within, None)

    def _forecast(self, wave: Wave) -> Forecast:
        more = np.concatenate([[0.0], np.geomspace(1.0, FARTHEST * wave.people, 25)])
        low, errors, high = wave.radii_ahead(more, shape=self.shape)
        known = not np.isnan(low[-1])
        needed = people_for(self.within, errors, more)
        at_budget = around = None
        if self.budget is not None:
            left = max(self.budget - wave.people, 0)
            least, at_budget, most = wave.radii_ahead(np.array([0.0, left]), shape=self.shape)[:, 1].tolist()
            around = (least, most) if known else None
        return Forecast(
            wave.people, float(errors[0]), self.within, needed, at_budget,
            (people_for(self.within, low, more), people_for(self.within, high, more)) if known else None, around,
        )  # fmt: skip

    def settled(self) -> Settled | None:
        """Return the comparison named by `settle` at the last look, with an interval that holds at all looks."""
        now = self._settled_now()
        if now is None or self._state.rho is None:
            return None
        return always_valid(*now, self._state.rho)

    def _settled_now(self) -> tuple[float, float] | None:
        """Return the estimate and the variance of the log ratio of the two distances."""
        learned = self.learned
        if self._compared is None or learned is None:
            return None
        one, other = self._compared
        draws = log_ratios(np.stack([smat(m) for m in learned.draws]), one, other)
        return float(log_ratios(learned.metric[None], one, other)[0]), float(np.var(draws))

    def done(self) -> Stop:
        """Return whether the study is over, and why; it is false where it is not."""
        if self.budget is not None and len(self._state.asked) >= self.budget:
            return Stop(True, f"the budget of {self.budget:,} people is used up")
        if self.learned is None:
            return Stop(False, "nothing has been learned yet")
        if self.settle is not None:
            found = self.settled()
            if found is not None and found.is_settled:
                larger, smaller = self.settle if found.estimate > 0 else self.settle[::-1]
                return Stop(True, f"{larger[0]} and {larger[1]} are farther apart than {smaller[0]} and {smaller[1]}")
            return Stop(False, "it is not known yet which of the two distances is larger")
        error = self.forecast().error
        if error <= self.within:
            return Stop(True, f"the metric is within {error:.1%} with 90 % probability, {self.within:.0%} was wanted")
        return Stop(False, f"the metric is within {error:.1%} with 90 % probability, {self.within:.0%} is wanted")

    def summary(self) -> str:
        """Return where the study stands, in a few sentences."""
        state, wave = self._state, self._wave
        at_random = sum(is_random for _, is_random, _, _ in state.asked.values())
        lines = [
            f"{len(state.asked):,} people were asked {self.answers} questions each, {at_random:,} of them at random; "
            f"{self.people:,} have answered."
        ]
        if self._failure:
            lines.append(f"The last choice of questions failed ({self._failure}); the earlier questions go on.")
        if wave is None:
            return "\n".join([*lines, "No questions were designed yet."])
        lines.append(
            f"Questions were chosen {wave.number + 1} times, last from the answers of {wave.people:,} people "
            f"({len(wave.bundles):,} different sets, {wave.seconds:.0f} CPU s). "
            + ("Nobody's questions depend on their own answers." if self.adapt == "across" else OWN_ANSWERS)
        )
        if wave.doubt:
            lines.append(f"The design has fallen back: {wave.doubt}.")
        lines.append(self.forecast().summary())
        if len(state.forecasts) > 1 and state.forecasts[0].more_people is not None:
            first = state.forecasts[0]
            lines.append(f"The first forecast, after {first.people:,} people, was {first.more_people_said()}.")
        lines.append(f"Done: {self.done().reason}." if self.done() else f"Not done: {self.done().reason}.")
        return "\n".join(lines)

    @property
    def forecasts(self) -> tuple[Forecast, ...]:
        """Every forecast that was made, in order: the record by which to judge the next."""
        return tuple(self._state.forecasts)

    # ------------------------------------------------------------------------------------------------- save and resume

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything but the items to one file; a re-design that is running is not waited for."""
        write_state(path, self._options(), replace(self._state), self._wave, self.items, self.item_ids)

    @classmethod
    def resume(
        cls, path: str | os.PathLike[str], items: ArrayLike, *, item_ids: Any = None, executor: Executor | None = None
    ) -> Self:
        """Return a design as it was saved; the items and their ids must be the same."""
        X = check_items(items)
        options, state, wave = read_state(path, X, names_of(item_ids, items, len(X)))
        live = cls(items, item_ids=item_ids, executor=executor, **options)
        live._state, live._wave = state, wave
        return live

    def _options(self) -> dict[str, Any]:
        names = (
            "answers", "kind", "rank", "tolerance", "random_share", "within", "shape", "settle", "budget", "covariance",
            "beta", "adapt", "seed",
        )  # fmt: skip
        lists = self._guess | {"subspaces": self.subspaces}
        return {name: getattr(self, name) for name in names} | {
            name: None if value is None else np.asarray(value).tolist() for name, value in lists.items()
        }

    # ------------------------------------------------------------------------------------------------- what is given

    def _read(self, entry: Any) -> tuple[int, int, Any]:
        """Return the rows of two different items, and the choice."""
        try:
            left, right, choice = entry
        except (TypeError, ValueError):
            raise DataError(f"an answer is {entry!r}, but (left, right, choice) was expected") from None
        choice = choice.item() if isinstance(choice, np.generic) else choice
        if choice not in (*SKIPPED, *CHOICES):
            raise DataError(f"choice={choice!r} is unknown; use 'left', 'right', 'tie' or None")
        if self._row_of(left) == self._row_of(right):
            raise DataError(f"item {left!r} is compared with itself, but two different items were expected")
        return self._row_of(left), self._row_of(right), choice

    def _row_of(self, name: Any) -> int:
        row = self._row.get(str(name))
        if row is None:
            raise DataError(f"item {name!r} is not in the catalogue; give items by their ids")
        return row

    def _differences(self, settle: Any) -> tuple[Array, Array]:
        """Return the two differences of items whose lengths are compared."""
        try:
            (a, b), (c, e) = settle
        except (TypeError, ValueError):
            raise DataError(f"settle={settle!r} was given, but ((id, id), (id, id)) was expected") from None
        (left, right, _), (other, opposite, _) = self._read((a, b, None)), self._read((c, e, None))
        if {left, right} == {other, opposite}:
            raise DataError(f"settle={settle!r} compares a distance with itself; give two different pairs of items")
        return self.items[left] - self.items[right], self.items[other] - self.items[opposite]
