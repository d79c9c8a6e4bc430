"""Questions that get better with every answer, against questions that are fixed: people needed for an error.

People arrive as a Poisson stream, answer 1 to 20 seconds late, and one in ten leaves midway. Arms::

    random      random pairs
    fixed       the best fixed design without a guess: the first wave of a live design, kept
    pilot       the same, designed once more after a quarter of the people
    across      LiveDesign as it comes
    within      the same, the next question also depending on a person's own answers
    truth       a fixed design for the true metric, known without doubt and searched for four times as long
    raw         the same, for the raw error instead of that of the shape

Two errors are reported. The *measured* one is that of the fitted metric, which scatters from run to run. The *expected*
one is the first-order error, by the Fisher information under the true metric, of the questions that were answered: it
has no noise of answers, and no help from a ridge. ``--record FILE`` appends one line per run, and ``--read FILE``
prints the table of all runs recorded, so a long benchmark can be run in pieces.

``python -m benchmarks live`` is the quick version; ``python -m benchmarks.live --help`` names its options.
"""

from __future__ import annotations

import argparse
import heapq
import json
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.special import expit

from crowdmetric.design import LiveDesign
from crowdmetric.design.bundles import Population, metric_covariance
from crowdmetric.design.information import errors_of
from crowdmetric.design.learning import learn
from crowdmetric.design.stopping import people_for
from crowdmetric.design.waves import FIRST_ROUNDS, Wave, information_of
from crowdmetric.errors import NotIdentifiedError
from crowdmetric.simulate import sample_metric
from crowdmetric.symmetric import degrees_of_freedom, shape_error

ITEMS = 10_000
TARGETS = (0.10, 0.05)
ARMS = ("random", "fixed", "pilot", "across", "within", "truth", "raw")
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
    if arm in ("truth", "raw"):
        live = Fixed(crowd.items, **told, metric=crowd.metric, doubt=0, random_share=0.0, shape=arm == "truth")
        with patch("crowdmetric.design.waves.FIRST_ROUNDS", 4 * FIRST_ROUNDS):
            live.redesign_if_due()
        return live
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


def expected_error(live: LiveDesign, crowd: Crowd) -> float:
    """Return the expected shape error of the questions answered so far, under the true metric and its people."""
    people = Population(np.zeros(crowd.d), np.eye(crowd.d) / crowd.d, "isotropic")
    information = information_of(live._order(), crowd.metric[None], people, np.random.default_rng(0))[0]
    try:
        return errors_of(metric_covariance(information, degrees_of_freedom(crowd.d)), crowd.metric)[1]
    except NotIdentifiedError:
        return float("inf")


