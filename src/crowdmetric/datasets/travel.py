"""Travel between Sydney, Canberra and Melbourne in 1987: real choices of 210 people, which come with the library.

Everybody chose one of four ways to travel: plane, train, bus or car. Each has a waiting time, a cost and a travel time
that are that person's own, so there are 840 items. A choice of one among four is three comparisons: the chosen one
was preferred to each of the others.

Source: W. H. Greene and D. Hensher (1997), in W. H. Greene, LIMDEP version 7.0 user's manual revised; Table F18-2 of
W. H. Greene, Econometric Analysis, 7th edition. The data are in the public domain, as statsmodels states, which
distributes them as ``modechoice``. The sample was drawn by what people chose, with less popular ways drawn more often.
"""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from crowdmetric.comparisons import Comparisons
from crowdmetric.datasets.dataset import Dataset
from crowdmetric.tables import Items, Stored, read_columns

__all__ = ["load_travel"]

FEATURES = ("wait", "cost", "time")
RULE = (
    "210 people chose one of plane, train, bus and car; the chosen one was preferred to each of the other three. "
    "wait: minutes at the terminal; cost: Australian dollars; time: minutes in the vehicle."
)


def load_travel(*, seed: int = 0) -> Dataset:
    """Return how 210 people traveled, with what each way would have cost them; nothing else is needed.

    Parameters
    ----------
    seed : int
        Of the coin flips that decide which item is called left.

    Examples
    --------
    >>> from crowdmetric.datasets import load_travel
    >>> data = load_travel()
    >>> len(data.items.ids), data.items.feature_names, data.comparisons.n_users
    (840, ['wait', 'cost', 'time'], 210)
    """
    table = read_columns(Stored.of_bytes("travel.csv", files(__package__).joinpath("travel.csv").read_bytes()))
    names = np.array([f"{mode} for person {who}" for mode, who in zip(table["mode"], table["person"], strict=True)])
    items = Items(np.arange(len(names)), np.column_stack([table[name] for name in FEATURES]).astype(float), [*FEATURES])
    chosen = np.flatnonzero(table["chosen"] == 1)
    winner, loser = np.array(
        [(c, o) for c in chosen for o in np.flatnonzero(table["person"] == table["person"][c]) if o != c]
    ).T
    flip = np.random.default_rng(seed).random(len(winner)) < 0.5
    pairs = np.where(flip[:, None], np.column_stack([loser, winner]), np.column_stack([winner, loser]))
    y = np.where(flip, 1.0, -1.0)
    answers = Comparisons.from_arrays(table["person"][winner], pairs, y, item_ids=items.ids, made_of="choices")
    return Dataset("travel", items, names, answers, RULE)
