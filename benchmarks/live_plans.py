"""With the metric known and two answers per person: what questions for the shape gain, and what one's own answer gains.

``python -m benchmarks.live_plans DIMENSION ITEMS SEED...``. The best fixed designs, with an error of the metric's size
counted fully, a fifth and not at all, and their expected errors times the root of the number of people. Then, with the
size counted a fifth, how many times fewer people take

    plans     a first question and a second one for each answer to it, shares of people chosen for whole plans
    the rule  the best fixed design, in which the second question is chosen again by the first answer (`adaptive`)
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np

from crowdmetric.design.adaptive import best_next_pair
from crowdmetric.design.bundles import Population, bundle_rows, metric_covariance
from crowdmetric.design.exchange import CRITERIA, weighted_information
from crowdmetric.design.information import errors_of
from crowdmetric.design.optimal import FoundBundles, search_bundles, size_of_search
from crowdmetric.design.question_sources import Catalogue
from crowdmetric.design.waves import SIZE_COUNTS, size_in_units
from crowdmetric.simulate import sample_metric
from crowdmetric.symmetric import degrees_of_freedom

ROUNDS = 40


class Study:
    """Items, people, and a metric that is known."""

    def __init__(self, d: int, items: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.metric = sample_metric(d, self.rng)
        self.source = Catalogue(self.rng.standard_normal((items, d)) / np.sqrt(d), np.arange(items))
        self.people, self.p = Population(np.zeros(d), np.eye(d) / d, "isotropic"), degrees_of_freedom(d)

    def fixed(self, bundles: np.ndarray) -> np.ndarray:
        """Return the rows of bundles of two questions."""
        return bundle_rows(self.source.vectors(bundles), self.metric, self.people, 1.0, self.rng)

    def plans(self, plans: np.ndarray) -> np.ndarray:
        """Return the rows of plans (C, 3, 2): the first question, the second after −1, and the second after +1."""
        return np.concatenate([self.fixed(plans[:, [0, 1]])[:, :2], self.fixed(plans[:, [0, 2]])[:, 2:]], axis=1)

    def search(self, rows_of: Any, first: np.ndarray, size_counts: float) -> FoundBundles:
        """Return the best shares of people; the rows are in units in which the size counts that much."""
        T = size_in_units(self.metric[None], 1.0 / size_counts, self.people.natural(self.metric).size)[0]
        return search_bundles(
            self.source, lambda bundles, _=None: (rows_of(bundles) @ T)[None], first, self.p, CRITERIA["A"], self.rng,
            variations=size_of_search(2, self.p)[1], rounds=ROUNDS,
        )  # fmt: skip

    def errors(self, information: np.ndarray) -> tuple[float, float]:
        """Return the raw and the shape error of one person."""
        return errors_of(metric_covariance(information, self.p), self.metric)

    def people_for(self, information: np.ndarray) -> float:
        """Return what a design is chosen by: people needed, up to a factor."""
        raw, shape = self.errors(information)
        return shape**2 + SIZE_COUNTS**2 * (raw**2 - shape**2)

    def told_by(self, rows: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Return the information per person."""
        return weighted_information(rows[None], shares)[0]

    def by_the_rule(self, found: FoundBundles) -> np.ndarray:
        """Return the information per person if the second question, either one, is chosen again by `adaptive`."""
        told = self.told_by(self.fixed(found.bundles), found.shares)
        wave: Any = SimpleNamespace(
            learned=SimpleNamespace(population=self.people), people=1, known=np.zeros((2, *told.shape)),
            gained=np.stack([told] * 2), metrics=np.stack([self.metric] * 2),
        )  # fmt: skip
        plans = []
        for first, second in np.concatenate([found.bundles, found.bundles[:, ::-1]]):
            nexts = [
                best_next_pair(self.source, wave, first[None], np.array([y]), second[None], 1.0, self.rng)
                for y in (-1.0, 1.0)
            ]
            plans.append([first, *nexts])
        return self.told_by(self.plans(np.array(plans)), 0.5 * np.tile(found.shares, 2))


def main() -> None:
    """Print the errors of fixed designs, and what one's own answer gains."""
    d, items = map(int, sys.argv[1:3])
    for seed in map(int, sys.argv[3:]):
        study = Study(d, items, seed)
        first = study.source.try_out(size_of_search(2, study.p)[0], 2, study.rng)
        said = []
        for counts in (1.0, 1e-3, SIZE_COUNTS):
            found = study.search(study.fixed, first, counts)
            told = study.told_by(study.fixed(found.bundles), found.shares)
            raw, shape = study.errors(told)
            said.append(f"size counted {counts:g}: shape {shape:.2f}, size {np.sqrt(raw**2 - shape**2):.2f}")
        both = np.concatenate([found.bundles, found.bundles[:, ::-1]])
        plans = study.search(study.plans, np.concatenate([both, both[:, 1:]], axis=1), SIZE_COUNTS)
        # the fixed design is searched for equally long
        found = study.search(study.fixed, found.bundles, SIZE_COUNTS)
        told = study.told_by(study.fixed(found.bundles), found.shares)
        best = study.people_for(study.told_by(study.plans(plans.bundles), plans.shares))
        rule = study.people_for(study.by_the_rule(found))
        print(
            f"d = {d}, {items} items, metric {seed}: " + "; ".join(said) + "; fewer people: plans "
            f"{study.people_for(told) / best:.2f}, the rule {study.people_for(told) / rule:.2f}", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
