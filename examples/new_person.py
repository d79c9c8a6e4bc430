"""
Put a new person on the map from five answers
=============================================

A fitted model places people it has never met, and knows which question would tell most about them. The crowd and the
new people are simulated, so it is known where they stand.
"""

import matplotlib.pyplot as plt
import numpy as np

from crowdmetric import PopulationMetric
from crowdmetric.locate import locate
from crowdmetric.simulate import answer, simulate_crowd

crowd = simulate_crowd(3, None, None, users=1_500, comparisons=3, seed=0)
model = PopulationMetric(crowd.items[:60])  # 60 items are enough to ask about
model.fit(crowd.items[crowd.pairs], crowd.y, users=crowd.users)

# %%
# Twenty people come along and give five answers each.

rng = np.random.default_rng(1)
names = np.arange(20)
ideal = rng.normal(size=(20, 3)) / np.sqrt(3)
start = rng.integers(60, size=(100, 1))
asked = np.hstack([start, (start + rng.integers(1, 60, size=start.shape)) % 60])
who = np.tile(names, 5)
said = answer(model.items, asked, ideal[who], crowd.metric, seed=2)


def distance(found):
    """Return how far, by the true metric, people are from where they are thought to be."""
    off = found.mean - ideal
    return float(np.sqrt(np.mean(np.einsum("kd,de,ke->k", off, crowd.metric, off))))


# %%
# Five more questions: drawn at random, or the ones that tell most about each person.

path = {}
for way in ("random", "best"):
    pairs, y, users = asked, said, who
    path[way] = [distance(locate(model, pairs, y, users=users))]
    for turn in range(5):
        left = rng.integers(60, size=20)
        question = np.column_stack([left, (left + rng.integers(1, 60, size=20)) % 60])
        if way == "best":
            question = locate(model, pairs, y, users=users).next_question().pairs
            if turn == 0:
                print(f"person 0 is asked next about items {question[0][0]} and {question[0][1]}")
        pairs, users = np.vstack([pairs, question]), np.append(users, names)
        y = np.append(y, answer(model.items, question, ideal, crowd.metric, seed=10 + turn))
        path[way].append(distance(locate(model, pairs, y, users=users)))
far = {"after five": path["best"][0], "random": path["random"][-1], "best": path["best"][-1]}

figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
for way, color in {"random": "#E69F00", "best": "#0072B2"}.items():
    axes.plot(5 + np.arange(6), path[way], marker="o", color=color, label=f"{way} questions")
axes.set(xlabel="answers per person", ylabel="distance from where people stand", ylim=(0, None))
axes.legend(frameon=False)
