"""Choices, rankings and best–worst as stages "first of the set that is left"."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crowdmetric.tables import firsts_of


def question(n: int) -> st.SearchStrategy[tuple[list[int], int, bool, list[int]]]:
    """Draw an order of n alternatives, how many places of it are known, whether the worst is, and the items."""
    return st.tuples(
        st.permutations(range(n)),
        st.integers(0, n),
        st.booleans(),
        st.lists(st.integers(-1, 9), min_size=n, max_size=n),
    )


QUESTIONS = st.lists(st.integers(1, 6).flatmap(question), max_size=8)


@given(QUESTIONS)
def test_stages_are_the_first_of_the_set_that_is_left(questions: list[tuple[list[int], int, bool, list[int]]]) -> None:
    places, expected = [], []
    for number, (order, depth, has_worst, items) in enumerate(questions):
        place = [0] * len(items)
        for rank, position in enumerate(order[:depth], start=1):
            place[position] = rank
        worst = order[-1:] if has_worst and depth < len(items) else []
        for position in worst:
            place[position] = -1
        left = list(range(len(items)))
        for position, sign in [*((p, 1) for p in order[:depth]), *((p, -1) for p in worst)]:
            if len(left) > 1:
                expected.append((number, [items[p] for p in left], left.index(position), sign))
            left.remove(position)
        places.append(place)
    offsets = np.cumsum([0, *map(len, places)])
    item = np.array([i for *_, items in questions for i in items], dtype=np.int64)
    place = np.array([p for each in places for p in each], dtype=np.int64)
    person, weight = np.arange(len(places)) + 100, np.arange(len(places)) + 0.5
    found = firsts_of(person, offsets, item, place, weight)
    sets = [found.item[a:b].tolist() for a, b in zip(found.offsets[:-1], found.offsets[1:], strict=True)]
    assert [*zip(found.question.tolist(), sets, found.first.tolist(), found.sign.tolist(), strict=True)] == expected
    assert found.person.tolist() == (found.question + 100).tolist()
    assert found.weight.tolist() == (found.question + 0.5).tolist()
