"""Questions that get better with every answer, against questions that are fixed: people needed for an error.

People arrive as a Poisson stream, answer 1 to 20 seconds late, and one in ten leaves midway. Arms::

    random      random pairs
    fixed       the best fixed design without a guess: the first wave of a live design, kept
    pilot       the same, designed once more after a quarter of the people
    across      LiveDesign as it comes
    within      the same, the next question also depending on a person's own answers
    truth       a fixed design for the true metric

``python -m benchmarks live`` is the quick version; ``python -m benchmarks.live --help`` names its options.
"""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Iterator
from math import ceil
from time import process_time
from typing import Any

import numpy as np
from scipy.special import expit

from crowdmetric.design import LiveDesign
from crowdmetric.design.learning import learn
from crowdmetric.design.stopping import people_for
from crowdmetric.design.waves import Wave
from crowdmetric.simulate import sample_metric
from crowdmetric.symmetric import shape_error

ITEMS = 10_000
TARGETS = (0.10, 0.05)
ARMS = ("random", "fixed", "pilot", "across", "within", "truth")
# CPU seconds for each next question within a person.
CLOCK: list[float] = []
# Most people at once, seconds that answers are late, and the share that leaves midway.
AT_ONCE, LATE, LEAVE = 30, (1.0, 20.0), 0.1


class Crowd:
    """People with a known metric who answer what they are asked, under one of several disturbances."""

    def __init__(self, d: int, seed: int, kind: str = "gaussian") -> None:
        rng = np.random.default_rng([seed, d])
        self.items = rng.standard_normal((ITEMS, d)) / np.sqrt(d)
        self.metric, self.kind, self.seed, self.d = sample_metric(d, rng), kind, seed, d
        self.centers = rng.standard_normal((3, d)) / np.sqrt(d)
        self.utility = 0.5 * rng.standard_normal(ITEMS) if kind == "utilities" else np.zeros(ITEMS)

    def answers(self, number: int, pairs: np.ndarray) -> tuple[np.ndarray, np.random.Generator]:
        """Return what the person of this number says to pairs (m, 2): the same in every arm."""
        rng = np.random.default_rng([self.seed, self.d, number])
        u = rng.standard_normal(self.d) / np.sqrt(self.d)
        if self.kind == "clusters":
            u = self.centers[rng.integers(3)] + np.sqrt(0.1) * u
        elif self.kind == "heavy":
            u = u / np.sqrt(rng.chisquare(3) / 3.0)
        elif self.kind == "drift":
            u = u + self.centers[0] * min(number / 1000.0, 2.0)
        x, x_ = self.items[pairs[:, 0]], self.items[pairs[:, 1]]
        psi = np.sum(((x - x_) @ self.metric) * (x + x_ - 2.0 * u), axis=1)
        psi -= self.utility[pairs[:, 0]] - self.utility[pairs[:, 1]]
        careless = self.kind == "careless" and rng.random() < 0.05
        chance = np.full(len(pairs), 0.5) if careless else expit(psi)
        return np.where(rng.random(len(pairs)) < chance, 1, -1), rng


class Fixed(LiveDesign):
    """A live design that designs again after some numbers of people only."""

    looks: tuple[int, ...] = ()

    def _next_look(self) -> int:
        later = [n for n in self.looks if self._wave is None or n > self._wave.people]
        return later[0] if later else 10**9


