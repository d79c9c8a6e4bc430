"""study.toml and the items: everything that can be wrong is a sentence that names it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from collect_studies import new_study
from crowdmetric.cli import main
from crowdmetric.collect import check_study, make_study
from crowdmetric.collect.folder import read_secret
from crowdmetric.collect.settings import parse_settings
from crowdmetric.collect.template import template
from crowdmetric.collect.words import WORDS
from crowdmetric.errors import DataError


def test_the_template_is_valid_and_names_the_table() -> None:
    settings, wrong = parse_settings(tomllib.loads(template("my items.csv")))
    assert wrong == []
    assert settings.items.table == "my items.csv"
    assert settings.design.kind == "optimal"


def test_the_examples_in_the_template_are_valid_too() -> None:
    text = template("items.csv")
    start = text.index("# [[survey]]")
    settings, wrong = parse_settings(tomllib.loads(text[:start] + re.sub("^# ", "", text[start:], flags=re.MULTILINE)))
    assert wrong == []
    assert (settings.survey[0].name, settings.screening[0].accept, settings.checks[0].expect) == (
        "age",
        ("Yes",),
        "left",
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[studdy]\n", "[studdy] is unknown"),
        ("[study]\ntitel = 'x'", "titel in [study] is unknown; the keys there are title"),
        ("[study]\npeople = 0", "people in [study] is 0, but a whole number from 1 to"),
        ("[study]\npeople = true", "people in [study] is True"),
        ("[study]\nundecided = 'yes'", "undecided in [study] is 'yes', but true or false was expected"),
        ("[design]\nkind = 'best'", "kind in [design] is 'best', but one of 'random'"),
        ("[design]\nkind = 'file'", "file in [design]"),
        ("[design]\nwithin = inf", "within in [design] is inf, but a relative error above 0, at most"),
        ("[design]\nwithin = nan", "within in [design] is nan"),
        ("[design]\nwithin = 1" + 400 * "0", "within in [design] is 1000"),
        ("[design]\ngive_back_minutes = inf", "give_back_minutes in [design] is inf"),
        ("[design]\nkind = 'random'\nhook = 'a:b'", "hook in [design]"),
        ("[design]\nrepeats = 1.5", "repeats in [design] is 1.5, but a number from 0 to 1"),
        ("[design]\nkind = 'matched'\n[study]\nquestions = 5", "matched questions come in pairs"),
        ("[practice]\npairs = ['a']", "pairs in [practice]"),
        ("[panel]\nurl = 'javascript:alert(1)'", "url in [panel]"),
        ("[panel]\nkind = 'list'", "list in [panel]"),
        ("[items]\nsubspace_column = 's'", "subspace_column in [items]"),
        ("[server]\ndatabase = 'mysql://x'", "database in [server]"),
        ("study = 3", "study must be a section"),
        ("[survey]\nname = 'a'", "survey must be written [[survey]]"),
        ("[[survey]]\nname = 'a b'\nlabel = 'x'", "name in [[survey]] number 1 is 'a b'"),
        ("[[survey]]\nname = 'a'", "[[survey]] number 1 has no label"),
        ("[[survey]]\nname = 'a'\nlabel = 'x'\nkind = 'choice'", "options of 'a'"),
        ("[[survey]]\nname='a'\nlabel='x'\n[[survey]]\nname='a'\nlabel='y'", "'a' names two fields"),
        ("[[screening]]\nname='a'\nlabel='x'\noptions=['1']\naccept=['2']", "accept of 'a'"),
        ("[[checks]]\nleft='a'\nright='b'\nexpect='top'", "expect in [[checks]] number 1"),
        ("[study]\nlanguage = 'de'", "there is no [words.de]"),
        ("[words.de]\nagree = 'Ja'", "[words.de] has no back_to_panel"),
        ("[words.de]\nagre = 'Ja'", "agre in [words.de] is unknown"),
    ],
)
def test_what_is_wrong_is_named(text: str, sentence: str) -> None:
    assert any(sentence in told for told in parse_settings(tomllib.loads(text))[1]), parse_settings(
        tomllib.loads(text)
    )[1]


def test_a_whole_language_is_enough() -> None:
    words = "\n".join(f'{key} = "{value} (de)"' for key, value in WORDS.items())
    settings, wrong = parse_settings(tomllib.loads(f"[study]\nlanguage = 'de'\n[words.de]\n{words}\ntitle = 'Titel'"))
    assert wrong == []
    assert settings.words["de"]["title"] == "Titel"


def test_missing_files_are_found_before_anybody_is_invited(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("item_id,image,a\nx,x.png,1\ny,y.png,2\n", encoding="utf-8")
    (tmp_path / "x.png").write_bytes(b"x")
    with pytest.raises(DataError, match=r"y\.png cannot be found"):
        make_study(tmp_path / "items.csv", tmp_path / "study")
    assert not (tmp_path / "study").exists()
    (tmp_path / "y.png").write_bytes(b"y")
    study = make_study(tmp_path / "items.csv", tmp_path / "study")
    assert (study / "x.png").read_bytes() == b"x"
    (study / "x.png").unlink()
    assert "x.png cannot be found" in " ".join(check_study(study)[2])


def test_files_of_another_kind_and_items_that_show_nothing_are_told(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<script>", encoding="utf-8")
    (tmp_path / "items.csv").write_text("item_id,image,text,a\nx,page.html,,1\ny,,,2\nz,,Z,2\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"page\.html do not look like the image") as error:
        make_study(tmp_path / "items.csv", tmp_path / "study")
    assert "y of items.csv have neither text" in str(error.value)


def test_check_prints_every_problem_and_ends_with_one(tmp_path: Path, capsys) -> None:
    study = new_study(tmp_path)
    assert main(["collect", str(study.folder), "--check"]) == 0
    assert "is ready: 12 items" in capsys.readouterr().out
    text = (study.folder / "study.toml").read_text(encoding="utf-8")
    (study.folder / "study.toml").write_text(
        text.replace("people = 200", "people = 'many'").replace("[privacy]", "[privat]"), encoding="utf-8"
    )
    assert main(["collect", str(study.folder), "--check"]) == 1
    told = capsys.readouterr()
    assert "people in [study] is 'many'" in told.out
    assert "[privat] is unknown" in told.out
    assert "has 2 problems" in told.err


def test_a_questionnaire_with_an_unknown_item_or_a_self_pair_is_refused(tmp_path: Path) -> None:
    study = new_study(tmp_path)
    (study.folder / "questions.csv").write_text("person,left,right\n0,1,99\n", encoding="utf-8")
    assert "item '99'" in " ".join(check_study(study.folder)[2])
    (study.folder / "questions.csv").write_text("person,left,right\n0,1,1\n", encoding="utf-8")
    assert "with itself" in " ".join(check_study(study.folder)[2])


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ("anchor", "holds 'anchor' besides.*a study asks which of two items.*these questions are about similarity"),
        ("choice", "holds 'choice' besides 'person', 'question', 'left', 'right', but a study asks.*; remove what"),
        ("c,d", "holds 'c', 'd' besides"),
    ],
)
def test_a_questionnaire_with_columns_that_do_not_fit_is_refused(tmp_path: Path, columns: str, sentence: str) -> None:
    study = new_study(tmp_path)
    cells = ",".join("3" for _ in columns.split(","))
    text = f"person,question,left,right,{columns}\n0,0,1,2,{cells}\n"
    (study.folder / "questions.csv").write_text(text, encoding="utf-8")
    assert re.search(sentence, " ".join(check_study(study.folder)[2]))
    assert main(["collect", str(study.folder), "--check"]) == 1


def test_a_questionnaire_names_everybody(tmp_path: Path) -> None:
    study = new_study(tmp_path)
    (study.folder / "questions.csv").write_text("person,left,right\nann,1,2\n,2,3\n", encoding="utf-8")
    assert "person is empty in row 1" in " ".join(check_study(study.folder)[2])


def test_practice_and_checks_name_items_that_exist(tmp_path: Path) -> None:
    made = new_study(tmp_path)
    path = made.folder / "study.toml"
    path.write_text(
        path.read_text(encoding="utf-8").replace("pairs = []", 'pairs = [["0", "77"], [3, 3]]'), encoding="utf-8"
    )
    told = " ".join(check_study(made.folder)[2])
    assert "names item '77'" in told
    assert "item '3' with itself" in told


def test_a_study_is_not_made_over_another(tmp_path: Path) -> None:
    study = new_study(tmp_path)
    (tmp_path / "items.csv").write_text("item_id,a\n1,2\n2,3\n", encoding="utf-8")
    with pytest.raises(DataError, match="continue it with crowdmetric collect"):
        make_study(tmp_path / "items.csv", study.folder)


def test_a_damaged_secret_is_a_sentence(tmp_path: Path) -> None:
    study = new_study(tmp_path)
    (study.folder / "secret.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match="damaged"):
        read_secret(study.folder)


def test_no_word_hides_behind_a_method_of_dict() -> None:
    assert not set(WORDS) & set(dir(dict))
