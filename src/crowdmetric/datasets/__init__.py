"""Data sets that people have, in the formats they are distributed in -> items and comparisons.

Nothing is downloaded and nothing is redistributed: every loader takes the path of a folder, or of the zip file.

::

    dataset.py        what a loader returns
    archive.py        a folder or a zip file -> its files, line by line, with sentences for what is wrong
    pairs.py          ratings or rankings -> comparisons, by one rule
    ratings.py        who rated what how -> a data set
    sushi.py          5,000 rankings of ten kinds of sushi, and scores
    movielens.py      ratings of films
    jester.py         ratings of jokes
    tidy.py           folders with items.csv and comparisons.csv
"""

from __future__ import annotations

from crowdmetric.datasets.dataset import Dataset
from crowdmetric.datasets.jester import load_jester
from crowdmetric.datasets.movielens import load_movielens
from crowdmetric.datasets.sushi import load_sushi
from crowdmetric.datasets.tidy import load_tidy

__all__ = ["Dataset", "load_jester", "load_movielens", "load_sushi", "load_tidy"]
