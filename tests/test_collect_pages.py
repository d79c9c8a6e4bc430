"""The participant's and the researcher's pages, over HTTP, and every attack on them that the design must withstand."""

from __future__ import annotations

import asyncio
import hmac
import io
import logging
import os
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit
from zlib import crc32

import numpy as np
import pytest

from collect_studies import begin, client_of, hidden, new_study, walk
from crowdmetric.collect import check_study, counting, findings, make_study, open_study, participant, serving, writer
from crowdmetric.collect.careless import Answered, reasons
from crowdmetric.collect.database import StoreError
from crowdmetric.collect.exporting import csv_lines
from crowdmetric.collect.folder import open_reader, open_store, read_secret
from crowdmetric.collect.limits import Limit
from crowdmetric.collect.live_questions import HelperProcess, LiveQuestions
from crowdmetric.collect.logs import LOG, JsonLines, RequestTally
from crowdmetric.collect.panels import arrival_of, ending_of, personal_links
from crowdmetric.collect.places import design_fingerprint
from crowdmetric.collect.rehearsal import _copy
from crowdmetric.collect.settings import Careless, Panel
from crowdmetric.collect.svg import bars, heat_map, intervals
from crowdmetric.collect.tokens import sign, unsign
from crowdmetric.collect.words import WORDS
from crowdmetric.errors import DataError
from hanging import HANGING

pytest.importorskip("starlette", reason="Starlette is not installed")
pytest.importorskip("jinja2", reason="Jinja2 is not installed")
SOURCE = Path(__file__).parent.parent / "src" / "crowdmetric" / "collect"


@pytest.fixture
def study(tmp_path):
    return new_study(tmp_path)


@pytest.fixture
def client(study):
    with client_of(study) as client:
        yield client


def rows(study, sql: str, *values):
    db = open_reader(study)
    try:
        return db.run(sql, *values)
    finally:
        db.close()


# ------------------------------------------------------------------------------------------------- participants


def test_a_person_goes_through_the_whole_study_without_javascript(study, client) -> None:
    page = begin(client)
    assert "Question 1 of 6" in page.text
    page = walk(client, page, "right")
    assert WORDS["done"] in page.text
    kept = rows(study, "SELECT position, choice, purpose, response_ms, shown, answered FROM answer ORDER BY position")
    assert [row[:4] for row in kept] == [(k, "right", "design", None) for k in range(6)]
    assert all(shown <= answered for *_, shown, answered in kept)
    assert rows(study, "SELECT status, position FROM person") == [("finished", 6)]
    pages = [row[0] for row in rows(study, "SELECT page FROM view ORDER BY id")]
    assert pages == ["welcome", *["question"] * 6, "finished"]


def test_nothing_is_stored_of_a_person_before_they_agree(study, client) -> None:
    client.get("/")
    assert rows(study, "SELECT COUNT(*) FROM person") == [(0,)]
    assert rows(study, "SELECT person, position, page FROM view") == [(None, None, "welcome")]


def test_nothing_is_stored_of_address_and_browser(study, client) -> None:
    client.headers["user-agent"] = "Curious/1.0"
    walk(client, begin(client))
    assert rows(study, "SELECT agent, panel_id FROM person") == [(None, None)]
    dump = b"".join(file.read_bytes() for file in study.folder.glob("answers*"))
    assert b"Curious" not in dump
    assert b"testclient" not in dump  # the address of this client


def test_the_browser_is_kept_only_where_the_study_says_so(tmp_path) -> None:
    study = new_study(tmp_path, {"keep_agent =": "keep_agent = true"})
    with client_of(study) as client:
        client.headers["user-agent"] = "Curious/1.0"
        begin(client)
    assert rows(study, "SELECT agent FROM person") == [("Curious/1.0",)]


def test_reload_shows_the_same_question_with_the_same_sides(client) -> None:
    first = begin(client)
    again = client.get("/go")
    assert again.text == first.text
    assert client.get("/").text == first.text  # the link again leads to the same place


def test_the_study_goes_on_after_a_restart(study) -> None:
    with client_of(study) as client:
        page = begin(client)
        page = client.post("/go", data={**hidden(page.text), "choice": "left"})
        cookies = dict(client.cookies)
    with client_of(open_study(study.folder)) as client:
        client.cookies.update(cookies)
        assert client.get("/go").text == page.text


def test_the_script_gets_the_inside_of_the_next_page_and_times(study, client) -> None:
    page = begin(client)
    data = {**hidden(page.text), "choice": "left", "ms": "1234"}
    piece = client.post("/go", data=data, headers={"X-Fragment": "1"})
    assert piece.status_code == 200
    assert "<html" not in piece.text
    assert "Question 2 of 6" in piece.text
    assert rows(study, "SELECT response_ms FROM answer") == [(1234,)]


@pytest.mark.parametrize("ms", ["-5", "nan", "1e3", "99999999999", "12;DROP TABLE answer", "٣"])
def test_times_that_are_none_are_not_kept(study, client, ms) -> None:
    page = begin(client)
    client.post("/go", data={**hidden(page.text), "choice": "left", "ms": ms})
    assert rows(study, "SELECT response_ms FROM answer") == [(None,)]