def design_of(arm: str, crowd: Crowd, m: int, people: int, seed: int) -> LiveDesign:
    """Return the design of an arm."""
    told: dict[str, Any] = {"answers": m, "seed": seed}
    if arm in ("across", "within"):
        return LiveDesign(crowd.items, **told, adapt=arm)
    if arm == "truth":
        return Fixed(crowd.items, **told, metric=crowd.metric, random_share=0.0)
    live = Fixed(crowd.items, **told, random_share=1.0 if arm == "random" else 0.0)
    live.looks = (people // 4,) if arm == "pilot" else ()
    if arm == "random":
        live.redesign_if_due = lambda: False  # type: ignore[method-assign]  # nothing is designed
    return live


def stream(live: LiveDesign, crowd: Crowd, people: int) -> Iterator[int]:
    """Ask and tell as people come and go; yield the number of people who have answered, after each."""
    rng = np.random.default_rng([crowd.seed, 5])
    waiting: list[tuple[float, int, list[Any]]] = []
    now, told = 0.0, 0
    for number in range(people):
        now += rng.exponential(np.mean(LATE) / AT_ONCE)
        while waiting and waiting[0][0] <= now:
            _, who, answers = heapq.heappop(waiting)
            live.tell(who, answers)
            told += 1
            yield told
        pairs = np.array(live.ask(number).pairs)
        if live.adapt == "within":
            pairs = one_by_one(live, crowd, number)
        y, own = crowd.answers(number, pairs)
        kept = int(own.integers(1, len(pairs))) if len(pairs) > 1 and own.random() < LEAVE else len(pairs)
        answers = [(a, b, int(c)) for (a, b), c in zip(pairs[:kept].tolist(), y[:kept], strict=True)]
        heapq.heappush(waiting, (now + rng.uniform(*LATE), number, answers))
    for _, who, answers in sorted(waiting):
        live.tell(who, answers)
        told += 1
        yield told


def one_by_one(live: LiveDesign, crowd: Crowd, number: int) -> np.ndarray:
    """Return the pairs (m, 2) that a person is asked one after another, by their own answers."""
    pairs: list[Any] = []
    for _ in range(live.answers):
        y, _ = crowd.answers(number, np.array(pairs).reshape(-1, 2)) if pairs else ([], None)
        clock = process_time()
        pairs.append(live.next_question(number, [(*pair, int(c)) for pair, c in zip(pairs, y, strict=True)]))
        if len(pairs) > 1:
            CLOCK.append(process_time() - clock)
    return np.array(pairs)


def error_curve(arm: str, crowd: Crowd, m: int, people: int, seed: int) -> tuple[np.ndarray, LiveDesign]:
    """Return (number of people, shape error) at several moments, and the design as it ended."""
    live = design_of(arm, crowd, m, people, seed)
    marks = {ceil(x) for x in np.geomspace(max(60, people // 16), people, 6)}
    points, learned = [], None
    for told in stream(live, crowd, people):
        if told in marks:
            learned = learn(crowd.items, live.answers_so_far(), "isotropic", 1.0, learned, draw=False)
            points.append((told, shape_error(learned.metric, crowd.metric)))
    return np.array(points), live


def people_needed(curves: list[np.ndarray], target: float) -> float:
    """Return how many people an error takes: a line through root mean squares in logarithms."""
    n, squares = curves[0][:, 0], np.mean([c[:, 1] ** 2 for c in curves], axis=0)
    slope, level = np.polyfit(np.log(n[-4:]), 0.5 * np.log(squares[-4:]), 1)
    return float(np.exp((np.log(target) - level) / slope)) if slope < 0 else float("inf")


def run_to_the_end(d: int, m: int, within: float, seed: int) -> tuple[Crowd, list[Wave]]:
    """Return a crowd and the waves of a study of it that stops when the metric is known within an error."""
    crowd = Crowd(d, seed)
    live, waves = LiveDesign(crowd.items, answers=m, within=within, seed=seed), []
    for _ in stream(live, crowd, 100_000):
        if live.wave is not None and live.learned is not None and (not waves or live.wave is not waves[-1]):
            waves.append(live.wave)
        if live.done():
            break
    return crowd, waves


def stopped(d: int, m: int, within: float, runs: int, first: int = 0) -> None:
    """Print what intervals hold when their width decides when to stop, and how true forecasts were."""
    found = []
    for seed in range(first, first + runs):
        crowd, waves = run_to_the_end(d, m, within, seed)
        early, last = min(waves, key=lambda w: abs(w.people - waves[-1].people / 4)), waves[-1]
        assert last.learned is not None
        low, high = last.learned.intervals()
        held = np.mean(((low <= crowd.metric) & (crowd.metric <= high))[np.triu_indices(d)])
        error, final = shape_error(last.learned.metric, crowd.metric), last.learned.radius()
        more = np.concatenate([[0.0], np.geomspace(1.0, 1000.0 * early.people, 25)])
        ahead = early.radii_ahead(np.array([0.0, last.people - early.people]))[1]
        needed = people_for(final, early.radii_ahead(more), more)
        people = float("inf") if needed is None else (early.people + needed) / last.people
        found.append((last.people, held, error, error <= final, ahead / final, people))
        print(
            f"  run {seed}: {last.people} people, {held:.2f} of entries covered, shape error {error:.3f}; forecast "
            f"after {early.people}: {ahead / final:.2f} times the error, {people:.2f} times the people", flush=True
        )  # fmt: skip
    people, held, error, inside, *ratios = np.array(found).T
    print(
        f"d = {d}, stopped when within {within:g} with 90 % probability, {runs} runs: {people.mean():.0f} people, "
        f"entries covered {held.mean():.3f} ± {held.std() / np.sqrt(runs):.3f}, shape error "
        f"{np.sqrt(np.mean(error**2)):.3f}, {inside.mean():.2f} of runs within what was said", flush=True
    )  # fmt: skip
    for name, ratio in zip(("error", "number of people"), ratios, strict=True):
        low, middle, high = np.quantile(ratio, [0.25, 0.5, 0.75])
        print(
            f"  {name} forecast after a quarter of the people over what came: median {middle:.2f}, middle half "
            f"{low:.2f} to {high:.2f}, {np.mean(np.abs(ratio - 1) <= 0.2):.2f} within 20 %", flush=True
        )  # fmt: skip


def compare(d: int, m: int, people: dict[str, int], runs: int, kind: str, first: int = 0) -> None:
    """Print people needed by arm, and what a re-design costs."""
    print(f"d = {d}, {m} answers per person, {kind} people, {runs} runs", flush=True)
    needed: dict[str, list[float]] = {}
    for arm, most in people.items():
        clock, curves, waves = process_time(), [], []
        for seed in range(first, first + runs):
            curve, live = error_curve(arm, Crowd(d, seed, kind), m, most, seed)
            curves.append(curve)
            if live.wave is not None:
                waves.append(live.wave.seconds)
        needed[arm] = [people_needed(curves, target) for target in TARGETS]
        errors = np.sqrt(np.mean([c[:, 1] ** 2 for c in curves], axis=0))
        shown = ", ".join(f"{int(n)}: {e:.3f}" for n, e in zip(curves[0][:, 0], errors, strict=True))
        print(
            f"  {arm:<8} .10 at {needed[arm][0]:7.0f} people, .05 at {needed[arm][1]:7.0f}; errors {shown}; last "
            f"re-design {max(waves, default=0):.1f} CPU s ({process_time() - clock:.0f} in all)", flush=True
        )  # fmt: skip
    if CLOCK:
        print(f"  a next question within a person takes {1e3 * np.median(CLOCK):.0f} CPU ms (99 %: "
              f"{1e3 * np.quantile(CLOCK, 0.99):.0f})", flush=True)  # fmt: skip
    for k, target in enumerate(TARGETS):
        if "truth" in needed:
            ratios = ", ".join(f"{arm} {needed[arm][k] / needed['truth'][k]:.2f}" for arm in needed)
            print(f"  people for {target:.2f}, relative to the true metric as guess: {ratios}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Run the arms that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live", description=__doc__)
    parser.add_argument("--dimension", type=int, default=5)
    parser.add_argument("--answers", type=int, default=2)
    parser.add_argument("--people", type=int, default=1000, help="people per arm; random, fixed: twice as many")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="seed of the first run")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument(
        "--crowd", choices=("gaussian", "clusters", "heavy", "utilities", "drift", "careless"), default="gaussian"
    )
    parser.add_argument("--stop", type=float, metavar="X", help="instead: stop at an error, and report coverage")
    told = parser.parse_args(arguments or [])
    if told.stop is not None:
        stopped(told.dimension, told.answers, told.stop, told.runs, told.first)
        return
    longer = ("random", "fixed") if told.crowd == "gaussian" else ()  # these need more people for the same error
    people = {arm: told.people * (2 if arm in longer else 1) for arm in told.arms}
    compare(told.dimension, told.answers, people, told.runs, told.crowd, told.first)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
