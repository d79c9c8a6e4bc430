"""What `crowdmetric fit` finds out about questions before it chooses."""

from __future__ import annotations

import numpy as np

from crowdmetric import Comparisons
from crowdmetric.choice import matched_share
from crowdmetric.design import matched_from_generator
from crowdmetric.simulate import simulate_crowd


def test_matched_questions_are_noticed() -> None:
    ask = matched_from_generator(3, people=50, seed=0)
    matched = Comparisons.from_arrays(ask.person, ask.pairs, np.ones(len(ask.pairs)), n_items=len(ask.items))
    assert matched_share(ask.items, matched) == 1.0
    crowd = simulate_crowd(3, None, None, users=50, comparisons=4, seed=0)
    answers = Comparisons.from_arrays(crowd.users, crowd.pairs, crowd.y, n_items=len(crowd.items))
    assert matched_share(crowd.items, answers) == 0.0