def test_two_tabs_cannot_answer_twice_and_the_later_is_told(study, client) -> None:
    tab_one = begin(client)
    tab_two = client.get("/go")
    client.post("/go", data={**hidden(tab_one.text), "choice": "left"})
    late = client.post("/go", data={**hidden(tab_two.text), "choice": "right"})
    assert "in another tab" in late.text
    assert "Question 2 of 6" in late.text
    assert rows(study, "SELECT choice FROM answer") == [("left",)]


def test_a_choice_that_is_not_offered_is_not_taken(study, client) -> None:
    page = begin(client)
    for choice in ("tie", "both", ""):
        again = client.post("/go", data={**hidden(page.text), "choice": choice})
        assert "Question 1 of 6" in again.text
    assert rows(study, "SELECT COUNT(*) FROM answer") == [(0,)]


def test_undecided_is_a_tie_where_the_study_allows_it(tmp_path) -> None:
    study = new_study(tmp_path, {"undecided =": "undecided = true"})
    with client_of(study) as client:
        page = begin(client)
        assert WORDS["undecided"].replace("'", "&#39;") in page.text
        walk(client, page, "tie")
    assert rows(study, "SELECT DISTINCT choice FROM answer") == [("tie",)]


MORE = """
[[screening]]
name = "eyes"
label = "Can you see colors?"
options = ["Yes", "No"]
accept = ["Yes"]
[[survey]]
name = "age"
label = "Age"
kind = "number"
required = true
[[survey]]
name = "words"
label = "Words"
kind = "long"
[[checks]]
left = "0"
right = "5"
expect = "left"
"""


def test_screening_practice_checks_and_survey(tmp_path) -> None:
    changes = {"pairs =": 'pairs = [["0", "1"]]', "failed_checks =": "failed_checks = 1", "code =": 'code = "GOOD"',
               "failed_code =": 'failed_code = "BAD"', "screened_code =": 'screened_code = "OUT"',
               "kind = \"anonymous\"": 'kind = "prolific"'}  # fmt: skip
    study = new_study(tmp_path, changes, MORE)
    with client_of(study) as client:
        page = begin(client, "/?PROLIFIC_PID=a1&STUDY_ID=s&SESSION_ID=t")
        again = client.post("/go", data=hidden(page.text))
        assert WORDS["required"] in again.text
        page = client.post("/go", data={**hidden(page.text), "eyes": "Yes"})
        assert "Practice 1 of 1" in page.text
        for _ in range(8):  # the practice, six questions and the check
            page = client.post("/go", data={**hidden(page.text), "choice": "left"})
        again = client.post("/go", data={**hidden(page.text), "age": "old"})
        assert WORDS["number_needed"] in again.text
        assert 'value="old"' in again.text
        page = client.post("/go", data={**hidden(page.text), "age": "41", "words": "<b>hello</b>"})
        kept = rows(study, "SELECT name, value FROM field ORDER BY name")
        assert kept == [("age", "41"), ("eyes", "Yes"), ("words", "<b>hello</b>")]
        check = rows(study, "SELECT choice, left_item FROM answer WHERE purpose = 'check'")[0]
        passed = check[1] == "0"  # left was right only if the sides were not flipped
        assert ("submissions/complete?cc=GOOD" if passed else "submissions/complete?cc=BAD") in page.text
        assert rows(study, "SELECT status FROM person") == [("finished" if passed else "failed",)]
        client.cookies.clear()
        page = begin(client, "/?PROLIFIC_PID=a2")
        page = client.post("/go", data={**hidden(page.text), "eyes": "No"})
        assert "cc=OUT" in page.text
        assert rows(study, "SELECT status, panel_study, panel_session FROM person WHERE panel_id = 'a1'")[0][1:] == (
            "s",
            "t",
        )


def test_the_same_panel_id_resumes_in_another_browser(tmp_path) -> None:
    study = new_study(tmp_path, {'kind = "anonymous"': 'kind = "connect"'})
    with client_of(study) as client:
        page = begin(client, "/?participantId=abc")
        page = client.post("/go", data={**hidden(page.text), "choice": "left"})
        client.cookies.clear()
        assert client.get("/?participantId=abc").text == page.text
    assert rows(study, "SELECT COUNT(*) FROM person") == [(1,)]


def test_a_link_without_the_panels_id_is_a_polite_page(tmp_path) -> None:
    study = new_study(tmp_path, {'kind = "anonymous"': 'kind = "sona"'})
    with client_of(study) as client:
        for path in ("/", "/?SURVEY_CODE=", "/?SURVEY_CODE=<script>", "/?SURVEY_CODE=" + "x" * 200):
            page = client.get(path)
            assert page.status_code == 400
            assert WORDS["no_link"] in page.text


