"""The SUSHI preference data of T. Kamishima (sushi3): rankings and scores of 100 kinds of sushi by 5,000 people.

::

    sushi3.idata             number, name, style, major group, minor group, oiliness, eaten, price, sold  (tabs)
    sushi3.udata             number of the person, and ten facts about them                               (tabs)
    sushi3a.5000.10.order    '10 1', then one line per person: '0 10' and the items of set A, best first
    sushi3b.5000.10.order    '100 1', then one line per person: '0 10' and the items of set B, best first
    sushi3b.5000.10.score    one line per person: 100 scores, 0 (disliked) to 4, −1 not scored

Items of set A have numbers of their own, 0 to 9: its 5 is *ikura*, which is 6 in sushi3.idata. Their names tell, in
Latin or Japanese letters; where a copy of the file has other names, the numbers of the distributed file do. Copies on
the web may have lines of column names first (``#name …``), in any of the files, and other encodings of Japanese.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import dropwhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.datasets.archive import Archive, Member, parsed
from crowdmetric.datasets.dataset import Dataset
from crowdmetric.datasets.rated import RatedRows, dataset_of, given_items
from crowdmetric.errors import DataError
from crowdmetric.tables import Items

__all__ = ["ANSWERS", "load_sushi"]

KIND = "the Sushi data"
# Set A by its own numbers; the file of items numbers set B.
SET_A = {
    "ebi": ("海老", "えび", "エビ"), "anago": ("穴子", "あなご"), "maguro": ("鮪", "まぐろ", "マグロ"),
    "ika": ("烏賊", "いか", "イカ"), "uni": ("雲丹", "海胆", "うに", "ウニ"), "ikura": ("いくら", "イクラ"),
    "tamago": ("玉子", "卵", "たまご"), "toro": ("とろ", "トロ"), "tekka_maki": ("鉄火巻", "鉄火巻き"),
    "kappa_maki": ("かっぱ巻", "かっぱ巻き", "カッパ巻", "河童巻"),
}  # fmt: skip
# Their numbers in the file of items as it is distributed, and how many items that has.
NUMBERS_A, ITEMS = (0, 1, 2, 3, 4, 6, 7, 8, 26, 29), 100
ENCODINGS = ("utf-8", "euc_jp", "shift_jis")
GROUPS = (
    "blue fish", "red fish", "white fish", "eel", "clam", "squid", "shrimp", "roe", "other seafood", "egg", "meat",
    "vegetables",
)  # fmt: skip
Array = NDArray[np.float64]
# Number, name and seven features of each item.
Table = list[tuple[int, str, list[float]]]


def load_sushi(
    path: str | os.PathLike[str],
    *,
    answers: str = "b",
    groups: bool = False,
    features: Any = None,
    pairs: int | None = 20,
    people: int | None = None,
    gap: float = 0.0,
    seed: int = 0,
) -> Dataset:
    """Return the Sushi data from the folder or zip file they are distributed in.

    Parameters
    ----------
    path : path
        With ``sushi3.idata`` and one of the files of answers.
    answers : {'b', 'a', 'scores'}
        Rankings of ten of the 100 kinds, different for everybody; rankings of the same ten kinds; or scores.
    groups : bool
        Also the twelve minor groups, one feature of 0 and 1 each.
    features : items for `read_items`, optional
        Your own, with the numbers of ``sushi3.idata`` in item_id, instead of these six: maki and seafood (1 or 0),
        lightness (0 oily to 4), eaten (how often, 0 to 3), price (normalized) and sold (how often, 0 to 1).
    pairs : int or None
        Comparisons per person to keep; None: all 45 of a ranking.
    people : int or None
        How many people to keep.
    gap : float
        How many ranks, or points, two items must be apart.
    seed : int
        Random seed of what is kept.
    """
    if answers not in ANSWERS:
        raise DataError(f"answers={answers!r} is not one of {', '.join(map(repr, ANSWERS))}")
    archive = Archive(path, KIND)
    table = _read_items(archive.need("sushi3.idata"))
    names = {int(row[0]): row[1] for row in table}
    if len(names) < len(table):
        raise DataError(
            f"sushi3.idata in {archive.path} has {len(table) - len(names)} numbers twice; download it again"
        )
    read, what = ANSWERS[answers]
    ratings = read(archive, table)
    items = _features(table, groups) if features is None else given_items(features, names, KIND)
    return dataset_of(
        "Sushi", items, names, _numbered(archive, ratings), what=what, pairs=pairs, people=people, gap=gap, seed=seed
    )


def _read_items(member: Member) -> Table:
    def parse(line: str) -> tuple[int, str, list[float]]:
        cells = line.split("\t")
        values = [float(cell) for cell in cells[2:]]
        if len(values) != 7 or not 0 <= values[2] < len(GROUPS):
            raise ValueError
        return int(cells[0]), cells[1], values

    expected = "a number, a name and seven features, with tabs between,"
    lines = _lines_of_items(member)
    return [row for chunk in parsed(member, parse, expected, lines=lines) for row in chunk]


def _lines_of_items(member: Member) -> list[tuple[int, str]]:
    """Return the numbered lines, whatever Japanese is encoded in, without a first line of column names."""
    for encoding in ENCODINGS[:-1]:
        try:
            lines = list(member.lines(encoding))
            break
        except DataError:  # not that encoding
            continue
    else:
        lines = list(member.lines(ENCODINGS[-1]))
    return _without_header(lines)


def _without_header(lines: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the numbered lines of a file of numbers, without those before the first that begins with one."""
    lines = list(lines)
    return list(dropwhile(lambda line: not line[1].split()[0].lstrip("-").isdigit(), lines)) or lines


