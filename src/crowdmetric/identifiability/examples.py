"""What is out of reach, shown by entries of M and by pairs of items.

The distance of two items that differ by δ is ⟨svec(δδᵀ), svec(M)⟩, a functional on Sym(R^d). With N the projector
on the directions that no answer depends on,

    share(δ) = ‖N svec(δδᵀ)‖² / ‖svec(δδᵀ)‖²        0 … 1

is the share of it that answers do not determine: 0 if the distance follows from the answers, 1 if they are not
informative about it. N is a projector, so the share does not depend on the basis of the null space. The same formula
with the unit vector of an entry of svec(M) gives the unknown share of that entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.identifiability.questions import QuestionSource
from crowdmetric.identifiability.spectrum import Spectrum
from crowdmetric.symmetric import describe_direction, dimension, entry_name, svec

__all__ = ["ItemPair", "name_directions", "name_hardest", "percent", "unknown_distances"]

Array = NDArray[Any]

CANDIDATES = 1000
# Where p is large every pair costs a pass over a basis or over the answers.
WORK = 2e10
FEW = 4
SHOWN = 3
# A unit direction without any entry above this is spread over too many entries: naming three would mislead.
DIFFUSE = 0.1
OVERALL_SIZE = "the overall size of the metric"
# A direction this close to the identity (its cosine) is the overall size of the metric.
SIZE = 0.9


@dataclass(frozen=True)
class ItemPair:
    """Two items, by row, and the share of the distance between them that answers do not determine, 0 … 1."""

    left: int
    right: int
    unknown: float


def unknown_distances(
    questions: QuestionSource, spectrum: Spectrum, seed: int = 0
) -> tuple[float, tuple[ItemPair, ...]]:
    """Return the mean unknown share of random pairs of items shown, and those with the most, no item twice."""
    used = questions.used
    if len(used) < 2 or spectrum.low == spectrum.high == questions.d * (questions.d + 1) // 2:
        return 0.0, ()
    rng = np.random.default_rng(seed)
    if spectrum.open_share is None:
        count = FEW
    else:
        p = len(spectrum.open_share)
        count = int(np.clip(WORK / (2.0 * p * max(1, min(spectrum.rank, p - spectrum.rank))), 50, CANDIDATES))
    left = rng.integers(0, len(used), count)
    right = (left + rng.integers(1, len(used), count)) % len(used)
    rows = np.unique(np.sort(np.column_stack([used[left], used[right]]), axis=1), axis=0)
    delta = questions.items[rows[:, 0]] - questions.items[rows[:, 1]]
    rows, delta = rows[np.any(delta != 0, axis=1)], delta[np.any(delta != 0, axis=1)]
    if not len(rows):
        return 0.0, ()
    shares = spectrum.share(delta)
    shown: list[ItemPair] = []
    taken: set[int] = set()
    for i in np.argsort(-shares, kind="stable"):
        a, b = int(rows[i, 0]), int(rows[i, 1])
        if len(shown) < SHOWN and not {a, b} & taken:
            shown.append(ItemPair(a, b, float(shares[i])))
            taken |= {a, b}
    return float(np.mean(shares)), tuple(shown)


def name_directions(spectrum: Spectrum, features: Sequence[str] | None) -> str:
    """Return the null space in words, by the entries of M that lie most in it; empty if no entry stands out."""
    directions = spectrum.directions
    if len(directions) == 0:
        return ""
    if spectrum.only_size_open:
        return OVERALL_SIZE
    if spectrum.open_share is None:
        a = svec(directions[0])
        return describe_direction(a, names=features) if np.max(np.abs(a)) > DIFFUSE else ""
    p = len(spectrum.open_share)
    most = np.argsort(-np.round(spectrum.open_share, 6), kind="stable")[:SHOWN]
    named = [i for i in most if spectrum.open_share[i] >= max(DIFFUSE**2, 0.1 * spectrum.open_share[most[0]])]
    return ", ".join(f"{entry_name(p, int(i), features)} ({percent(spectrum.open_share[i])} unknown)" for i in named)


def name_hardest(spectrum: Spectrum, features: Sequence[str] | None) -> str:
    """Return the identified direction that is hardest to learn, in words: the overall size, or an entry of M."""
    if spectrum.hardest is None:
        return ""
    a = spectrum.hardest
    d = dimension(len(a))
    if abs(float(a @ svec(np.eye(d)))) > SIZE * np.sqrt(d):
        return OVERALL_SIZE
    largest = int(np.argmax(np.abs(a)))
    return f"mostly {entry_name(len(a), largest, features)}" if a[largest] ** 2 > 0.5 else ""


def percent(share: float) -> str:
    """Return a share as a percentage; 0 and 100 only if they are exact."""
    if 0.0 < share < 0.005:
        return "under 1 %"
    if 0.995 < share < 1.0 - 1e-9:
        return "over 99 %"
    return f"{100.0 * share:.0f} %"