def test_endings_fill_in_code_and_id() -> None:
    sona = Panel(kind="sona", url="https://x.sona-systems.com/credit?survey_code={id}")
    assert ending_of(sona, "finished", "a b").url.endswith("survey_code=a%20b")
    assert ending_of(sona, "screened", "1").url == ""
    assert ending_of(Panel(kind="prolific", code="C 1"), "finished", "1").url.endswith("cc=C%201")
    assert ending_of(Panel(code="C1"), "finished", None).code == "C1"


def test_links_for_a_list_of_people(tmp_path) -> None:
    study = new_study(tmp_path)
    (study.folder / "people.csv").write_text("person\nann\nbob\n", encoding="utf-8")
    path = study.folder / "study.toml"
    path.write_text(
        path.read_text(encoding="utf-8").replace('kind = "anonymous"', 'kind = "list"\nlist = "people.csv"'),
        encoding="utf-8",
    )
    study = open_study(study.folder)
    links = personal_links("", ["ann", "bob"], study.secret.signing)
    with client_of(study) as client:
        begin(client, links[0][1])
        client.cookies.clear()
        begin(client, links[1][1])
        client.cookies.clear()
        assert client.get(links[0][1][:-2]).status_code == 400
    assert rows(study, "SELECT panel_id FROM person ORDER BY panel_id") == [("ann",), ("bob",)]


def test_a_full_study_says_so(tmp_path) -> None:
    study = new_study(tmp_path, {"people =": "people = 1", "screened_code =": 'screened_code = "FULL1"'})
    with client_of(study) as client:
        walk(client, begin(client))
        client.cookies.clear()
        page = begin(client)
        assert WORDS["full"] in page.text
        assert "FULL1" in page.text


def test_other_languages_and_right_to_left(tmp_path) -> None:
    words = "\n".join(f'{key} = "{key} ħ"' for key in WORDS) + '\ntitle = "כותרת"\n'
    study = new_study(tmp_path, more=f"\n[words.he]\n{words}")
    with client_of(study) as client:
        page = client.get("/", headers={"Accept-Language": "he-IL,he;q=0.9,en;q=0.5"})
        assert '<html lang="he" dir="rtl">' in page.text
        assert "כותרת" in page.text
        assert "agree ħ" in page.text
        assert 'dir="ltr"' in client.get("/", headers={"Accept-Language": "fr"}).text
        client.get("/?lang=he")
        assert 'dir="rtl"' in begin(client).text  # the choice is remembered


def test_pages_are_small_and_name_no_other_host(client) -> None:
    page = begin(client)
    parts = [page.text, *(client.get(f"/static/{name}").text for name in ("style.css", "script.js", "icon.svg"))]
    assert sum(len(part.encode()) for part in parts) <= 40_000
    for part in parts:
        found = [x for x in re.findall(r"https?://[^\s\"')]+", part) if x != "http://www.w3.org/2000/svg"]
        assert not found
    for place in re.findall(r'(?:src|href|action)="([^"]*)"', page.text):
        assert not urlsplit(place).netloc
        assert not place.startswith("/")  # so that pages work under any path


@pytest.mark.parametrize("kept", [True, False])
def test_pages_work_behind_a_proxy_under_a_path(tmp_path, kept) -> None:
    study = new_study(tmp_path, {"address =": 'address = "https://lab.example.edu/a/study"'})
    with client_of(study) as client:
        base = "/a/study" if kept else ""
        page = client.get(f"{base}/")
        reply = client.post(f"{base}/start", data=hidden(page.text), follow_redirects=False)
        assert reply.headers["location"] == "go"
        cookie = reply.headers["set-cookie"].lower()
        assert "path=/a/study" in cookie
        assert "secure" in cookie


def test_media_by_number_with_ranges(tmp_path) -> None:
    (tmp_path / "a.mp4").write_bytes(bytes(range(200)))
    (tmp_path / "b.png").write_bytes(b"PNG")
    (tmp_path / "items.csv").write_text(
        "item_id,video,image,f\nx,a.mp4,,1\ny,,b.png,2\nz,a.mp4,b.png,3\n", encoding="utf-8"
    )
    study = open_study(_matched(make_study(tmp_path / "items.csv", tmp_path / "study")))
    with client_of(study) as client:
        page = begin(client)
        numbers = set(re.findall(r'src="media/(\d+)"', page.text))
        assert numbers
        kinds = {client.get(f"/media/{n}").headers["content-type"] for n in ("0", "1")}
        assert kinds == {"image/png", "video/mp4"}
        video = next(n for n in ("0", "1") if client.get(f"/media/{n}").headers["content-type"] == "video/mp4")
        part = client.get(f"/media/{video}", headers={"Range": "bytes=10-19"})
        assert part.status_code == 206
        assert part.content == bytes(range(10, 20))


def _matched(folder: Path) -> Path:
    (folder / "q.csv").write_text("person,left,right\n0,x,y\n1,y,z\n2,x,z\n", encoding="utf-8")
    path = folder / "study.toml"
    text = path.read_text(encoding="utf-8").replace('kind = "optimal"', 'kind = "file"\nfile = "q.csv"')
    path.write_text(re.sub(r'instructions = """.*?"""', 'instructions = ""', text, flags=re.DOTALL), encoding="utf-8")
    return folder


