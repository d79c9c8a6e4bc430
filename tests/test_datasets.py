"""Data sets in the formats they are distributed in: read right, ids in place, and sentences for what is wrong.

The files here are tiny and made up; only their layout is that of the originals.
"""

from __future__ import annotations

import itertools
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from crowdmetric.cli import main
from crowdmetric.datasets import Dataset, load_jester, load_movielens, load_sushi, load_tidy, load_travel
from crowdmetric.datasets.pairs import pairs_of_ratings
from crowdmetric.errors import DataError, ModelFileError
from crowdmetric.tables import read_items

# ----------------------------------------------------------------------------------------- ratings -> comparisons


def brute_force(user, item, rating, gap=0.0):
    """Return {(user, better, worse)} by looking at every two ratings."""
    rows = list(zip(user, item, rating, strict=True))
    return {
        (u, a, b)
        for (u, a, r), (v, b, s) in itertools.permutations(rows, 2)
        if u == v and (r > s if gap == 0 else r - s >= gap)
    }


def preferred(found) -> list[tuple[int, int, int]]:
    better = np.where(found.response < 0, found.left, found.right)
    worse = np.where(found.response < 0, found.right, found.left)
    return list(zip(found.user.tolist(), better.tolist(), worse.tolist(), strict=True))


@pytest.fixture
def ratings():
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(6), 9)
    item = np.concatenate([rng.permutation(12)[:9] for _ in range(6)])
    return user, item, rng.integers(1, 6, size=54).astype(float)


@pytest.mark.parametrize("gap", [0.0, 1.0, 2.0])
def test_all_pairs_are_those_that_differ_and_the_higher_wins(ratings, gap) -> None:
    found = pairs_of_ratings(*ratings, most=None, gap=gap)
    wanted = brute_force(*ratings, gap=gap)
    assert len(found.user) == len(wanted)  # none twice
    assert set(preferred(found)) == wanted
    assert found.tied == 6 * 36 - len(wanted)
    assert found.spared == 0


def test_some_pairs_are_drawn_without_repetition_and_uniformly(ratings) -> None:
    wanted = brute_force(*ratings)
    counts = dict.fromkeys(wanted, 0)
    for seed in range(400):
        drawn = preferred(pairs_of_ratings(*ratings, most=5, seed=seed))
        assert len(drawn) == len(set(drawn)) == 30
        for pair in drawn:
            counts[pair] += 1
    for person in range(6):
        mine = np.array([count for (user, _, _), count in counts.items() if user == person])
        expected = 400 * 5 / len(mine)
        # a count is nearly binomial: six standard deviations are never met by chance
        assert np.all(np.abs(mine - expected) < 6 * np.sqrt(expected))


def test_left_means_nothing_and_seeds_and_order_of_rows_are_what_they_should_be(ratings) -> None:
    found = pairs_of_ratings(*ratings, most=None)
    assert 0.3 < np.mean(found.response < 0) < 0.7
    shuffled = np.random.default_rng(1).permutation(54)
    again = pairs_of_ratings(*(part[shuffled] for part in ratings), most=5, seed=3)
    assert preferred(again) == preferred(pairs_of_ratings(*ratings, most=5, seed=3))
    assert preferred(again) != preferred(pairs_of_ratings(*ratings, most=5, seed=4))


def test_somebody_with_many_ratings_is_cheap() -> None:
    n = 30_000  # 450 million pairs
    found = pairs_of_ratings(np.zeros(n, int), np.arange(n), np.arange(n) % 10 / 2.0, most=20)
    assert len(found.user) == 20
    assert found.tied + found.spared + 20 == n * (n - 1) // 2


@pytest.mark.parametrize(
    ("option", "sentence"), [({"most": 0}, "at least 1"), ({"most": 1, "gap": -1.0}, "at least 0")]
)
def test_options_of_pairs_are_checked(option, sentence, ratings) -> None:
    with pytest.raises(DataError, match=sentence):
        pairs_of_ratings(*ratings, **option)


# ---------------------------------------------------------------------------------------------------------- Sushi

