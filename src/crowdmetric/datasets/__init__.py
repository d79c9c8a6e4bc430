"""Data sets that people have, in the formats they are distributed in -> items and comparisons.

Nothing is downloaded, and nothing but ``travel``, which is in the public domain, comes with the library: the other
loaders take the path of a folder, or of the zip file.

::

    dataset.py        what a loader returns
    archive.py        a folder or a zip file -> its files, line by line, with sentences for what is wrong
    pairs.py          ratings or rankings -> comparisons, by one rule
    rated.py          who rated what how -> a data set
    sushi.py          5,000 rankings of ten kinds of sushi, and scores
    movielens.py      ratings of films
    jester.py         ratings of jokes
    tidy.py           folders with items.csv and comparisons.csv
    travel.py         which way 210 people traveled, with the library
"""

from __future__ import annotations

from crowdmetric.datasets.dataset import Dataset
from crowdmetric.datasets.jester import load_jester
from crowdmetric.datasets.movielens import load_movielens
from crowdmetric.datasets.sushi import load_sushi
from crowdmetric.datasets.tidy import load_tidy
from crowdmetric.datasets.travel import load_travel

__all__ = ["Dataset", "load_jester", "load_movielens", "load_sushi", "load_tidy", "load_travel"]