def test_a_store_that_fails_is_a_polite_page_that_keeps_the_answer(study, client, monkeypatch) -> None:
    page = begin(client)

    async def broken(self, operation, key=""):
        raise participant.StoreError("the disk of answers.sqlite is full; make room")

    with monkeypatch.context() as patch:
        patch.setattr(participant.Writer, "run", broken)
        reply = client.post("/go", data={**hidden(page.text), "choice": "right"})
        assert reply.status_code == 503
        assert WORDS["trouble"] in reply.text
        assert "disk" not in reply.text  # that is for the researcher
        assert client.get("/health").status_code == 503
    assert hidden(reply.text)["choice"] == "right"
    client.post("/go", data=hidden(reply.text))  # the button "Try again"
    assert rows(study, "SELECT choice FROM answer") == [("right",)]
    assert client.get("/health").json() == {"ok": True, "state": "open"}


HOOK = """
class Live:
    def __init__(self, features, ids, questions):
        self.ids, self.told = ids, []
    def ask(self, person):
        return [(self.ids[0], self.ids[1 + len(self.told)])] * 2
    def tell(self, person, answers):
        self.told.append(answers)
"""


def test_a_live_design_asks_and_is_told(tmp_path) -> None:
    study = new_study(tmp_path)
    (study.folder / "hook_for_test.py").write_text(HOOK, encoding="utf-8")
    path = study.folder / "study.toml"
    text = path.read_text(encoding="utf-8").replace(
        'kind = "file"\nfile = "questions.csv"', 'kind = "live"\nhook = "hook_for_test:Live"'
    )
    path.write_text(text, encoding="utf-8")
    study = open_study(study.folder)
    with client_of(study) as client:
        walk(client, begin(client))
        client.cookies.clear()
        walk(client, begin(client))
    items = [set(row) for row in rows(study, "SELECT left_item, right_item FROM answer ORDER BY id")]
    assert items == [{"0", "1"}] * 2 + [{"0", "2"}] * 2
    with client_of(study) as client:  # after a restart it has been told of both again
        walk(client, begin(client))
    assert set(rows(study, "SELECT left_item, right_item FROM answer ORDER BY id DESC")[0]) == {"0", "3"}


def test_the_process_of_a_live_design_answers_and_ends_in_the_middle_of_its_work() -> None:
    helper = HelperProcess()
    assert helper.submit(pow, 2, 5).result(timeout=HANGING) == 32
    assert isinstance(helper.submit(int, "x").exception(timeout=HANGING), ValueError)
    endless = helper.submit(time.sleep, 600)
    helper.shutdown()  # returns: otherwise this test does not end
    assert not endless.done()


def test_the_live_design_of_the_library_asks_and_says_where_it_stands(tmp_path) -> None:
    study = new_study(tmp_path, {'kind = "optimal"': 'kind = "live"', "questions =": "questions = 2"})
    with client_of(study) as client:
        for _ in range(3):
            client.cookies.clear()
            walk(client, begin(client))
        researcher(client, study)
        page = client.get("/researcher")
    assert "The design learns while it asks" in page.text
    assert "3 have answered" in page.text
    # nobody is kept for evaluation here, so everybody from the first person on got designed questions
    assert rows(study, "SELECT purpose, COUNT(*) FROM answer GROUP BY purpose") == [("design", 6)]


class Slow:
    """A live design whose first questions are ready after somebody has waited twice."""

    def __init__(self):
        self.waits, self.wave = [], None

    def wait(self, seconds):
        self.waits.append(seconds)
        self.wave = "ready" if len(self.waits) == 2 else None

    def ask(self, person):
        return [("a", "b")]


@pytest.mark.parametrize(("patient", "waits"), [(False, 2), (True, 4)])
def test_people_wait_for_the_first_questions_and_later_ones_if_the_study_says_so(patient, waits) -> None:
    live = LiveQuestions(Slow(), ["a", "b"], patient=patient)
    for person in "1234":
        assert asyncio.run(live.ask(person)).pairs == (("a", "b"),)
    live.close()
    assert len(live.hook.waits) == waits
    assert 0 < max(live.hook.waits) <= (120 if patient else 20)


def test_people_of_a_rehearsal_wait_for_a_live_design_and_its_questions_stay_the_same_version(tmp_path) -> None:
    study = new_study(tmp_path, {'kind = "optimal"': 'kind = "live"'})
    copy = _copy(study, tmp_path / "copy", study.settings.study.people)
    assert not study.settings.design.wait
    assert copy.settings.design.wait
    fingerprints = [design_fingerprint(one.settings, one.items, one.folder) for one in (study, copy)]
    assert fingerprints[0] == fingerprints[1]


# --------------------------------------------------------------------------------------------- a store in trouble


@pytest.fixture
def store_of(monkeypatch):
    """A function that returns the connection through which a served study writes."""
    opened = {}

    def remember(study, **options):
        opened[study.folder] = open_store(study, **options)
        return opened[study.folder]

    monkeypatch.setattr(serving, "open_store", remember)
    return lambda study: opened[study.folder]


