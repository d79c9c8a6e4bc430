"""The next wave of a study that is run in waves: a questionnaire from the answers that are there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crowdmetric.checks import one_of, positive_number, seed_number, share_of_one, whole_number
from crowdmetric.comparisons import Comparisons
from crowdmetric.design.information import apportion
from crowdmetric.design.learning import AnswerTable
from crowdmetric.design.question_sources import Catalogue
from crowdmetric.design.questionnaire import Questionnaire, hand_out, names_of
from crowdmetric.design.waves import WaveOrder, next_wave
from crowdmetric.inputs import answers_about, check_items
from crowdmetric.users.population_sums import STRUCTURES

__all__ = ["next_questionnaire"]


def next_questionnaire(
    items: ArrayLike,
    told: Comparisons,
    *,
    people: int,
    answers: int = 2,
    random_share: float = 0.1,
    covariance: str = "isotropic",
    beta: float = 1.0,
    item_ids: Any = None,
    seed: int = 0,
) -> Questionnaire:
    """Return what to ask the next people, given everybody's answers so far, and the error that all of them will give.

    Parameters
    ----------
    items, people, answers, covariance, beta, item_ids, seed
        As in `design`; people are new ones.
    told
        The answers that are there, about these items: Comparisons, or a data frame as `PopulationMetric.fit` takes it.
    random_share
        Share of people who get random pairs, to evaluate on.

    Examples
    --------
    >>> from crowdmetric import Comparisons
    >>> from crowdmetric.design import next_questionnaire
    >>> from crowdmetric.simulate import simulate_crowd
    >>> crowd = simulate_crowd(2, None, None, users=60, comparisons=2, seed=0)
    >>> told = Comparisons.from_arrays(crowd.users, crowd.pairs, crowd.y, n_items=len(crowd.items))
    >>> len(next_questionnaire(crowd.items, told, people=40))
    80
    """
    X, n = check_items(items), whole_number(people, "people", 1)
    m, share = whole_number(answers, "answers", 1), share_of_one(random_share, "random_share")
    told = answers_about(told, items, len(X))
    so_far = AnswerTable(told.user.astype(np.intp), told.pairs, told.response.astype(float), told.weight)
    source = Catalogue(X, names_of(item_ids, items, len(X)))
    order = WaveOrder(
        number=0, source=source, answers=m, covariance=one_of(covariance, "covariance", tuple(STRUCTURES)),
        beta=positive_number(beta, "beta"), random_share=share, told=so_far, new=np.zeros(len(so_far), dtype=np.bool_),
        before=None, guess={}, seed=seed_number(seed, "seed"),
    )  # fmt: skip
    wave = next_wave(order)
    assert wave.learned is not None  # there are answers
    rng = np.random.default_rng([order.seed, 3])
    at_random = round(share * n)
    counts = apportion(wave.counts.astype(float), n - at_random)
    designed = wave.bundles[np.repeat(np.arange(len(counts)), counts)]
    bundles = np.concatenate([designed, source.draw(at_random, m, rng)]).astype(np.intp)
    now, then = wave.expected_error(0), wave.expected_error(n)
    remarks = (
        f"Chosen from {len(so_far):,} answers of {so_far.people:,} people, under metrics drawn from what these leave "
        f"open; {at_random:,} of the {n:,} people get random pairs, to evaluate on.",
        f"Before this wave the expected error is {now:.3g} up to scale; a wave half as large and another after it "
        "would do better still.",
    )
    return hand_out(
        bundles[rng.permutation(n)], X, source.ids, rng, design="Next questions on a catalogue",
        expected_error=wave.expected_error(n, shape=False), expected_shape_error=then, expected_bias=0.0,
        assumptions="from all answers, those that are there included, if new people are like those who have answered",
        advice="Learn from all answers together with PopulationMetric(items); chance must decide who gets which "
        "questions, and nobody who has answered before should be asked again.",
        remarks=remarks,
    )  # fmt: skip