NAMES = {0: "ebi", 1: "anago", 2: "maguro", 3: "ika", 4: "uni", 5: "tako", 6: "ikura", 7: "tamago", 8: "toro"}
NAMES |= {9: "amaebi", 10: "tekka_maki", 11: "kappa_maki"}


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


@pytest.fixture
def sushi(tmp_path) -> Path:
    folder = tmp_path / "sushi3-2016"
    rows = [f"{i}\t{name}\t{int('maki' not in name)}\t0\t{i}\t{i / 4}\t1.5\t2.25\t0.5" for i, name in NAMES.items()]
    write(folder / "sushi3.idata", "\n".join(rows) + "\n")
    write(folder / "sushi3.udata", "".join(f"{100 + k}\t0\t2\t300\t5\t1\t0\t5\t1\t0\t0\n" for k in range(2)))
    write(folder / "sushi3a.5000.10.order", "10 1\n0 10 5 0 3 4 6 9 8 1 7 2\n0 10 0 9 6 3 7 2 8 1 5 4\n")
    write(folder / "sushi3b.5000.10.order", "12 1\n0 3 5 11 2\n0 3 10 1 0\n")
    scores = ["4 -1 0 -1 -1 3 -1 -1 -1 -1 -1 1", "0 1 -1 -1 -1 -1 -1 -1 -1 -1 4 1"]
    write(folder / "sushi3b.5000.10.score", "\n".join(scores) + "\n")
    return folder


def answers_of(data: Dataset) -> set[tuple]:
    """Return who preferred what to what, by ids."""
    columns = data.comparisons.columns()
    sides = zip(*(columns[name].tolist() for name in ("user", "left", "right", "response")), strict=True)
    return {(user, left, right) if y < 0 else (user, right, left) for user, left, right, y in sides}


@pytest.mark.parametrize("encoding", ["utf-8", "euc_jp", "shift_jis"])
@pytest.mark.parametrize(
    "header", ["", "id\tname\tstyle\tmajor\tminor\theavy\teaten\tprice\tsold\n", "# sushi3\n#name style major group\n"]
)
def test_sushi_is_read_as_mirrors_have_it(sushi, encoding, header) -> None:
    """A line of column names, and the names of set A in Japanese."""
    expected = answers_of(load_sushi(sushi, answers="a", pairs=None))
    japanese = {"ebi": "海老", "anago": "穴子", "maguro": "まぐろ", "ika": "いか", "uni": "うに", "ikura": "いくら",
                "tamago": "玉子", "toro": "とろ", "tekka_maki": "鉄火巻", "kappa_maki": "かっぱ巻"}  # fmt: skip
    text = (sushi / "sushi3.idata").read_text(encoding="utf-8")
    cells = [line.split("\t") for line in text.splitlines()]
    rows = ["\t".join([cell[0], japanese.get(cell[1], cell[1]), *cell[2:]]) for cell in cells]
    (sushi / "sushi3.idata").write_bytes((header + "\n".join(rows) + "\n").encode(encoding))
    found = load_sushi(sushi, answers="a", pairs=None)
    assert answers_of(found) == expected
    assert "いくら" in found.item_names.tolist()


def test_sushi_of_other_names_goes_by_the_numbers_of_the_original(sushi) -> None:
    rows = [f"{i}\tkind {i}\t{int(i not in (26, 29))}\t0\t1\t1\t1.5\t2.25\t0.5" for i in range(100)]
    write(sushi / "sushi3.idata", "\n".join(rows) + "\n")
    write(sushi / "sushi3a.5000.10.order", "10 1\n0 2 5 8\n0 2 9 0\n")
    assert answers_of(load_sushi(sushi, answers="a", pairs=None)) == {(100, 6, 26), (101, 29, 0)}
    rows[26] = rows[26].replace("kind 26\t0", "kind 26\t1")
    write(sushi / "sushi3.idata", "\n".join(rows) + "\n")
    with pytest.raises(DataError, match="has no 'ebi', which is in set A"):
        load_sushi(sushi, answers="a")