def fill_the_disk(study, db):
    """Let the store grow no more; return what frees space again."""
    used = int(db.run("PRAGMA page_count")[0][0])
    db.run(f"PRAGMA max_page_count = {used}")
    for size in (300, 30, 0):  # what is left in the last page of the views
        with suppress(StoreError):
            while True:
                db.run("INSERT INTO view (person, position, page, at) VALUES (?, ?, ?, ?)", "x", 0, "x" * size, 0.0)
    return lambda: db.run("PRAGMA max_page_count = 1000000")


def hold_the_store(study, _):
    """Write to the store from outside; return what lets go of it."""
    other = sqlite3.connect(study.store, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")

    def let_go():
        other.execute("ROLLBACK")
        other.close()

    return let_go


@pytest.mark.parametrize(
    ("spoil", "sentence"), [(fill_the_disk, "is full; free some space"), (hold_the_store, "process holds")]
)
def test_a_store_in_trouble_is_a_polite_page_and_a_sentence_and_nothing_is_lost(
    study, monkeypatch, store_of, spoil, sentence
) -> None:
    monkeypatch.setattr(writer.Writer.__init__, "__kwdefaults__", {"tries": 3, "pause": 0.01})
    with client_of(study) as client:
        page = begin(client)
        researcher(client, study)
        page = client.post("/go", data={**hidden(page.text), "choice": "left"})
        mend = spoil(study, store_of(study))
        form = {**hidden(page.text), "choice": "right", "ms": "812"}
        for _ in range(2):
            reply = client.post("/go", data=form, headers={"X-Fragment": "1"})  # the answer, and the next page's view
            assert reply.status_code == 503
            assert WORDS["trouble_text"] in reply.text
            assert hidden(reply.text) == form  # the answer is still in the page
        seen = client.get("/researcher").text
        assert sentence in seen
        assert "Answers cannot be saved just now" in seen
        assert "Started" in seen  # reading still works
        mend()
        reply = client.post("/go", data=hidden(reply.text))
        assert reply.status_code == 200
        assert "Question 3 of 6" in reply.text
        assert "Answers cannot be saved" not in client.get("/researcher").text
    assert rows(study, "SELECT position, choice FROM answer ORDER BY position") == [(0, "left"), (1, "right")]


# ----------------------------------------------------------------------------------------------------- attacks


def researcher(client, study):
    return client.get(f"/researcher?key={study.secret.researcher}")


def test_there_are_no_default_credentials(tmp_path) -> None:
    one, two = new_study(tmp_path / "1").secret, new_study(tmp_path / "2").secret
    assert one.researcher != two.researcher
    assert one.signing != two.signing
    assert len(one.researcher) >= 43  # 256 bits
    with client_of(open_study(tmp_path / "1" / "study")) as client:
        for guess in ("", "?key=", "?key=admin", "?key=password", f"?key={two.researcher}"):
            assert client.get(f"/researcher{guess}").status_code == 403


def test_the_secret_is_readable_by_its_owner_alone(study) -> None:
    path = study.folder / "secret.json"
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(DataError, match="chmod 600"):
        read_secret(study.folder)


def test_secrets_and_signatures_are_compared_in_constant_time(study, client, monkeypatch) -> None:
    compared = []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append(1) or real(a, b))
    client.get("/researcher?key=guess")
    assert len(compared) == 1
    client.cookies.set(f"cm_{study.secret.study[:8]}", "a.b")
    client.get("/go")
    assert len(compared) == 2


def test_the_secret_is_exchanged_for_a_strict_cookie_and_leaves_the_address(study, client) -> None:
    reply = researcher(client, study)
    cookie = reply.headers["set-cookie"]
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    assert study.secret.researcher not in cookie
    assert study.secret.researcher not in reply.text
    page = client.get("/researcher")
    assert page.status_code == 200
    assert study.secret.researcher not in page.text
    assert reply.headers["referrer-policy"] == "no-referrer"


def test_neither_secret_nor_people_are_ever_in_a_log(tmp_path) -> None:
    study = new_study(tmp_path, {'kind = "anonymous"': 'kind = "prolific"'})
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JsonLines())
    everything = [logging.getLogger(), LOG]
    levels = [log.level for log in everything]
    for log in everything:
        log.addHandler(handler)
        log.setLevel(logging.DEBUG)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # this test's own client
    logging.getLogger("httpcore").setLevel(logging.WARNING)
    try:
        with client_of(study) as client:
            researcher(client, study)
            client.get("/researcher?key=wrongsecretguess")
            client.post("/researcher/state", data={"action": "pause"})
            client.post("/researcher/state", data={"action": "resume"})
            walk(client, begin(client, "/?PROLIFIC_PID=panelperson77"), words="mywords")
            client.get("/nowhere/panelperson77")
    finally:
        for log, level in zip(everything, levels, strict=True):
            log.removeHandler(handler)
            log.setLevel(level)
    assert '"event": "wrong_secret"' in text.getvalue()
    person = rows(study, "SELECT id FROM person")[0][0]
    for private in (study.secret.researcher, "wrongsecretguess", "panelperson77", person, "mywords", "testclient"):
        assert private not in text.getvalue()


