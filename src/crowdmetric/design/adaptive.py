"""The next question for a person who has already answered some: the one that tells most, given what they said.

Under the full likelihood a rule that looks at earlier answers only is ignorable: scores keep their mean of zero. What a
next question q is worth is the mean over its two answers, under metrics b that are thought possible, ::

    mean_b Σ_y P_b(y | earlier answers) ‖F_bᵀ s_b(earlier answers, y)‖²         F_b as in `exchange`

with s the score of everything that the person will then have said. It rests on the Gaussian law of people: where that
is wrong, questions are chosen for somebody else. The search looks at pairs near those that the queue has planned.

This is not the best possible rule. Everybody's next question is the one that adds most to what the *fixed* questions of
the wave tell, so all people move to similar questions at once. `benchmarks.live_plans` compares it with whole plans (a
first question, and a second for each answer to it) whose shares are chosen together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crowdmetric.design.bundles import answered_scores
from crowdmetric.design.exchange import criterion
from crowdmetric.design.question_sources import Catalogue
from crowdmetric.design.waves import SIZE_COUNTS, Wave, size_in_units
from crowdmetric.symmetric import degrees_of_freedom

__all__ = ["best_next_pair"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Number of metrics under which questions are judged, and number of pairs judged: people wait for the next page.
JUDGES, CANDIDATES = 2, 150


def best_next_pair(
    source: Catalogue,
    wave: Wave,
    answered: Indices,
    y: Array,
    planned: Indices,
    beta: float,
    rng: np.random.Generator,
    *,
    shape: bool = True,
) -> Indices:
    """Return the next pair (2,) for a person.

    Parameters
    ----------
    answered, y
        Pairs (j, 2) that the person has answered, and the answers (j,); at least one.
    planned
        (r, 2) pairs that the queue has planned for the rest.
    shape
        Whether the metric is wanted up to scale.
    """
    assert wave.learned is not None
    j = len(answered)
    # vary whole sets, so pairs parallel to those that were answered are among the candidates
    sets = np.repeat(np.concatenate([answered, planned[:1]])[None], CANDIDATES, axis=0)
    pairs = np.concatenate([planned[:1], source.vary(source.vary(sets, rng), rng)[:, j]])
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    bundles = np.concatenate([np.repeat(answered[None], len(pairs), axis=0), pairs[:, None]], axis=1)
    sets_of_answers = np.stack([np.append(y, -1.0), np.append(y, 1.0)])
    worth = np.zeros(len(pairs))
    p = degrees_of_freedom(source.items.shape[1])
    ahead = max(wave.people, 1)
    units = size_in_units(wave.metrics[:JUDGES], 1.0 / SIZE_COUNTS if shape else 1.0, wave.known.shape[1])
    for b, T in enumerate(units):
        _, F = criterion(T @ (wave.known[b] / ahead + wave.gained[b]) @ T, p, 1.0)
        logs, scores = answered_scores(
            source.items[bundles], sets_of_answers, wave.metrics[b], wave.learned.population, beta
        )
        chance = np.exp(logs - logs.max(axis=1, keepdims=True))
        chance /= chance.sum(axis=1, keepdims=True)
        worth += np.sum(chance * np.sum((scores @ T @ F) ** 2, axis=2), axis=1)
    best: Indices = pairs[int(np.argmax(worth))]
    return best