def test_sushi_rankings_become_pairs(sushi) -> None:
    data = load_sushi(sushi, pairs=None)
    assert answers_of(data) == {(100, 5, 11), (100, 5, 2), (100, 11, 2), (101, 10, 1), (101, 10, 0), (101, 1, 0)}
    assert data.items.feature_names == ["maki", "seafood", "lightness", "eaten", "price", "sold"]
    assert data.items.features[10].tolist() == [1.0, 1.0, 2.5, 1.5, 2.25, 0.5]
    assert data.item_names[5] == "tako"
    assert "ranked one higher" in data.rule
    assert "not rows" in data.summary()


def test_sushi_set_a_has_numbers_of_its_own(sushi) -> None:
    won = answers_of(load_sushi(sushi, answers="a", pairs=None).named())
    # '5 0 …' is ikura before ebi: 5 in sushi3.idata would be tako, which nobody was shown
    assert (100, "ikura", "ebi") in won
    assert (101, "ebi", "kappa_maki") in won
    assert not any("tako" in row or "amaebi" in row for row in won)
    assert len(won) == 2 * 45


def test_sushi_scores_drop_ties_and_gaps(sushi) -> None:
    data = load_sushi(sushi, answers="scores", pairs=None)
    assert (100, 0, 5) in answers_of(data)
    assert not {(101, 1, 11), (101, 11, 1)} & answers_of(data)
    assert data.comparisons.dropped == {"tied": 1}
    assert (100, 0, 5) not in answers_of(load_sushi(sushi, answers="scores", pairs=None, gap=2))


def test_sushi_groups_and_own_features(sushi) -> None:
    assert load_sushi(sushi, groups=True).items.features.shape == (12, 18)
    own = {"item_id": [5, 11, 2], "sweet": [1.0, 2.0, 3.0]}
    data = load_sushi(sushi, features=own, pairs=None)
    assert answers_of(data) == {(100, 5, 11), (100, 5, 2), (100, 11, 2)}
    assert data.comparisons.dropped["ratings of items without features"] == 3


def test_inverted_scores_of_old_copies_are_noticed(sushi) -> None:
    write(sushi / "sushi3b.5000.10.score", "0 -1 4 -1 -1 1 -1 -1 -1 -1 -1 3\n4 3 -1 -1 -1 -1 -1 -1 -1 -1 0 3\n")
    with pytest.raises(DataError, match="run against the rankings"):
        load_sushi(sushi, answers="scores")


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("sushi3.idata", "0\tebi\t1\n", "line 1 of .*seven features"),
        ("sushi3b.5000.10.order", "100 1\n", "line 1 of .* '12 1' was expected"),
        ("sushi3b.5000.10.order", "12 1\n0 3 1 2 3\n0 3 1 2\n", "line 3 of .*'0 3 1 2'"),
        ("sushi3b.5000.10.order", "12 1\n0 2 1 77\n", "line 2 of"),
        ("sushi3b.5000.10.order", "12 1\n0 2 1 0\n0 2 1 0\n0 2 1 0\n", "2 people, but 3 answered"),
    ],
)
def test_damaged_sushi_names_the_line(file, text, sentence, sushi) -> None:
    write(sushi / file, text)
    with pytest.raises(DataError, match=sentence):
        load_sushi(sushi)


def test_damaged_scores_name_the_line(sushi) -> None:
    write(sushi / "sushi3b.5000.10.score", "4 -1 0 -1 -1 3 -1 -1 -1 -1 -1 1\n9 0\n")
    with pytest.raises(DataError, match=r"line 2 of .* a score from 0 to 4"):
        load_sushi(sushi, answers="scores")


# ------------------------------------------------------------------------------------------------------ MovieLens

FILMS = {1: ("Story of a Toy (1995)", "Animation|Comedy"), 2: ("Café, The (1996)", "Drama"), 7: ("Nil (2001)", "")}
STARS = [(1, 1, 5.0), (1, 2, 3.0), (1, 7, 3.0), (9, 2, 4.0), (9, 1, 2.0)]
WANTED = {(1, 1, 2), (1, 1, 7), (9, 2, 1)}
HEADER = "userId,movieId,rating,timestamp\n"