def test_guesses_of_the_secret_are_limited(study, client) -> None:
    replies = [client.get(f"/researcher?key={k}").status_code for k in range(20)]
    assert replies[:10] == [403] * 10
    assert 429 in replies[10:]


def test_a_forged_or_borrowed_researcher_cookie_is_refused(study, client) -> None:
    name, key = f"cmr_{study.secret.study[:8]}", study.secret.signing
    forged = {
        "made up": "9999999999.AAAA", "of another key": sign(b"x" * 32, "researcher", "9999999999"),
        "of another kind": sign(key, "person", "9999999999"), "expired": sign(key, "researcher", "1000"),
    }  # fmt: skip
    for token in forged.values():
        client.cookies.set(name, token)
        assert client.get("/researcher").status_code == 403
        assert client.get("/researcher/answers.csv").status_code == 403
        assert client.post("/researcher/state", data={"action": "close"}).status_code == 403
    client.cookies.set(name, sign(key, "researcher", "9999999999"))
    assert client.get("/researcher").status_code == 200


def test_nobody_reads_or_writes_as_another_person(study, client) -> None:
    begin(client)
    name = f"cm_{study.secret.study[:8]}"
    victim = rows(study, "SELECT id FROM person")[0][0]
    mine = client.cookies[name]
    client.cookies.clear()
    attacks = [
        victim, f"{victim}.", f"{victim}.{mine.rpartition('.')[2]}", mine[:-3] + "AAA", mine + "A",
        sign(b"guess" * 8, "person", victim), sign(study.secret.signing, "arrival", victim),
        sign(study.secret.signing, "list", victim),
    ]  # fmt: skip
    for token in attacks:
        client.cookies.clear()
        client.cookies.set(name, token)
        assert client.get("/go").status_code == 403
        assert client.post("/go", data={"position": "0", "choice": "left"}).status_code == 403
    assert rows(study, "SELECT COUNT(*) FROM answer") == [(0,)]


def test_somebody_who_names_another_person_in_a_form_answers_for_themselves(study, client) -> None:
    begin(client)
    victim = rows(study, "SELECT id FROM person")[0][0]
    client.cookies.clear()
    page = begin(client)
    client.post("/go", data={**hidden(page.text), "choice": "left", "person": victim, "id": victim})
    client.get(f"/go?person={victim}")
    assert rows(study, "SELECT COUNT(*) FROM answer WHERE person = ?", victim) == [(0,)]


def test_ids_cannot_be_guessed(study, client) -> None:
    for _ in range(20):
        client.cookies.clear()
        begin(client)
    ids = {row[0] for row in rows(study, "SELECT id FROM person")}
    assert len(ids) == 20
    assert all(re.fullmatch(r"[0-9a-f]{24}", person) for person in ids)  # 96 bits
    assert len({person[:4] for person in ids}) > 10


def test_a_ticket_cannot_be_forged(study, client) -> None:
    for ticket in ("", "x", sign(b"k", "arrival", '{"panel": "prolific", "panel_id": "victim"}')):
        assert client.post("/start", data={"ticket": ticket}).status_code == 400
    assert rows(study, "SELECT COUNT(*) FROM person") == [(0,)]


@pytest.mark.parametrize(
    "path",
    ["/media/../secret.json", "/media/..%2fsecret.json", "/media/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/media/secret.json",
     "/static/../secret.json", "/static/..%2f..%2fstudy.toml", "/static//etc/passwd", "/media/-1", "/media/0x0",
     "/media/99999999", "/media/٠", "/secret.json", "/answers.sqlite", "/study.toml", "/.git/config"],
)  # fmt: skip
def test_no_address_reaches_a_file_outside_the_items(study, client, path) -> None:
    reply = client.get(path)
    assert reply.status_code == 404
    assert study.secret.researcher not in reply.text


def test_a_table_cannot_name_files_outside_the_study(tmp_path) -> None:
    outside = tmp_path / "outside.png"
    outside.write_bytes(b"PNG")
    inner = tmp_path / "inner"
    inner.mkdir()
    os.symlink(outside, inner / "link.png")
    for name in ("../outside.png", str(outside), "link.png"):
        (inner / "items.csv").write_text(f"item_id,image,f\nx,{name},1\ny,{name},2\n", encoding="utf-8")
        (inner / "study.toml").write_text("", encoding="utf-8")
        assert "lie outside" in " ".join(check_study(inner)[2])


EVIL = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "</button><form action=//evil>"]


def test_items_are_always_escaped(tmp_path) -> None:
    study = new_study(tmp_path, texts=[*EVIL, *EVIL, *EVIL])
    with client_of(study) as client:
        page = begin(client)
        for _ in range(6):
            assert "<script>alert" not in page.text
            assert "onerror=alert(1)>" not in page.text
            assert "<form action=//evil" not in page.text
            assert "49" not in page.text
            page = client.post("/go", data={**hidden(page.text), "choice": "left"})


