"""The verdict on a million people × 4 answers in ten dimensions, and a loop over people that finds the rank alone."""

from __future__ import annotations

from time import process_time

import numpy as np

from crowdmetric.identifiability import diagnose
from crowdmetric.symmetric import svec

PEOPLE, ANSWERS, DIMENSION, ITEMS = 1_000_000, 4, 10, 120_000
LOOPED = 2_000


def crowds() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Items in general position, where nobody adds anything, and in sixty planes, where everybody does."""
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(PEOPLE), ANSWERS)
    generic = rng.standard_normal((ITEMS, DIMENSION)), rng.integers(0, ITEMS, (users.size, 2)), users
    bases = np.linalg.qr(rng.standard_normal((60, DIMENSION, 2))).Q
    each = ITEMS // 60
    items = (rng.standard_normal((60, each, 2)) @ np.swapaxes(bases, 1, 2)).reshape(-1, DIMENSION)
    pairs = rng.integers(0, each, (PEOPLE, ANSWERS, 2)) + each * rng.integers(0, 60, PEOPLE)[:, None, None]
    return {"general position": generic, "sixty planes": (items, pairs.reshape(-1, 2), users)}


def loop_over_people(items: np.ndarray, pairs: np.ndarray, people: int) -> int:
    """Return the rank of S, summed person by person with NumPy."""
    S = np.zeros((DIMENSION * (DIMENSION + 1) // 2,) * 2)
    for k in range(people):
        left, right = items[pairs[ANSWERS * k : ANSWERS * (k + 1)].T]
        delta = left - right
        Delta = svec(left[:, :, None] * left[:, None, :] - right[:, :, None] * right[:, None, :])
        rest = Delta - delta @ (np.linalg.pinv(delta) @ Delta)
        S += rest.T @ rest
    return int(np.linalg.matrix_rank(S, tol=1e-9))


def main() -> None:
    for name, (items, pairs, users) in crowds().items():
        clock = process_time()
        found = diagnose(items, pairs, users)
        ours = process_time() - clock
        clock = process_time()
        rank = loop_over_people(items, pairs, LOOPED)
        theirs = (process_time() - clock) * PEOPLE / LOOPED
        print(
            f"{name}: {ours:.1f} s of processor time for the whole verdict (rank {found.rank}); a loop over people "
            f"would take {theirs:.0f} s for the rank alone (from {LOOPED:,} people, rank {rank}): "
            f"ratio {theirs / ours:.1f}"
        )