def movielens_csv(folder: Path) -> Path:
    rows = [f"{u},{i},{r},964982703" for u, i, r in STARS]
    write(folder / "ratings.csv", "userId,movieId,rating,timestamp\r\n" + "\r\n".join(rows) + "\r\n")
    films = [f'{i},"{t}",{g or "(no genres listed)"}' for i, (t, g) in FILMS.items()]
    write(folder / "movies.csv", "movieId,title,genres\n" + "\n".join(films) + "\n")
    write(folder / "genome-tags.csv", "tagId,tag\n1,funny\n2,slow\n")
    write(folder / "genome-scores.csv", "movieId,tagId,relevance\n1,1,0.9\n1,2,0.1\n2,1,0.2\n2,2,0.75\n7,1,0.5\n")
    return folder


def movielens_dat(folder: Path) -> Path:
    write(folder / "ratings.dat", "".join(f"{u}::{i}::{r:g}::978300760\n" for u, i, r in STARS))
    write(folder / "movies.dat", "".join(f"{i}::{t}::{g}\n" for i, (t, g) in FILMS.items()), "latin-1")
    return folder


def movielens_100k(folder: Path) -> Path:
    write(folder / "u.data", "".join(f"{u}\t{i}\t{r:g}\t881250949\n" for u, i, r in STARS))
    flags = {1: "0|1|1|0", 2: "0|0|0|1", 7: "1|0|0|0"}
    rows = [f"{i}|{t}|01-Jan-1995||http://films.example/{i}|{flags[i]}\n" for i, (t, _) in FILMS.items()]
    write(folder / "u.item", "".join(rows), "latin-1")
    write(folder / "u.genre", "unknown|0\nAnimation|1\nComedy|2\nDrama|3\n\n")
    return folder


@pytest.mark.parametrize("layout", [movielens_csv, movielens_dat, movielens_100k])
def test_movielens_in_every_layout(layout, tmp_path) -> None:
    data = load_movielens(layout(tmp_path / "ml"), pairs=None)
    assert answers_of(data) == WANTED
    assert data.comparisons.dropped == {"tied": 1}
    assert data.item_names.tolist() == [title for title, _ in FILMS.values()]
    columns = dict(zip(data.items.feature_names, data.items.features.T.tolist(), strict=True))
    assert columns["Animation"] == columns["Comedy"] == [1, 0, 0]
    assert columns["Drama"] == [0, 1, 0]


def test_movielens_genome_and_a_zip_file(tmp_path) -> None:
    movielens_csv(tmp_path / "ml-25m")
    with zipfile.ZipFile(tmp_path / "ml-25m.zip", "w") as archive:
        for file in (tmp_path / "ml-25m").iterdir():
            archive.write(file, f"ml-25m/{file.name}")
    data = load_movielens(tmp_path / "ml-25m.zip", features="genome", pairs=None)
    assert data.items.feature_names == ["funny", "slow"]
    assert data.items.features.tolist() == [[0.9, 0.1], [0.2, 0.75]]
    assert answers_of(data) == {(1, 1, 2), (9, 2, 1)}  # film 7 lacks a tag
    assert data.comparisons.dropped["ratings of items without features"] == 1


def test_flags_of_ml_100k_have_names_without_u_genre(tmp_path) -> None:
    folder = movielens_100k(tmp_path / "ml")
    (folder / "u.genre").unlink()
    flags = "0|0|0|1|0|1" + "|0" * 13
    write(folder / "u.item", f"1|A|d||u|{flags}\n2|B|d||u|0|1{'|0' * 17}\n7|C|d||u{'|0' * 19}\n")
    assert load_movielens(folder).items.feature_names == ["Action", "Animation", "Comedy"]


