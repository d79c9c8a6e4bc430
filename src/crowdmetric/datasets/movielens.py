"""MovieLens: ratings of films, in any of the layouts that GroupLens distributes.

::

    ml-latest, ml-20m, -25m, -32m   ratings.csv  userId,movieId,rating,timestamp   movies.csv  movieId,title,genres
    ml-1m, ml-10m                   ratings.dat  user::film::rating::time          movies.dat  film::title::genres
    ml-100k                         u.data       user, film, rating, time (tabs)   u.item      film|title|…|19 flags

Genres are separated by ``|`` and become a feature of 0 and 1 each. ml-20m and ml-25m also have ``genome-scores.csv``
(movieId,tagId,relevance) and ``genome-tags.csv``: how much each of 1,128 tags fits a film.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from crowdmetric.datasets.archive import Archive, Member, parsed
from crowdmetric.datasets.dataset import Dataset
from crowdmetric.datasets.rated import RatedRows, dataset_of, given_items, ratings_of_rows
from crowdmetric.errors import DataError, option
from crowdmetric.tables import Items

__all__ = ["load_movielens"]

KIND = "MovieLens data"
NO_GENRE = "(no genres listed)"
# The flags of u.item, where u.genre is not there to name them.
FLAGS = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy",
    "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip

Films = dict[int, tuple[str, tuple[str, ...]]]


def load_movielens(
    path: str | os.PathLike[str],
    *,
    features: Any = "genres",
    pairs: int | None = 20,
    people: int | None = None,
    gap: float = 0.0,
    seed: int = 0,
) -> Dataset:
    r"""Return MovieLens data from the folder or zip file they are distributed in.

    Parameters
    ----------
    path : path
        With ``ratings.csv`` and ``movies.csv``; ``ratings.dat`` and ``movies.dat``; or ``u.data`` and ``u.item``.
    features : {'genres', 'genome'} or items for `read_items`
        One feature of 0 and 1 per genre; the relevance of every tag of the genome (reduce it before a fit, see
        `crowdmetric.preprocess.ItemMap`); or your own, with the numbers of the films in item_id. Films without features
        are left out, and their ratings counted in ``comparisons.dropped``.
    pairs : int or None
        Comparisons per person to keep; None: all, which are many.
    people : int or None
        How many people to keep.
    gap : float
        How many stars two ratings must be apart; 0: at all.
    seed : int
        Random seed of what is kept.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from crowdmetric.datasets import load_movielens
    >>> place = Path(tempfile.mkdtemp())
    >>> rows = ['userId,movieId,rating,timestamp', '1,1,4.0,0', '1,2,2.0,0', '2,1,3.0,0', '2,2,5.0,0']
    >>> _ = (place / 'ratings.csv').write_text('\n'.join(rows))
    >>> _ = (place / 'movies.csv').write_text('movieId,title,genres\n1,One (1990),Comedy\n2,Two (1991),Drama\n')
    >>> data = load_movielens(place)
    >>> len(data.comparisons), data.item_names.tolist()
    (2, ['One (1990)', 'Two (1991)'])
    """
    archive = Archive(path, KIND)
    ratings_file = archive.need("ratings.csv", "ratings.dat", "u.data")
    read_ratings, films_file, read_films = {
        "ratings.csv": (_csv_ratings, "movies.csv", _csv_films),
        "ratings.dat": (_dat_ratings, "movies.dat", _dat_films),
        "u.data": (_tab_ratings, "u.item", _flag_films),
    }[ratings_file.name.rpartition("/")[2].lower()]
    films = read_films(archive.need(films_file, purpose=f" beside {ratings_file.name}"), archive)
    names = {number: title for number, (title, _) in films.items()}
    if isinstance(features, str) and features == "genres":
        items = _genres(films)
    elif isinstance(features, str) and features == "genome":
        items = _genome(archive)
    else:
        items = given_items(features, names, KIND)
    ratings = read_ratings(ratings_file)
    return dataset_of("MovieLens", items, names, ratings, what="rated", pairs=pairs, people=people, gap=gap, seed=seed)


def _ratings(member: Member, separator: str | None, lines: Iterator[tuple[int, str]], expected: str) -> RatedRows:
    def parse(line: str) -> tuple[int, int, float]:
        cells = line.split(separator)
        rating = float(cells[2])
        if len(cells) != 4 or not 0 <= rating <= 5:
            raise ValueError
        return int(cells[0]), int(cells[1]), rating

    return ratings_of_rows(parsed(member, parse, expected, lines=lines))


def _csv_ratings(member: Member) -> RatedRows:
    expected = "userId,movieId,rating,timestamp with a rating from 0 to 5"
    return _ratings(member, ",", _after_header(member, "userId,movieId,rating"), expected)


def _dat_ratings(member: Member) -> RatedRows:
    return _ratings(member, "::", member.lines("latin-1"), "user::film::rating::time with a rating from 0 to 5")


def _tab_ratings(member: Member) -> RatedRows:
    expected = "user, film, rating from 0 to 5 and time, with tabs between,"
    return _ratings(member, "\t", member.lines("latin-1"), expected)


def _after_header(member: Member, begins: str) -> Iterator[tuple[int, str]]:
    """Return the lines after the header, which must begin as it should."""
    lines = member.lines()
    _, header = next(lines, (1, ""))
    if not header.lower().replace(" ", "").startswith(begins.lower()):
        raise DataError(f"line 1 of {member} is {header!r}; a header that begins with {begins!r} was expected")
    return lines


def _csv_films(member: Member, archive: Archive) -> Films:
    def parse(line: str) -> tuple[int, str, tuple[str, ...]]:
        number, title, genres = next(csv.reader([line], strict=True))
        return int(number), title, _split(genres)

    return _films(member, parse, "movieId,title,genres", _after_header(member, "movieId,title,genres"))


def _dat_films(member: Member, archive: Archive) -> Films:
    def parse(line: str) -> tuple[int, str, tuple[str, ...]]:
        number, title, genres = line.split("::")
        return int(number), title, _split(genres)

    # ml-1m is Latin-1, ml-10m is UTF-8
    return _films(member, parse, "film::title::genres", _utf8_or_latin1(member))


def _flag_films(member: Member, archive: Archive) -> Films:
    genres = _flag_names(archive)

    def parse(line: str) -> tuple[int, str, tuple[str, ...]]:
        cells = line.split("|")
        flags = cells[5:]
        if len(flags) != len(genres) or not set(flags) <= {"0", "1"}:
            raise ValueError
        return int(cells[0]), cells[1], tuple(name for name, flag in zip(genres, flags, strict=True) if flag == "1")

    expected = f"film|title|release|video release|address and {len(genres)} flags 0 or 1"
    return _films(member, parse, expected, member.lines("latin-1"))


def _flag_names(archive: Archive) -> tuple[str, ...]:
    member = archive.find("u.genre")
    if member is None:
        return FLAGS

    def parse(line: str) -> tuple[int, str]:
        name, number = line.split("|")
        return int(number), name

    found = sorted(row for chunk in parsed(member, parse, "genre|number") for row in chunk)
    return tuple(name for _, name in found)


def _utf8_or_latin1(member: Member) -> Iterator[tuple[int, str]]:
    try:
        member.read().decode("utf-8")
    except UnicodeDecodeError:
        return member.lines("latin-1")
    return member.lines()


def _films(member: Member, parse: Any, expected: str, lines: Iterator[tuple[int, str]]) -> Films:
    try:
        rows = [row for chunk in parsed(member, parse, expected, lines=lines) for row in chunk]
    except csv.Error as error:
        raise DataError(f"{member} has a title with unbalanced quotes ({error}); download it again") from error
    return {number: (title, genres) for number, title, genres in rows}


def _split(genres: str) -> tuple[str, ...]:
    return tuple(name for name in genres.strip().split("|") if name and name != NO_GENRE)


def _genres(films: Films) -> Items:
    """Return a feature of 0 and 1 for every genre; one that all films or none have says nothing."""
    names = sorted({name for _, genres in films.values() for name in genres})
    flags = np.array([[name in genres for name in names] for _, genres in films.values()], dtype=float)
    flags = flags.reshape(len(films), len(names))
    varied = flags.std(axis=0) > 0
    if not varied.any():
        raise DataError(
            f"the {len(films):,} films do not differ in genre; give {option('features=', '--features')} of your own"
        )
    return Items(
        np.array(list(films), dtype=np.int64), flags[:, varied], [n for n, v in zip(names, varied, strict=True) if v]
    )


def _genome(archive: Archive) -> Items:
    """Return the relevance of every tag; a film has all of them or is not in the file."""
    scores = archive.need("genome-scores.csv", purpose=", because features='genome' asks for it")

    def parse(line: str) -> tuple[int, int, float]:
        film, tag, relevance = line.split(",")
        return int(film), int(tag), float(relevance)

    lines = _after_header(scores, "movieId,tagId,relevance")
    table = ratings_of_rows(parsed(scores, parse, "movieId,tagId,relevance", lines=lines))
    films, row = np.unique(table.user, return_inverse=True)
    tags, column = np.unique(table.item, return_inverse=True)
    values = np.full((films.size, tags.size), np.nan)
    values[row, column] = table.rating
    whole = ~np.isnan(values).any(axis=1)
    if not whole.any():
        raise DataError(f"no film has a relevance for all of the {tags.size} tags in {scores}; download it again")
    return Items(films[whole], values[whole], _tag_names(archive, tags.tolist()))


def _tag_names(archive: Archive, tags: list[int]) -> list[str]:
    member = archive.find("genome-tags.csv")
    known: dict[int, str] = {}
    if member is not None:

        def parse(line: str) -> tuple[int, str]:
            number, name = next(csv.reader([line], strict=True))
            return int(number), name

        known = dict(
            row
            for chunk in parsed(member, parse, "tagId,tag", lines=_after_header(member, "tagId,tag"))
            for row in chunk
        )
    return [known.get(tag, f"tag {tag}") for tag in tags]
