"""Were pairs asked one by one, or cut from choices, rankings or ratings? And what follows."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crowdmetric import Comparisons, MatchedMetric, PopulationMetric, TasteMetric
from crowdmetric.cli import main
from crowdmetric.coefficients import coefficients_of
from crowdmetric.datasets import load_travel
from crowdmetric.datasets.rated import MADE_OF
from crowdmetric.errors import CrowdmetricWarning, DataError, NotIdentifiedWarning
from crowdmetric.identifiability import diagnose
from crowdmetric.persist import load_model, save_model
from crowdmetric.report import report_page
from crowdmetric.report.warnings import warnings_of
from crowdmetric.tables import origin_of_pairs

DATA = Path(__file__).parents[2] / "shared" / "data"
ROUNDS = 12
Pairs = Iterator[tuple[int, int]]


class Person:
    """Somebody whose utilities differ from the crowd's, and who answers with logistic noise."""

    def __init__(self, n_items: int, common: np.ndarray, rng: np.random.Generator, scale: float) -> None:
        self.utility = scale * (common + rng.standard_normal(n_items))
        self.rng = rng

    def prefers(self, a: int, b: int) -> tuple[int, int]:
        gap = self.utility[a] - self.utility[b]
        return (a, b) if self.rng.random() < 1 / (1 + np.exp(-gap)) else (b, a)

    def some(self, n: int) -> list[int]:
        return self.rng.choice(len(self.utility), n, replace=False).tolist()

    def chosen(self, items: list[int]) -> int:
        return items[int(np.argmax(self.utility[items] + self.rng.gumbel(size=len(items))))]


def random_pairs(who: Person, m: int) -> Pairs:
    yield from (who.prefers(*who.some(2)) for _ in range(m))


def all_pairs_of_some(who: Person, n: int) -> Pairs:
    items = who.some(n)
    yield from (who.prefers(items[i], items[j]) for i in range(n) for j in range(i))


def the_same_pairs_for_all(who: Person, n: int) -> Pairs:
    yield from (who.prefers(i, j) for i in range(n) for j in range(i))


def winner_stays(who: Person, n: int) -> Pairs:
    champion, *others = who.some(n)
    for other in others:
        champion, loser = who.prefers(champion, other)
        yield champion, loser


def knockout(who: Person, n: int) -> Pairs:
    left = who.some(n)
    while len(left) > 1:
        results = [who.prefers(a, b) for a, b in zip(left[::2], left[1::2], strict=True)]
        yield from results
        left = [winner for winner, _ in results]


def one_with_others(who: Person, n: int) -> Pairs:
    first, *others = who.some(n + 1)
    yield from (who.prefers(first, other) for other in others)


def the_leader_with_others(who: Person, n: int) -> Pairs:
    yield from (who.prefers(0, 1 + other) for other in who.rng.choice(len(who.utility) - 1, n, replace=False))


def two_brands(who: Person, n: int) -> Pairs:
    items = who.some(2 * n)
    yield from (who.prefers(a, b) for a in items[:n] for b in items[n:])


def sorted_by_asking(who: Person, n: int) -> Pairs:
    order: list[int] = []
    for item in who.some(n):
        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            result = who.prefers(item, order[middle])
            yield result
            low, high = (low, middle) if result[0] == item else (middle + 1, high)
        order.insert(low, item)


ONE_BY_ONE = [
    (random_pairs, (1, 2, 3, 20)), (all_pairs_of_some, (3, 4, 6)), (the_same_pairs_for_all, (3, 5)),
    (winner_stays, (3, 4, 6)), (knockout, (4, 8)), (one_with_others, (2, 3, 5)), (the_leader_with_others, (2, 3, 5)),
    (two_brands, (2, 3)), (sorted_by_asking, (4, 7)),
]  # fmt: skip


def answers_of(people: int, items: int, scale: float, ask: Callable[[Person], Pairs], seed: int) -> tuple:
    rng = np.random.default_rng(seed)
    common = rng.standard_normal(items)
    common[0] += 2.0  # a market leader
    rows = [(k, *pair) for k in range(people) for pair in ask(Person(items, common, rng, scale))]
    return tuple(np.array(rows).T)