def one_run(arm: str, d: int, m: int, kind: str, people: int, seed: int) -> dict[str, Any]:
    """Return the record of one run: its errors at several numbers of people, and what re-designs cost."""
    clock, crowd = process_time(), Crowd(d, seed, kind)
    live = design_of(arm, crowd, m, people, seed)
    marks = {ceil(x) for x in np.geomspace(max(60, people // 16), people, 7)}
    points, seconds, doubted = [], [], []
    wave = None
    for told in stream(live, crowd, people):
        if live.wave is not None and live.wave is not wave:
            wave = live.wave
            seconds.append(round(wave.seconds, 2))
            doubted += [wave.people] if wave.doubt else []
        if told in marks:
            learned = learn(crowd.items, live.answers_so_far(), "isotropic", 1.0, draw=False)
            points.append((told, shape_error(learned.metric, crowd.metric), expected_error(live, crowd)))
    return {
        "arm": arm, "d": d, "m": m, "crowd": kind, "seed": seed, "points": points, "redesigns": seconds,
        "doubted": doubted, "seconds": round(process_time() - clock, 1),
    }  # fmt: skip


def people_needed(points: np.ndarray, target: float, column: int) -> float:
    """Return how many people an error takes, from points (runs, marks, 3).

    A line in logarithms, through the root mean squares over runs at the four marks that are nearest to the target.
    """
    n, level = np.log(points[0, :, 0]), 0.5 * np.log(np.mean(points[:, :, column] ** 2, axis=0))
    near = np.argsort(np.abs(level - np.log(target)))[:4]
    slope, at_one = np.polyfit(n[near], level[near], 1)
    return float(np.exp((np.log(target) - at_one) / slope)) if slope < 0 else float("inf")


def ratio_of_people(one: dict[int, Any], other: dict[int, Any], target: float, column: int) -> tuple[float, float, int]:
    """Return how many times more people `one` takes, a jackknife standard error of its log, and the number of runs.

    Both are points by seed; only the seeds that both have count.
    """
    both = sorted(set(one) & set(other))
    mine, theirs = np.array([one[k] for k in both]), np.array([other[k] for k in both])

    def log_ratio(chosen: Any) -> float:
        needed = [people_needed(points[chosen], target, column) for points in (mine, theirs)]
        return float(np.log(needed[0] / needed[1]))

    n = len(both)
    without = [log_ratio(np.arange(n) != k) for k in range(n)] if n > 1 else [np.nan]
    return float(np.exp(log_ratio(slice(None)))), float(np.sqrt((n - 1) * np.var(without))), n


def relative_errors(one: dict[int, Any], other: dict[int, Any]) -> str:
    """Return the ratio of measured errors at the last three numbers of people, with standard errors over runs."""
    both = sorted(set(one) & set(other))
    gaps = np.log([[one[k][j][1] / other[k][j][1] for j in (-3, -2, -1)] for k in both])
    each, last = gaps.mean(axis=1), gaps[:, -1]
    said = [f"{np.exp(x.mean()):.2f} (se of log {x.std(ddof=1) / np.sqrt(len(x)):.2f})" for x in (each, last)]
    return f"mean of the last three numbers of people {said[0]}, at the end {said[1]}, {len(both)} runs"


def show(records: list[dict[str, Any]]) -> None:
    """Print errors by number of people, people needed relative to the true metric as guess, and costs."""
    groups: dict[tuple[Any, ...], dict[str, dict[int, Any]]] = {}
    costs: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for r in records:
        key = r["d"], r["m"], r["crowd"], len(r["points"])
        groups.setdefault(key, {}).setdefault(r["arm"], {})[r["seed"]] = r["points"]
        costs.setdefault((*key, r["arm"]), []).append(r)
    for key, arms in groups.items():
        print(f"d = {key[0]}, {key[1]} answers per person, {key[2]} people")
        for arm, runs in arms.items():
            points, spent = np.array(list(runs.values())), costs[(*key, arm)]
            rms = np.sqrt(np.mean(points**2, axis=0))
            shown = ", ".join(f"{n:.0f}: {a:.3f} ({b:.3f})" for n, a, b in rms)
            last = max((r["redesigns"][-1] for r in spent if r["redesigns"]), default=0.0)
            doubted = sum(bool(r["doubted"]) for r in spent)
            print(f"  {arm:<7} {len(runs)} runs, error measured (expected) {shown}; last re-design {last:.1f} CPU s, "
                  f"{np.mean([r['seconds'] for r in spent]):.0f} CPU s per run"
                  + (f", {doubted} runs fell back" if doubted else ""))  # fmt: skip
        for reference in ("truth", "raw", "random"):
            for arm in (a for a in arms if reference in arms and a != reference):
                if key[2] == "gaussian":
                    said = [
                        f"{name} {target:.2f}: {ratio:.2f} (se of log {error:.2f}, {n} runs)"
                        for target in TARGETS
                        for name, column in (("expected", 2), ("measured", 1))
                        for ratio, error, n in [ratio_of_people(arms[arm], arms[reference], target, column)]
                    ]
                    print(f"  people of {arm} / {reference}, " + "; ".join(said))
                elif reference == "random":
                    print(f"  measured error of {arm} / random: {relative_errors(arms[arm], arms['random'])}")
    if CLOCK:
        print(f"a next question within a person takes {1e3 * np.median(CLOCK):.0f} CPU ms (99 %: "
              f"{1e3 * np.quantile(CLOCK, 0.99):.0f})", flush=True)  # fmt: skip


def run_to_the_end(d: int, m: int, within: float, seed: int) -> tuple[Crowd, list[Wave], float]:
    """Return a crowd, the waves of a study of it that stops at an error, and CPU seconds."""
    clock, crowd = process_time(), Crowd(d, seed)
    live, waves = LiveDesign(crowd.items, answers=m, within=within, seed=seed), list[Wave]()
    for _ in stream(live, crowd, 100_000):
        if live.wave is not None and live.learned is not None and (not waves or live.wave is not waves[-1]):
            waves.append(live.wave)
        if live.done():
            break
    return crowd, waves, process_time() - clock


def stopped_run(d: int, m: int, within: float, seed: int) -> dict[str, Any]:
    """Return the record of a study that stops when the metric is known within an error."""
    crowd, waves, seconds = run_to_the_end(d, m, within, seed)
    early, last = min(waves, key=lambda w: abs(w.people - waves[-1].people / 4)), waves[-1]
    assert early.learned is not None
    assert last.learned is not None
    radius = last.learned.radius()
    more = np.concatenate([[0.0], np.geomspace(1.0, 1000.0 * early.people, 25)])
    low, ahead, high = early.radii_ahead(np.array([0.0, last.people - early.people]))[:, 1]
    fewest, needed, most = (people_for(radius, errors, more) for errors in early.radii_ahead(more))
    people = [np.inf if n is None else (early.people + n) / last.people for n in (fewest, needed, most)]

    def held(wave: Wave) -> float:
        assert wave.learned is not None
        low, high = wave.learned.intervals()
        return float(np.mean(((low <= crowd.metric) & (crowd.metric <= high))[np.triu_indices(d)]))

    return {
        "arm": "stop", "d": d, "m": m, "within": within, "seed": seed, "people": last.people, "early": early.people,
        "held": held(last), "held_early": held(early), "error": shape_error(last.learned.metric, crowd.metric),
        "radius": radius, "error_ratio": ahead / radius, "people_ratio": people[1],
        "error_in": bool(low <= radius <= high), "people_in": people[0] <= 1.0 <= people[2], "width": high / low,
        "seconds": round(seconds, 1),
    }  # fmt: skip


def show_stopped(records: list[dict[str, Any]]) -> None:
    """Print what intervals hold when their width decides when to stop, and how true forecasts were."""
    for d, m, within in sorted({(r["d"], r["m"], r["within"]) for r in records}):
        runs = [r for r in records if (r["d"], r["m"], r["within"]) == (d, m, within)]
        people, held, error, radius, early, seconds = (
            np.array([r[name] for r in runs]) for name in ("people", "held", "error", "radius", "held_early", "seconds")
        )
        print(
            f"d = {d}, {m} answers, stopped when within {within:g} with 90 % probability, {len(runs)} runs: "
            f"{people.mean():.0f} people, entries covered {held.mean():.3f} ± {held.std() / np.sqrt(len(runs)):.3f} "
            f"(after a quarter of the people {early.mean():.3f}), shape error {np.sqrt(np.mean(error**2)):.3f}, "
            f"{np.mean(error <= radius):.2f} of runs within what was said, {seconds.mean():.0f} CPU s per run"
        )
        for name in ("error", "people"):
            ratio, inside = (np.array([r[f"{name}_{what}"] for r in runs]) for what in ("ratio", "in"))
            low, middle, high = np.quantile(ratio, [0.25, 0.5, 0.75])
            print(
                f"  {name} forecast after a quarter of the people / what came: median {middle:.2f}, middle half "
                f"{low:.2f} to {high:.2f}, {np.mean(np.abs(ratio - 1) <= 0.2):.2f} of runs within 20 %, "
                f"{inside.mean():.2f} within the 90 % interval"
            )
        print(f"  ends of that interval of the error: a factor {np.median([r['width'] for r in runs]):.2f} apart")


def main(arguments: list[str] | None = None) -> None:
    """Run the arms that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live", description=__doc__)
    parser.add_argument("--dimension", type=int, default=5)
    parser.add_argument("--answers", type=int, default=2)
    parser.add_argument("--people", type=int, default=1000, help="people per arm; random, fixed: twice as many")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="seed of the first run")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS[:-1]))
    parser.add_argument(
        "--crowd", choices=("gaussian", "clusters", "heavy", "utilities", "drift", "careless"), default="gaussian"
    )
    parser.add_argument("--stop", type=float, metavar="X", help="instead: stop at an error, and report coverage")
    parser.add_argument("--record", type=Path, metavar="FILE", help="append one line per run to this file")
    parser.add_argument("--read", type=Path, metavar="FILE", help="instead: print the table of the runs in this file")
    told = parser.parse_args(arguments or [])
    records: list[dict[str, Any]] = []
    if told.read is not None:
        records = [json.loads(line) for line in told.read.read_text().splitlines()]
    else:
        longer = ("random", "fixed") if told.crowd == "gaussian" else ()  # these need more people for the same error
        for seed in range(told.first, told.first + told.runs):
            for arm in ("stop",) if told.stop is not None else told.arms:
                if arm == "stop":
                    records.append(stopped_run(told.dimension, told.answers, told.stop, seed))
                else:
                    people = told.people * (2 if arm in longer else 1)
                    records.append(one_run(arm, told.dimension, told.answers, told.crowd, people, seed))
                if told.record is not None:
                    with told.record.open("a") as file:
                        file.write(json.dumps(records[-1]) + "\n")
    show([r for r in records if r["arm"] != "stop"])
    show_stopped([r for r in records if r["arm"] == "stop"])


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