def test_html_items_only_where_the_study_says_so(tmp_path) -> None:
    study = new_study(tmp_path, {"html_items =": "html_items = true"}, texts=[f"<em>Item</em> {k}" for k in range(12)])
    with client_of(study) as client:
        page = begin(client)
        assert "<em>Item</em>" in page.text
        assert "script-src 'self'" in page.headers["content-security-policy"]  # and even then no script runs


def test_a_strict_policy_and_no_inline_script_on_any_page(study, client) -> None:
    researcher(client, study)
    pages = [client.get("/"), begin(client), client.get("/researcher"), client.get("/nowhere")]
    for page in pages:
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["cache-control"] == "no-store"
        assert not re.search(r"<script(?![^>]*\bsrc=)", page.text)
        assert not re.search(r"<[^>]+\son[a-z]+=", page.text)
        assert not re.search(r"<[^>]+\sstyle=", page.text)
        assert "<style" not in page.text


def test_bodies_are_limited_also_without_a_length(study, client) -> None:
    page = begin(client)
    form = {**hidden(page.text), "choice": "left"}
    assert client.post("/go", data={**form, "x": "y" * 100_000}).status_code == 413
    head = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/go", content=(b"x" * 10_000 for _ in range(20)), headers=head).status_code == 413
    many = "&".join(f"f{k}=1" for k in range(1000))
    assert client.post("/go", content=many, headers=head).status_code == 413
    assert rows(study, "SELECT COUNT(*) FROM answer") == [(0,)]


def test_rates_are_limited_for_people_and_for_new_ones(tmp_path) -> None:
    study = new_study(tmp_path, {"starts_per_minute =": "starts_per_minute = 3"})
    with client_of(study) as client:
        begin(client)
        assert 429 in [client.get("/go").status_code for _ in range(60)]
        client.cookies.clear()
        ticket = hidden(client.get("/").text)
        assert [client.post("/start", data=ticket, follow_redirects=False).status_code for _ in range(3)][-1] == 429


def test_a_limit_refills() -> None:
    now = [0.0]
    limit = Limit(rate=1.0, burst=2.0, clock=lambda: now[0])
    assert [limit.allows("a") for _ in range(3)] == [True, True, False]
    assert limit.allows("b")
    now[0] = 1.5
    assert [limit.allows("a") for _ in range(2)] == [True, False]


def test_other_sites_cannot_send_forms(study, client) -> None:
    page = begin(client)
    cross = {"Sec-Fetch-Site": "cross-site"}
    assert client.post("/go", data={**hidden(page.text), "choice": "left"}, headers=cross).status_code == 403
    researcher(client, study)
    assert client.post("/researcher/state", data={"action": "close"}, headers=cross).status_code == 403
    assert rows(study, "SELECT COUNT(*) FROM answer") == [(0,)]
    cookie = client.post("/start", data=hidden(client.get("/").text)).headers.get("set-cookie", "")
    assert "samesite=none" not in cookie.lower()


def test_there_is_no_pickle_and_no_eval() -> None:
    for file in SOURCE.rglob("*.py"):
        words = set(re.findall(r"[A-Za-z_]+", file.read_text(encoding="utf-8")))
        assert not words & {"pickle", "marshal", "shelve", "dill", "joblib", "eval", "exec"}, file.name


def test_a_spreadsheet_does_not_run_an_item_as_a_formula(tmp_path) -> None:
    study = new_study(tmp_path)
    with client_of(study) as client:
        walk(client, begin(client))
    with sqlite3.connect(study.store) as connection:
        connection.execute("UPDATE answer SET left_item = '=HYPERLINK(1)'")
    db = open_reader(study)
    text = "".join(csv_lines(db))
    db.close()
    assert ",=HYPERLINK" not in text
    assert ",'=HYPERLINK" in text


def test_tokens() -> None:
    token = sign(b"k", "person", "Zoë")
    assert unsign(b"k", "person", token) == "Zoë"
    for other in ("", ".", "a", token + "x", token[1:], "x" * 5000, "é.é"):
        assert unsign(b"k", "person", other) is None


def test_arrivals_are_read_by_panel() -> None:
    found = arrival_of(Panel(kind="prolific"), {"PROLIFIC_PID": "p", "STUDY_ID": "<x>"}, b"k")
    assert (found.panel_id, found.panel_study) == ("p", None)
    assert arrival_of(Panel(kind="list"), {"key": "forged"}, b"k") is None


# -------------------------------------------------------------------------------------------------- researcher


def test_the_researchers_page_counts_pauses_and_closes(study, client) -> None:
    walk(client, begin(client))
    client.cookies.clear()
    begin(client)
    researcher(client, study)
    page = client.get("/researcher")
    assert re.search(r"Started</span> <span class=\"value\">2", page.text)
    assert re.search(r"Finished</span> <span class=\"value\">1 ", page.text)
    client.post("/researcher/state", data={"action": "pause"})
    assert WORDS["paused"] in client.get("/go").text
    client.post("/researcher/state", data={"action": "resume"})
    assert "Question 1 of 6" in client.get("/go").text
    client.post("/researcher/state", data={"action": "close"})
    late = client.post("/go", data={"position": "0", "choice": "left"})
    assert WORDS["closed"] in late.text
    assert client.post("/researcher/state", data={"action": "explode"}).status_code == 400
    table = client.get("/researcher/answers.csv")
    assert table.headers["content-type"].startswith("text/csv")
    assert table.text.count("\n") == 7
    client.post("/researcher/out")
    assert client.get("/researcher").status_code == 403