@pytest.mark.parametrize("design", ONE_BY_ONE, ids=lambda design: design[0].__name__)
def test_answers_that_were_asked_one_by_one_are_never_called_cut(design) -> None:
    ask, sizes = design
    for size in sizes:
        for people in (3, 12, 40, 150):
            for items, scale in ((14, 0.0), (14, 1.5), (60, 1.0), (60, 3.0)):
                for seed in range(2):
                    asked = answers_of(people, items, scale, lambda who, m=size: ask(who, m), seed)
                    assert origin_of_pairs(*asked) == "pairs", (size, people, items, scale, seed)


def cut_choices(who: Person, times: int, n: int) -> Pairs:
    for _ in range(times):
        items = who.some(n)
        winner = who.chosen(items)
        yield from ((winner, other) for other in items if other != winner)


def cut_ranking(who: Person, n: int, levels: float = 0.0) -> Pairs:
    items = who.some(n)
    worth = who.utility[items] + who.rng.gumbel(size=n)
    worth = np.round(worth / levels) if levels else worth
    yield from ((items[i], items[j]) for i in range(n) for j in range(n) if worth[i] > worth[j])


def test_pairs_cut_from_choices_rankings_and_ratings_are_recognized() -> None:
    for people, items, times in ((300, 12, 1), (300, 4, 1), (60, 35, 12), (40, 400, 1), (8, 400, 8)):
        assert origin_of_pairs(*answers_of(people, items, 1.0, lambda who, t=times: cut_choices(who, t, 4), 0)) == (
            "choices"
        )
    for people, items, n, levels in ((300, 12, 5, 0.0), (30, 10, 10, 0.0), (40, 12, 6, 1.0), (25, 8, 8, 2.0)):
        asked = answers_of(people, items, 1.0, lambda who, n=n, levels=levels: cut_ranking(who, n, levels), 0)
        assert origin_of_pairs(*asked) == "orders"


@pytest.mark.skipif(not DATA.is_dir(), reason="the data sets do not stand beside the project")
def test_every_data_set_is_recognized_for_what_it_is() -> None:
    found = {place.parent.name: Comparisons.read(place).origin for place in sorted(DATA.glob("*/comparisons.csv*"))}
    ratings = ("carrots", "cocktail_compo", "cocktail_senso", "cream", "jester", "perfume")
    assert found == {"train": "pairs", "electricity": "choices"} | dict.fromkeys(ratings, "orders")


def test_a_part_of_cut_pairs_is_cut_too_and_a_table_may_say_so(tmp_path: Path) -> None:
    travel = load_travel()
    assert travel.comparisons.made_of == "choices"
    assert travel.comparisons.take(np.arange(4)).origin == "choices"
    travel.comparisons.write(tmp_path / "answers.csv")
    assert Comparisons.read(tmp_path / "answers.csv").made_of == "choices"
    assert set(MADE_OF.values()) == {"ratings", "rankings"}
    few = Comparisons.from_arrays([0, 0], [[0, 1], [0, 2]], [-1, -1], made_of="rankings")
    assert few.is_cut
    assert "are pairs cut from rankings" in few.caution
    assert not Comparisons.from_arrays([0, 0], [[0, 1], [0, 2]], [-1, -1]).is_cut
    assert not replace(travel.comparisons, made_of="pairs").is_cut
    with pytest.raises(DataError, match="made_of='sets' is not known"):
        Comparisons.from_arrays([0], [[0, 1]], [1], made_of="sets")
    with pytest.raises(DataError, match="the column made_of says 'choices', 'pairs'"):
        Comparisons.from_table(
            {"user": [0, 0], "left": [0, 1], "right": [1, 2], "choice": [0, 1], "made_of": ["pairs", "choices"]}
        )


@pytest.fixture(scope="module")
def choices() -> tuple[np.ndarray, Comparisons]:
    """Identical people, who choose one of four."""
    rng = np.random.default_rng(0)
    items = rng.standard_normal((600, 2))
    utility = items @ [-1.2, 0.4] + rng.gumbel(size=600)
    sets = np.arange(600).reshape(150, 4)
    winners = sets[np.arange(150), np.argmax(utility[sets], axis=1)]
    rows = [(k, w, o) for k, (w, shown) in enumerate(zip(winners, sets, strict=True)) for o in shown if o != w]
    user, left, right = np.array(rows).T
    return items, Comparisons.from_arrays(user, left=left, right=right, response=-np.ones(len(user)), n_items=600)


