"""Replay: choose among answers that real people gave, and predict people who were kept out.

``python -m benchmarks.live_replay FOLDER [NAME]``: FOLDER has folders ``jester`` and ``train`` with items.csv and
comparisons.csv.
People come in random order. Of everybody two answers are used: any two, or the two that tell most (of 40 random twos)
under metrics drawn from what the people before have said. A quarter of all people is kept out; what is reported is the
log loss per answer of two answers of each of them, jointly, so the metric matters and not only the average taste.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import process_time

import numpy as np

from crowdmetric.comparisons import Comparisons
from crowdmetric.design.bundles import bundle_rows, log_chances
from crowdmetric.design.exchange import sensitivity
from crowdmetric.design.guess import guess_about_items
from crowdmetric.design.learning import AnswerTable, Learned, learn
from crowdmetric.design.question_sources import Catalogue
from crowdmetric.design.waves import WaveOrder, information_of, thought_possible
from crowdmetric.symmetric import degrees_of_freedom
from crowdmetric.tables import read_items

ANSWERS, TRIED, METRICS, GROWTH = 2, 40, 4, 1.5
SETS = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])


class Replay:
    """One set of answers, people shuffled, a quarter of them kept out."""

    def __init__(self, folder: Path, most: int, seed: int) -> None:
        items = read_items(folder / "items.csv")
        answers = Comparisons.read(folder / "comparisons.csv", items=folder / "items.csv")
        spread = items.features.std(axis=0)
        self.items = (items.features - items.features.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        self.items /= np.sqrt(self.items.shape[1])
        self.source = Catalogue(self.items, items.ids)
        self.answers, rng = answers, np.random.default_rng(seed)
        enough = np.flatnonzero(np.bincount(answers.user) >= 5)
        people = rng.permutation(enough)[:most]
        self.out, self.people = people[: len(people) // 4], people[len(people) // 4 :]
        self.rows = {k: np.flatnonzero(answers.user == k) for k in people}
        self.tested = np.stack([rng.choice(self.rows[k], ANSWERS, replace=False) for k in self.out])

    def table(self, chosen: list[np.ndarray]) -> AnswerTable:
        """Return the answers of rows (m,) of each person."""
        rows = np.concatenate(chosen)
        person = np.repeat(np.arange(len(chosen)), ANSWERS)
        a = self.answers
        return AnswerTable(person, a.pairs[rows], a.response[rows].astype(float), np.ones(len(rows)))

    def loss(self, learned: Learned) -> float:
        """Return the log loss per answer of those kept out, averaged over draws of the metric."""
        vectors = self.items[self.answers.pairs[self.tested]]
        logs = np.stack([log_chances(vectors, M, learned.population, 1.0) for M in learned.some_draws(METRICS)])
        chance = np.exp(logs).mean(axis=0)
        chance /= chance.sum(axis=1, keepdims=True)
        given = np.argmax(self.answers.response[self.tested].astype(float) @ SETS.T, axis=1)
        return -float(np.mean(np.log(np.maximum(chance[np.arange(len(given)), given], 1e-9)))) / ANSWERS

    def run(self, chosen_by_design: bool, seed: int) -> list[tuple[int, float]]:
        """Return (people, log loss) at every look."""
        rng = np.random.default_rng([seed, 1])
        d = self.items.shape[1]
        p, look = degrees_of_freedom(d), max(30, d * d // 4)
        chosen: list[np.ndarray] = []
        learned: Learned | None = None
        guess = guess_about_items(self.items, None, None, 1.0, None, rng)
        possible, crowd = thought_possible(guess, "isotropic", None, METRICS)
        known, found = None, []
        for number, k in enumerate(self.people, start=1):
            tried = np.stack([rng.choice(self.rows[k], ANSWERS, replace=False) for _ in range(TRIED)])
            best = 0
            if chosen_by_design and learned is not None:
                vectors = self.items[self.answers.pairs[tried]]
                rows = np.stack([bundle_rows(vectors, M, crowd, 1.0, rng) for M in possible])
                best = int(np.argmax(sensitivity(rows, np.zeros(TRIED), p, 1.0, known=known).bundles))
            chosen.append(tried[best])
            if number == look or number == len(self.people):
                look = int(GROWTH * look)
                told = self.table(chosen)
                learned = learn(self.items, told, "isotropic", 1.0)
                order = WaveOrder(0, self.source, ANSWERS, "isotropic", 1.0, 0.0, told, np.zeros(len(told), dtype=bool),
                                  None, {}, seed)  # fmt: skip
                possible, crowd = thought_possible(guess, "isotropic", learned, METRICS)
                known = information_of(order, possible, crowd, rng)
                found.append((number, self.loss(learned)))
        return found


def main() -> None:
    """Print the loss by arm and number of people."""
    folder = Path(sys.argv[1])
    for name, most, runs in (("train", 235, 4), ("jester", 500, 2)):
        if sys.argv[2:] not in ([], [name]):
            continue
        clock = process_time()
        arms = {}
        for arm in ("random", "chosen"):
            curves = [Replay(folder / name, most, seed).run(arm == "chosen", seed) for seed in range(runs)]
            arms[arm] = np.mean(np.array(curves)[:, :, 1], axis=0)
        people = [n for n, _ in curves[0]]
        print(f"{name}, {runs} splits ({process_time() - clock:.0f} CPU s)")
        for k, n in enumerate(people):
            random, chosen = arms["random"][k], arms["chosen"][k]
            print(f"  {n:5d} people: random {random:.4f}, chosen {chosen:.4f}, gain {random - chosen:+.4f} nats")


if __name__ == "__main__":
    main()