def test_an_answer_to_a_page_that_was_shown_counts_while_the_study_is_paused(study, client) -> None:
    page = begin(client)
    researcher(client, study)
    client.post("/researcher/state", data={"action": "pause"})
    reply = client.post("/go", data={**hidden(page.text), "choice": "left"})
    assert WORDS["paused"] in reply.text
    assert rows(study, "SELECT COUNT(*) FROM answer") == [(1,)]


def test_the_verdict_comes_from_a_process_and_is_drawn(tmp_path) -> None:
    study = new_study(tmp_path)
    rng = np.random.default_rng(0)
    with client_of(study) as client:
        for _ in range(14):
            client.cookies.clear()
            page = begin(client)
            for _ in range(6):
                form = {**hidden(page.text), "choice": str(rng.choice(["left", "right"])), "ms": "120"}
                page = client.post("/go", data=form)
        done = subprocess.run(
            [sys.executable, "-m", "crowdmetric.collect.findings", str(study.folder)], capture_output=True, text=True,
            check=False, timeout=HANGING,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert study.verdict.exists()
        researcher(client, study)
        page = client.get("/researcher")
    assert "Relative error of the metric now" in page.text
    assert page.text.count("<svg") == 5
    assert re.search(r"14 people, by these rules", page.text)
    assert "median response 120 ms" in page.text


def test_too_early_is_a_sentence(study, client) -> None:
    walk(client, begin(client))
    db = open_reader(study)
    told = findings.learn(study, db, findings.StudySample(study, db))
    db.close()
    assert told["sentence"].startswith("Too early")


def test_counts_do_not_depend_on_pieces_and_a_fit_takes_a_sample_of_very_many_people(study, monkeypatch) -> None:
    with client_of(study) as client:
        for k in range(12):
            client.cookies.clear()
            walk(client, begin(client), "left" if k % 3 else "right", ms=str(100 * k + 50))
    db = open_reader(study)

    def found() -> tuple[dict, findings.StudySample]:
        counts, sample = counting.Counts(study.settings.careless), findings.StudySample(study, db)
        for person, answered in counting.answers_by_person(db):
            assert len(answered) == 6
            counts.add(db, person, answered)
            sample.add(person, answered)
        return counts.to_dict(), sample

    whole, everybody = found()
    monkeypatch.setattr(counting, "PIECE", 5)  # nobody's answers fit into one piece
    monkeypatch.setattr(findings, "MOST_ANSWERS", 36)
    pieces, some = found()
    db.close()
    assert whole == pieces
    assert (whole["answers"], whole["left"], whole["right"]) == (72, 48, 24)
    assert sum(whole["times"]) == 72
    assert whole["median_ms"] == pytest.approx(600, abs=60)
    assert whole["careless"] == 4  # medians below 400 ms
    assert (everybody.people, everybody.drawn, len(everybody.choice)) == (12, 12, 72)
    assert (some.people, some.answers) == (12, 72)
    assert some.share == 0.5
    people = [person for (person,) in rows(study, "SELECT id FROM person")]
    assert some.drawn == sum(crc32(person.encode()) < 2**31 for person in people)  # the same ones at every fit
    assert len(some.choice) == 6 * some.drawn


def test_careless_rules() -> None:
    rule = Careless()
    fast = Answered(times=[100, 120, 5000])
    sided = Answered(choices={k: "left" for k in range(8)})
    fickle = Answered(choices={0: "left", 1: "left", 5: "left", 6: "left"}, repeats=[(0, 5), (1, 6)])
    steady = Answered(times=[900], choices={0: "left", 1: "right", 5: "right", 6: "left"}, repeats=[(0, 5), (1, 6)])
    assert reasons(fast, rule) == ["median response 120 ms"]
    assert reasons(sided, rule) == ["100% of answers on one side"]
    assert reasons(fickle, rule) == ["2 of 2 repeats contradict"]
    assert reasons(steady, rule) == []
    assert reasons(Answered(missed=2), rule) == ["2 checks missed"]


def test_pictures_escape_their_text() -> None:
    for svg in (
        bars([1, 2], ["<a>", "b"], "<t>"),
        intervals(["<a>"], [1.0], [0.5], [1.5], "t"),
        heat_map(["<a>"], [[1.0]], "t"),
    ):
        assert svg.startswith("<svg")
        assert "<a>" not in svg
        assert "<t>" not in svg


def test_the_tally_knows_quantiles() -> None:
    tally = RequestTally()
    for k in range(100):
        tally.add("GET /", 200, 0.001 if k < 98 else 0.1)
    assert tally.quantile(0.5) == pytest.approx(1.0, rel=0.08)
    assert tally.quantile(0.99) == pytest.approx(100.0, rel=0.08)