def test_people_and_pairs_are_limited_and_the_last_rating_counts(tmp_path) -> None:
    folder = movielens_csv(tmp_path / "ml")
    with (folder / "ratings.csv").open("a", encoding="utf-8") as file:
        file.write("9,1,4.5,964982999\n")
    data = load_movielens(folder, pairs=1)
    assert (9, 1, 2) in answers_of(data)
    assert data.comparisons.dropped == {
        "ratings that the same person gave anew": 1, "tied": 1, "more than the maximum per person": 1,
    }  # fmt: skip
    assert load_movielens(folder, people=1).comparisons.n_users == 1


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("ratings.csv", f"{HEADER}1,1,4.0,9\n1,2,good,9\n", "line 3 of .*ratings.csv is '1,2,good,9'"),
        ("ratings.csv", f"{HEADER}1,1,17,9\n", "line 2 of .* 0 to 5"),
        ("ratings.csv", "1,1,4.0,9\n", "line 1 of .*header"),
        ("movies.csv", "movieId,title,genres\n1;A;Drama\n", "line 2 of .*movies.csv"),
        ("ratings.csv", f"{HEADER}1,1,4.0,9\n1,2,4.0,9\n", "nobody in MovieLens has rated one item higher"),
    ],
)
def test_damaged_movielens_names_the_line(file, text, sentence, tmp_path) -> None:
    folder = movielens_csv(tmp_path / "ml")
    write(folder / file, text)
    with pytest.raises(DataError, match=sentence):
        load_movielens(folder)


# --------------------------------------------------------------------------------------------------------- Jester

JOKES = {1: "A man visits the doctor.", 2: "What is a physicist?", 3: "Two men walk into a bar."}
MATRIX = [[2, -7.82, 8.79, 99], [3, 4.08, -0.29, 6.36]]
LAUGHS = {(1, 2, 1), (2, 1, 2), (2, 3, 1), (2, 3, 2)}


def old_excel(path: Path, rows: list[list[float]]) -> None:
    """Write the oldest .xls there is (BIFF 2): a beginning, a record a number, an end."""
    cells = b"".join(
        struct.pack("<HHHH3xd", 3, 15, i, j, value) for i, row in enumerate(rows) for j, value in enumerate(row)
    )
    path.write_bytes(struct.pack("<HHHH", 9, 4, 2, 0x10) + cells + struct.pack("<HH", 10, 0))


def new_excel(path: Path, rows: list[list]) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)


def ratings_xls(folder: Path) -> None:
    pytest.importorskip("xlrd")
    old_excel(folder / "jester-data-1.xls", MATRIX[:1])
    old_excel(folder / "jester-data-2.xls", MATRIX[1:])


def ratings_xlsx(folder: Path) -> None:
    blank = [None if value == 99 else value for value in MATRIX[0]]
    new_excel(folder / "[final] April 2015 to Nov 30 2019 - Transformed Jester Data - .xlsx", [blank, MATRIX[1]])


def ratings_csv(folder: Path) -> None:
    write(folder / "jesterfinal151cols.csv", "".join(",".join(map(str, row)) + "\n" for row in MATRIX))


def ratings_dat(folder: Path) -> None:
    rows = [(u + 1, j, r) for u, row in enumerate(MATRIX) for j, r in enumerate(row[1:], start=1) if r != 99]
    write(folder / "jester_ratings.dat", "".join(f"{u}\t\t{j}\t\t{r}\n" for u, j, r in rows))


def ratings_header(folder: Path) -> None:
    rows = [(u + 1, j, r) for u, row in enumerate(MATRIX) for j, r in enumerate(row[1:], start=1)]
    write(folder / "jester_ratings.csv", "userId,jokeId,rating\n" + "".join(f"{u},{j},{r}\n" for u, j, r in rows))


def jokes_html(folder: Path) -> None:
    for number, text in JOKES.items():
        page = f"<html><title>Jester</title><!--begin of joke -->\n<p>{text}</p>\n<!--end of joke --><a>menu</a></html>"
        write(folder / "jokes" / f"init{number}.html", page)


def jokes_dat(folder: Path) -> None:
    write(folder / "jester_items.dat", "".join(f"{n}:\n<p>\n{text}<br />\n</p>\n\n\n" for n, text in JOKES.items()))


def jokes_csv(folder: Path) -> None:
    write(folder / "jester_items.csv", "jokeId,jokeText\n" + "".join(f'{n},"{t}\n"\n' for n, t in JOKES.items()))


def jokes_xlsx(folder: Path) -> None:
    new_excel(folder / "Dataset3JokeSet.xlsx", [[text] for text in JOKES.values()])


