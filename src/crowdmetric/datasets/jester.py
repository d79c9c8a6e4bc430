"""Jester (K. Goldberg and others): ratings of jokes from −10 to 10, in the layouts in which they are distributed.

::

    jester-data-1.xls, -2, -3    one row per person: number of rated jokes, then one rating per joke, 99 if missing
    jesterfinal151cols.xls       the same for 150 jokes; so are 'FINAL jester 2006-15.xls', '[final] April 2015 … .xlsx'
    jester_ratings.dat           person, joke, rating with white space between; or jester_ratings.csv, with a header

and the jokes themselves: ``init1.html`` …; ``jester_items.dat`` ('7:', the joke, an empty line); ``jester_items.csv``
(jokeId,jokeText); ``Dataset3JokeSet.xlsx`` (one row per joke). Spreadsheets may also be CSV files of the same name.

The only features of jokes are their words. Without features of your own, they are the leading singular directions of
the words, weighted by how rare they are (latent semantic analysis): crude, and enough to begin with. A sentence
embedding is better.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from typing import Any

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from crowdmetric.datasets.archive import Archive, Member, parsed
from crowdmetric.datasets.dataset import Dataset
from crowdmetric.datasets.rated import RatedRows, dataset_of, given_items, ratings_of_rows
from crowdmetric.errors import DataError
from crowdmetric.tables import Items
from crowdmetric.tables.spreadsheet import sheet_rows

__all__ = ["load_jester"]

KIND = "Jester data"
NOT_RATED = 99.0
# The scale ends at ±10. A rating slightly beyond, from a slider that overshoots, still counts as an answer.
FARTHEST = 11.0
SHEETS = ("jester-data-*", "jesterfinal*", "final jester*", "[[]final[]]*jester*", "jester_dataset*")
NAME = 48  # number of characters of a joke that are its name


def load_jester(
    path: str | os.PathLike[str],
    *,
    features: Any = None,
    components: int = 16,
    pairs: int | None = 20,
    people: int | None = None,
    gap: float = 0.0,
    seed: int = 0,
) -> Dataset:
    """Return Jester data from the folder or zip file they are distributed in.

    Parameters
    ----------
    path : path
        With ratings and, unless features are given, with the jokes.
    features : items for `read_items`, optional
        Your own, such as a sentence embedding, with the numbers of the jokes (from 1) in item_id.
    components : int
        How many directions to keep of the words of the jokes, where no features are given.
    pairs : int or None
        Comparisons per person to keep; None: all, up to 4,950.
    people : int or None
        How many people to keep.
    gap : float
        How much two ratings must differ to say something. Ratings are positions of a slider: with 0, the slightest
        difference counts.
    seed : int
        Random seed of what is kept.
    """
    archive = Archive(path, KIND)
    ratings = _ratings(archive)
    jokes = _jokes(archive)
    rated = {number: f"joke {number}" for number in np.unique(ratings.item).tolist()}
    names = rated | {number: _shortened(number, text) for number, text in jokes.items()}
    if features is not None:
        items = given_items(features, names, KIND)
    elif jokes:
        items = _words(jokes, components)
    else:
        raise DataError(
            f"{archive.path} has ratings but no jokes, whose words are their only features; put the texts there "
            "(init1.html …, jester_items.dat or .csv, Dataset3JokeSet.xlsx), or give features"
        )
    return dataset_of("Jester", items, names, ratings, what="rated", pairs=pairs, people=people, gap=gap, seed=seed)


def _ratings(archive: Archive) -> RatedRows:
    member = archive.find("jester_ratings.dat") or archive.find("jester_ratings.csv")
    if member is not None:
        return _triples(member)
    sheets = [
        found
        for name in SHEETS
        for suffix in (".xls", ".xlsx", ".csv")
        for found in archive.matching(f"{name}{suffix}")
        if "joke" not in found.name.lower()
    ]
    if not sheets:
        archive.need("jester_ratings.dat", "jester-data-1.xls", "jesterfinal151cols.xls", "jester-data-1.csv")
    return _matrices(sorted({str(sheet): sheet for sheet in sheets}.items()))


def _triples(member: Member) -> RatedRows:
    separator = "," if member.name.lower().endswith(".csv") else None
    lines = member.lines("latin-1")
    if separator:
        next(lines, None)  # the header

    def parse(line: str) -> tuple[int, int, float]:
        user, joke, rating = line.split(separator)
        return int(user), int(joke), _rating(rating)

    expected = "a person, a joke and a rating from −10 to 10"
    found = ratings_of_rows(parsed(member, parse, expected, lines=lines))
    given = ~np.isnan(found.rating)
    return found.take(given)


def _rating(cell: Any) -> float:
    """Return a rating, NaN if there is none."""
    if cell is None or cell == "":
        return np.nan
    value = float(cell)
    if value == NOT_RATED:
        return np.nan
    if not abs(value) <= FARTHEST:
        raise ValueError
    return value


def _matrices(sheets: Iterable[tuple[str, Member]]) -> RatedRows:
    """Return the ratings of tables with one row per person; people are numbered from 1, on through all the files."""
    parts, first = [], 1
    for _, member in sheets:
        table = np.array(list(_matrix_rows(member)))
        if not table.size:
            raise DataError(f"{member} has no ratings: its first sheet is empty; download it again")
        user, joke = np.nonzero(~np.isnan(table))
        parts.append(RatedRows(user + first, joke + 1, table[user, joke]))
        first += len(table)
    return RatedRows(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("user", "item", "rating")))


def _matrix_rows(member: Member) -> Iterator[list[float]]:
    is_text = member.name.lower().endswith(".csv")
    rows: Iterator[tuple[int, list[Any]]] = (
        ((number, line.split(",")) for number, line in member.lines("latin-1"))
        if is_text
        else sheet_rows(member.read(), str(member))
    )
    width = 0
    for number, cells in rows:
        if all(cell in (None, "") for cell in cells):
            continue
        try:
            count, *ratings = cells
            values = [_rating(cell) for cell in ratings]
            if float(count) != int(float(count)) or not 0 <= float(count) <= len(ratings):
                raise ValueError
        except (ValueError, TypeError):
            shown = ", ".join(str(cell) for cell in cells[:4])
            raise DataError(
                f"row {number} of {member} begins {shown}; how many jokes were rated, then ratings from −10 to 10 (99: "
                "none) were expected; save the spreadsheet again, without a header"
            ) from None
        width = width or len(values)
        if len(values) != width:
            raise DataError(
                f"row {number} of {member} has {len(values)} ratings, but the first has {width}; correct it"
            )
        yield values


# ------------------------------------------------------------------------------------------------ the jokes


def _jokes(archive: Archive) -> dict[int, str]:
    """Return the texts by number; nothing if there are none."""
    pages = archive.matching("init*.html")
    if pages:
        found = ((re.search(r"init(\d+)\.html?$", page.name.lower()), page) for page in pages)
        return {int(match.group(1)): _plain(_marked(page.text("latin-1"))) for match, page in found if match}
    member = archive.find("jester_items.dat")
    if member is not None:
        return _listed_jokes(member)
    member = archive.find("jester_items.csv")
    if member is not None:
        rows = csv.reader(member.text().splitlines(keepends=True))
        next(rows, None)
        return {int(number): _plain(text) for number, text, *_ in rows if number.strip().isdigit()}
    member = archive.find("*jokeset.xlsx") or archive.find("*jokeset.xls")
    if member is not None:
        texts = [
            str(cells[0]) for _, cells in sheet_rows(member.read(), str(member)) if cells and cells[0] not in (None, "")
        ]
        return {number: _plain(text) for number, text in enumerate(texts, start=1)}
    return {}


def _listed_jokes(member: Member) -> dict[int, str]:
    texts: dict[int, list[str]] = {}
    number = 0
    for line_number, line in member.lines("latin-1"):
        heading = re.fullmatch(r"\s*(\d+):\s*", line)
        if heading:
            number = int(heading.group(1))
            texts[number] = []
        elif number:
            texts[number].append(line)
        else:
            raise DataError(f"line {line_number} of {member} is {line[:40]!r}; '1:' was expected before the first joke")
    return {number: _plain(" ".join(lines)) for number, lines in texts.items()}


def _marked(page: str) -> str:
    """Return what a page of Dataset 1 marks as the joke, or all of it."""
    found = re.search(r"<!--\s*begin of joke\s*-->(.*?)<!--\s*end of joke\s*-->", page, flags=re.DOTALL | re.IGNORECASE)
    return found.group(1) if found else page


class _Text(HTMLParser):
    """Collects what is between the tags."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def _plain(page: str) -> str:
    reader = _Text()
    reader.feed(page)
    reader.close()
    return " ".join(" ".join(reader.parts).split())


def _shortened(number: int, text: str) -> str:
    words = text if len(text) <= NAME else text[:NAME].rpartition(" ")[0] + " …"
    return f"{number}: {words}"


def _words(jokes: dict[int, str], components: int) -> Items:
    """Return the leading singular directions of the words of the jokes, of unit length each."""
    try:
        counts = TfidfVectorizer(stop_words="english", sublinear_tf=True).fit_transform(jokes.values())
    except ValueError:
        raise DataError(f"the {len(jokes)} jokes have no words; give features of your own") from None
    most = min(counts.shape) - 1
    if isinstance(components, bool) or not 1 <= components <= most:
        raise DataError(
            f"components={components!r} is not between 1 and {most}, one less than the jokes or their words"
        )
    directions = TruncatedSVD(components, random_state=0).fit_transform(counts)
    sizes = np.linalg.norm(directions, axis=1, keepdims=True)
    features = directions / np.where(sizes > 0, sizes, 1.0)
    return Items(np.array(list(jokes), dtype=np.int64), features, [f"words {j + 1}" for j in range(components)])
