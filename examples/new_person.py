"""Place somebody new from five answers, and choose what to ask next: the best question against a random one.

The crowd and the new people are simulated, so that it is known where they stand.

python examples/new_person.py
"""

from __future__ import annotations

import numpy as np

from crowdmetric import PopulationMetric
from crowdmetric.locate import locate
from crowdmetric.simulate import answer, simulate_crowd

NEWCOMERS, FIRST, MORE = 20, 5, 5


def main() -> dict[str, float]:
    crowd = simulate_crowd(3, None, None, users=1_500, comparisons=3, seed=0)
    model = PopulationMetric(crowd.items[:60])  # 60 items are enough to ask about
    model.fit(crowd.items[crowd.pairs], crowd.y, users=crowd.users)
    rng = np.random.default_rng(1)
    ideal = rng.normal(size=(NEWCOMERS, 3)) / np.sqrt(3)
    names = np.arange(NEWCOMERS)
    start = rng.integers(60, size=(FIRST * NEWCOMERS, 1))
    asked = np.hstack([start, (start + rng.integers(1, 60, size=start.shape)) % 60])
    who = np.tile(names, FIRST)
    said = answer(model.items, asked, ideal[who], crowd.metric, seed=2)

    def distance(found) -> float:
        """Return how far, by the true metric, people are from where they are thought to be."""
        off = found.mean - ideal
        return float(np.sqrt(np.mean(np.einsum("kd,de,ke->k", off, crowd.metric, off))))

    far = {"after five": distance(locate(model, asked, said, users=who))}
    for way in ("random", "best"):
        pairs, y, users = asked, said, who
        for turn in range(MORE):
            found = locate(model, pairs, y, users=users)
            left = rng.integers(60, size=NEWCOMERS)
            random = np.column_stack([left, (left + rng.integers(1, 60, size=NEWCOMERS)) % 60])
            question = found.next_question().pairs if way == "best" else random
            if way == "best" and turn == 0:
                print(f"person 0 is asked next about items {question[0][0]} and {question[0][1]}")
            pairs, users = np.vstack([pairs, question]), np.append(users, names)
            y = np.append(y, answer(model.items, question, ideal, crowd.metric, seed=10 + turn))
        far[way] = distance(locate(model, pairs, y, users=users))
    print(f"{NEWCOMERS} new people, distance from where they really stand:")
    print(f"  after {FIRST} answers            {far['after five']:.2f}")
    print(f"  after {MORE} more at random      {far['random']:.2f}")
    print(f"  after {MORE} more, the best ones {far['best']:.2f}")
    return far


if __name__ == "__main__":
    main()