@pytest.mark.parametrize("jokes", [jokes_html, jokes_dat, jokes_csv, jokes_xlsx])
@pytest.mark.parametrize("ratings", [ratings_xls, ratings_xlsx, ratings_csv, ratings_dat, ratings_header])
def test_jester_in_every_layout(ratings, jokes, tmp_path) -> None:
    folder = tmp_path / "jester"
    folder.mkdir()
    ratings(folder)
    jokes(folder)
    data = load_jester(folder, pairs=None, components=2)
    assert answers_of(data) == LAUGHS
    assert data.item_names.tolist() == [f"{number}: {text}" for number, text in JOKES.items()]
    assert data.items.features.shape == (3, 2)
    assert np.allclose(np.linalg.norm(data.items.features, axis=1), 1.0)


def test_jester_takes_embeddings_in_place_of_words(tmp_path) -> None:
    ratings_dat(tmp_path)
    np.savez(tmp_path / "embedding.npz", item_id=np.arange(1, 4), f=np.eye(3))
    data = load_jester(tmp_path, features=tmp_path / "embedding.npz", pairs=None)
    assert answers_of(data) == LAUGHS
    assert data.item_names[0] == "joke 1"
    with pytest.raises(DataError, match="whose words are their only features"):
        load_jester(tmp_path)
    with pytest.raises(DataError, match="of none of the 3 items"):
        load_jester(tmp_path, features={"item_id": [70, 80], "f": [0.0, 1.0]})
    with pytest.raises(DataError, match="by text"):
        load_jester(tmp_path, features={"item_id": ["a", "b"], "f": [0.0, 1.0]})


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("jester_ratings.dat", "1\t\t2\t\t3.5\n1\t\t3\n", "line 2 of .*a person, a joke and a rating"),
        ("jester_ratings.dat", "1\t\t2\t\t35\n", "line 1 of"),
        ("jester-data-1.csv", "2,-7.82,8.79,99\n-7.82,8.79,99,1\n", "row 2 of .* how many jokes were rated"),
        ("jester-data-1.csv", "2,-7.82,8.79,99\n1,2\n", "row 2 of .* has 1 ratings, but the first has 3"),
        ("jester-data-1.xls", "not a spreadsheet", "cannot be read as an Excel file"),
    ],
)
def test_damaged_jester_names_the_line(file, text, sentence, tmp_path) -> None:
    jokes_dat(tmp_path)
    write(tmp_path / file, text)
    with pytest.raises(DataError, match=sentence):
        load_jester(tmp_path, components=2)


def test_more_directions_than_jokes_are_refused(tmp_path) -> None:
    ratings_dat(tmp_path)
    jokes_dat(tmp_path)
    with pytest.raises(DataError, match="components=16 is not between 1 and 2"):
        load_jester(tmp_path)


# ------------------------------------------------------------------------------------------- folders and commands


@pytest.mark.parametrize("load", [load_sushi, load_movielens, load_jester])
def test_a_wrong_place_is_said_to_be(load, tmp_path) -> None:
    with pytest.raises(DataError, match="there is no folder or file"):
        load(tmp_path / "absent")
    with pytest.raises(DataError, match="but there is nothing"):
        load(tmp_path)
    file = write(tmp_path / "holiday.jpg", "x")
    with pytest.raises(DataError, match=r"but there is holiday\.jpg"):
        load(tmp_path)
    with pytest.raises(DataError, match="neither a folder nor a zip file"):
        load(file)


def test_a_missing_file_is_named_with_what_is_there(tmp_path) -> None:
    folder = movielens_csv(tmp_path / "ml")
    (folder / "movies.csv").unlink()
    with pytest.raises(
        DataError, match=r"movies\.csv was expected beside ratings\.csv, but there is genome-scores\.csv"
    ):
        load_movielens(folder)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_is_written_is_read_again(kind, tmp_path) -> None:
    data = load_movielens(movielens_csv(tmp_path / "ml"), pairs=None).named()
    data.write(tmp_path / "tidy", format=kind)
    again = load_tidy(tmp_path / "tidy")
    assert answers_of(again) == answers_of(data)
    assert again.items.ids.tolist() == data.items.ids.tolist() == again.item_names.tolist()
    assert np.array_equal(again.items.features, data.items.features)
    assert "rated one higher" in json.loads((tmp_path / "tidy" / "origin.json").read_text(encoding="utf-8"))["rule"]
    with pytest.raises(ModelFileError, match="overwrite=True"):
        data.write(tmp_path / "tidy")
    write(tmp_path / "tidy" / "mine.txt", "keep me")
    with pytest.raises(ModelFileError, match="does not replace"):
        data.write(tmp_path / "tidy", overwrite=True)