def test_cut_pairs_get_no_intervals_no_spreads_and_none_of_the_wrong_warnings(choices, tmp_path: Path) -> None:
    items, answers = choices
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = PopulationMetric(items, covariance="free", starts=1).fit(answers)
    said = " ".join(str(warning.message) for warning in caught)
    assert "look like pairs cut from choices" in said
    saved = save_model(tmp_path / "model", model, comparisons=answers)
    diagnosis = diagnose(items, answers)
    page = report_page(saved, comparisons=answers, diagnosis=diagnosis)
    everything = " ".join([said, model.solution_.status, page, *warnings_of(saved, diagnosis, None, answers)])
    for wrong in ("look chosen", "free of noise", "MatchedMetric", "90 %", "± ", "of people prefer"):
        assert wrong not in everything, wrong
    assert not [name for name in vars(model) if ("error" in name and "standard" in name) or "draws" in name]
    columns = set(coefficients_of(saved).columns)
    assert not [name for name in columns if name == "differ" or name.endswith(("_low", "_high"))]
    assert ">people differ<" not in page
    assert "look like pairs cut from choices" in diagnosis.summary()


def test_arrays_and_vectors_are_recognized_as_tables_are(choices) -> None:
    items, answers = choices
    y, users = answers.response, answers.user
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdmetricWarning)
        for given, pairs in ((items, answers.pairs), (None, items[answers.pairs])):
            model = PopulationMetric(given, starts=1, max_iter=2).fit(pairs, y, users=users)
            assert model.made_of_ == "choices"
        assert (
            PopulationMetric(items, starts=1, max_iter=2).fit(answers.pairs, y, users=users // 10).made_of_ == "choices"
        )
        y = np.where(np.arange(len(y)) % 3 == 0, -y, y)
        assert PopulationMetric(items, starts=1, max_iter=2).fit(answers.pairs, y, users=users).made_of_ == "pairs"


def test_other_models_of_people_give_them_no_errors_either(choices) -> None:
    items, answers = choices
    with pytest.warns(NotIdentifiedWarning, match="cut from choices"):
        taste = TasteMetric(items[:80]).fit(_about(answers, 80))
    assert not hasattr(taste, "standard_errors_")
    grid = np.array([[x, y] for x in range(4) for y in range(4)], dtype=float)
    rng = np.random.default_rng(1)
    pairs = np.array([[[a, a + 1], [b, b + 1]] for a, b in rng.choice([0, 4, 8, 12], (400, 2)) if a != b]).reshape(
        -1, 2
    )
    y = np.where(rng.random(len(pairs)) < 0.5, 1, -1)
    asked = Comparisons.from_arrays(np.arange(len(pairs)) // 2, pairs, y, n_items=16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdmetricWarning)
        assert hasattr(MatchedMetric(grid, ridge=1.0).fit(asked), "standard_errors_")
        cut = MatchedMetric(grid, ridge=1.0).fit(replace(asked, made_of="ratings"))
    assert not hasattr(cut, "standard_errors_")
    assert cut.made_of_ == "ratings"


def _about(answers: Comparisons, n: int) -> Comparisons:
    some = answers.take((answers.left < n) & (answers.right < n))
    return Comparisons.from_arrays(some.user, some.pairs, some.response, n_items=n, made_of=some.made_of)


def test_the_command_says_what_the_answers_are(tmp_path: Path, capsys) -> None:
    folder, model = str(tmp_path / "travel"), str(tmp_path / "model")
    assert main(["import", "travel", "--out", folder]) == 0
    tables = [f"{folder}/items.csv", f"{folder}/comparisons.csv"]
    assert main(["fit", *tables, "--out", model, "--no-evaluate"]) == 0
    said = capsys.readouterr()
    assert said.err.count("pairs cut from choices") == 1
    assert "look chosen" not in said.out + said.err
    assert re.search(r"feature +share", said.out)
    assert not re.search(r"feature +share.* (90 %|differ)", said.out)
    assert load_model(model).fitted["made_of_"] == "choices"
    assert main(["info", model]) == 0
    assert "90 %" not in capsys.readouterr().out