def _features(table: Table, groups: bool) -> Items:
    values = np.array([row[2] for row in table])
    style, major, minor, lightness, eaten, price, sold = values.T
    columns = {
        "maki": 1.0 - style, "seafood": 1.0 - major, "lightness": lightness, "eaten": eaten, "price": price,
        "sold": sold,
    }  # fmt: skip
    if groups:
        columns |= {name: (minor == number).astype(float) for number, name in enumerate(GROUPS)}
    return Items(np.array([row[0] for row in table]), np.column_stack(list(columns.values())), list(columns))


def _orders(member: Member, numbers: list[int]) -> RatedRows:
    """Return rankings as ratings −1, −2, …; `numbers` are the items as the file counts them."""
    lines = iter(_without_header(member.lines()))
    _, header = next(lines, (1, ""))
    if not header.split() or header.split()[0] != str(len(numbers)):
        raise DataError(
            f"line 1 of {member} is {header!r}; '{len(numbers)} 1' was expected, the number of items; download it again"
        )

    def parse(line: str) -> list[int]:
        _, length, *order = (int(cell) for cell in line.split())
        if len(order) != length or len(set(order)) != length or min(order) < 0:
            raise ValueError
        return [numbers[item] for item in order]

    orders = [row for chunk in parsed(member, parse, "'0 10' and ten different items", lines=lines) for row in chunk]
    lengths = np.array([len(order) for order in orders], dtype=np.int64)
    user = np.repeat(np.arange(len(orders)), lengths)
    item = np.array([number for order in orders for number in order], dtype=np.int64)
    rank = np.arange(len(user)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return RatedRows(user, item, -1.0 - rank.astype(np.float64))


def _set_a(archive: Archive, table: Table) -> RatedRows:
    number = {name.strip().lower().replace("-", "_"): number for number, name, _ in table}
    found = [
        next((number[name] for name in (latin, *others) if name in number), None) for latin, others in SET_A.items()
    ]
    numbers = [place for place in found if place is not None]
    if len(numbers) < len(SET_A):
        if not _is_as_distributed(table):
            missing = list(SET_A)[found.index(None)]
            raise DataError(f"sushi3.idata in {archive.path} has no {missing!r}, which is in set A; download it again")
        numbers = list(NUMBERS_A)
    return _orders(archive.need("sushi3a.*.order"), numbers)


def _is_as_distributed(table: Table) -> bool:
    """Return whether items have the numbers of the distributed file: then the last two of set A alone are rolls."""
    style = {number: values[0] for number, _, values in table}
    return sorted(style) == list(range(ITEMS)) and [style[number] for number in NUMBERS_A] == [1.0] * 8 + [0.0] * 2


def _set_b(archive: Archive, table: Table) -> RatedRows:
    return _orders(archive.need("sushi3b.*.order"), sorted(row[0] for row in table))


def _scores(archive: Archive, table: Table) -> RatedRows:
    member = archive.need("sushi3b.*.score")
    names = {row[0] for row in table}
    numbers = np.array(sorted(names))

    def parse(line: str) -> list[float]:
        scores = [float(cell) for cell in line.split()]
        if len(scores) != len(numbers) or not all(score in (-1, 0, 1, 2, 3, 4) for score in scores):
            raise ValueError
        return scores

    expected = f"a score from 0 to 4, or −1, for each of {len(numbers)} items"
    lines = _without_header(member.lines())
    found = [row for chunk in parsed(member, parse, expected, lines=lines) for row in chunk]
    rows = np.array(found).reshape(-1, len(numbers))
    user, place = np.nonzero(rows >= 0)
    ratings = RatedRows(user, numbers[place], rows[user, place])
    order = archive.find("sushi3b.*.order")
    if order is not None:
        _check_direction(member, rows, _orders(order, sorted(names)), numbers)
    return ratings


def _check_direction(member: Member, table: Array, orders: RatedRows, numbers: NDArray[Any]) -> None:
    """Refuse scores that run against the rankings of the same people: old copies of the file have them inverted."""
    place = np.searchsorted(numbers, orders.item)
    known = orders.user < len(table)
    score = table[orders.user[known], place[known]]
    rank = orders.rating[known]
    user = orders.user[known]
    follows = (user[1:] == user[:-1]) & (score[1:] >= 0) & (score[:-1] >= 0)
    with_order = np.sum(np.sign(score[:-1] - score[1:])[follows] * np.sign(rank[:-1] - rank[1:])[follows])
    if with_order < 0:
        raise DataError(
            f"the scores in {member} run against the rankings of the same people; copies from before 29 December 2015 "
            "have 0 for the best: download the file again"
        )


def _numbered(archive: Archive, ratings: RatedRows) -> RatedRows:
    """Return the same with people by their numbers in sushi3.udata, where that is there; else by line, from 0."""
    member = archive.find("sushi3.udata")
    if member is None:
        return ratings
    people = [
        row
        for chunk in parsed(
            member,
            lambda line: int(line.split("\t")[0]),
            "the number of a person",
            lines=_without_header(member.lines()),
        )
        for row in chunk
    ]
    lines = int(ratings.user.max(initial=-1)) + 1
    if len(people) < lines:
        raise DataError(
            f"{member} has {len(people):,} people, but {lines:,} answered; the files go together: download both again"
        )
    return RatedRows(np.array(people)[ratings.user], ratings.item, ratings.rating)


ANSWERS: dict[str, tuple[Callable[[Archive, Table], RatedRows], str]] = {
    "b": (_set_b, "ranked"),
    "a": (_set_a, "ranked"),
    "scores": (_scores, "scored"),
}