def test_items_of_one_name_keep_their_numbers(tmp_path) -> None:
    folder = movielens_csv(tmp_path / "ml")
    write(folder / "movies.csv", "movieId,title,genres\n1,Twin (1995),Drama\n2,Twin (1995),War\n7,Else (2001),War\n")
    named = load_movielens(folder, pairs=None).named()
    assert named.items.ids.tolist() == ["Twin (1995) [1]", "Twin (1995) [2]", "Else (2001)"]
    assert (1, "Twin (1995) [1]", "Else (2001)") in answers_of(named)


def test_tidy_folders_have_names_where_they_say_so(tmp_path) -> None:
    write(tmp_path / "items.csv", "item_id,f0\n0,1.5\n1,2.5\n")
    with pytest.raises(DataError, match=r"has no comparisons\.csv"):
        load_tidy(tmp_path)
    write(tmp_path / "comparisons.csv", "user,left,right,choice\n4,0,1,0\n")
    assert load_tidy(tmp_path).item_names.tolist() == ["0", "1"]
    write(tmp_path / "item_names.csv", "item_id,name\n1,Angel\n")
    data = load_tidy(tmp_path)
    assert data.item_names.tolist() == ["0", "Angel"]
    assert answers_of(data) == {(4, 0, 1)}
    with pytest.raises(DataError, match="there is no folder"):
        load_tidy(tmp_path / "absent")


def test_import_writes_what_diagnose_reads(sushi, tmp_path, capsys) -> None:
    out = tmp_path / "tables"
    assert main(["import", "sushi", str(sushi), "--out", str(out), "--pairs", "all", "--answers", "a"]) == 0
    assert "Sushi: 12 items with 6 features" in capsys.readouterr().out
    assert read_items(out / "items.csv").ids.tolist() == list(NAMES.values())
    assert main(["diagnose", str(out / "items.csv"), str(out / "comparisons.csv")]) == 0
    assert main(["import", "sushi", str(sushi), "--out", str(out), "--numbers", "--overwrite", "--groups"]) == 0
    items = read_items(out / "items.csv")
    assert items.ids.tolist() == list(NAMES)
    assert len(items.feature_names) == 18


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["movielens", "--groups"], 2, "--groups has no effect with movielens, only with sushi"),
        (["sushi", "--pairs", "many"], 2, "--pairs many is neither"),
        (["sushi", "--people", "0"], 1, "0 people were asked for"),
        (["jester"], 1, "does not hold Jester data"),
    ],
)
def test_import_says_what_is_wrong_in_one_line(arguments, code, sentence, sushi, tmp_path, capsys) -> None:
    name, *options = arguments
    try:
        found = main(["import", name, str(sushi), "--out", str(tmp_path / "out"), *options])
    except SystemExit as end:
        found = end.code
    assert found == code
    error = capsys.readouterr().err
    assert sentence in error
    assert "Traceback" not in error
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------------------------------------- travel


def test_travel_comes_with_the_library() -> None:
    data = load_travel()
    answers = data.comparisons
    assert (len(answers), answers.n_users, len(data.items.ids)) == (630, 210, 840)
    assert data.items.feature_names == ["wait", "cost", "time"]
    winner = np.where(answers.response < 0, answers.left, answers.right)
    loser = np.where(answers.response < 0, answers.right, answers.left)
    # everybody chose one way, over the three others that were theirs
    assert np.array_equal(winner // 4, loser // 4)
    assert np.array_equal(np.unique(winner), np.unique(winner[::3]))
    assert np.array_equal(np.sort(loser), np.setdiff1d(np.arange(840), winner))
    # shares as published: 58 by plane, 63 by train, 30 by bus, 59 by car
    assert np.bincount(np.unique(winner) % 4).tolist() == [58, 63, 30, 59]
    assert 0.4 < np.mean(answers.response < 0) < 0.6
    assert load_travel(seed=1).comparisons != answers
