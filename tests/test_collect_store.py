"""The store: the same tests on SQLite and PostgreSQL. Nothing acknowledged is lost, nothing is kept twice."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from functools import partial
from glob import glob
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collect_studies import new_study
from crowdmetric import Comparisons
from crowdmetric.cli import main
from crowdmetric.collect import open_study, schema
from crowdmetric.collect.database import StoreError
from crowdmetric.collect.designing import make_pool
from crowdmetric.collect.exporting import answer_batches, csv_lines
from crowdmetric.collect.folder import open_reader
from crowdmetric.collect.operations import (
    Arrival,
    Given,
    add_design,
    answer,
    erase,
    find_person,
    get_meta,
    people_named,
    record_view,
    set_meta,
    show,
    start,
    step_on,
    visit,
)
from crowdmetric.collect.places import random_places
from crowdmetric.collect.postgres_database import open_postgres
from crowdmetric.collect.sheets import Place, make_steps, read_steps, repeats_of, write_steps
from crowdmetric.collect.sqlite_database import copies_of, open_sqlite, read_sqlite, serving
from crowdmetric.collect.tokens import unsign
from crowdmetric.collect.visitor import Visitor
from crowdmetric.collect.writer import Writer
from crowdmetric.errors import DataError
from crowdmetric.tables import read_columns, write_batches
from hanging import HANGING

IDS = [f"i{k}" for k in range(9)]


# ------------------------------------------------------------------------------------------------- two databases


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """The address of a PostgreSQL server for this run, and functions that stop and start it."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    found = sorted(glob("/usr/lib/postgresql/*/bin/initdb")) or [shutil.which("initdb") or ""]
    if not found[-1]:
        pytest.skip("no PostgreSQL server is installed (Debian: apt-get install postgresql)")
    tools = Path(found[-1]).parent
    as_owner: list[str] = []
    # by a socket in a folder of its own: a port that was free a moment ago may be another program's by now. The folder
    # is not deep inside the run's own: sockets have short names
    folder = Path(
        subprocess.run(["mktemp", "-d", "/tmp/pgXXXXXX"], capture_output=True, text=True, check=True).stdout.strip()
    )
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        shutil.chown(folder, "postgres")
        as_owner = ["runuser", "-u", "postgres", "--"]

    def tool(name: str, *options: str) -> None:
        subprocess.run(
            [*as_owner, str(tools / name), *options], check=True, capture_output=True, cwd=folder, timeout=HANGING
        )

    def up() -> None:
        tool("pg_ctl", "-D", str(folder / "data"), "-l", str(folder / "log"), "-w", "-o",
             f"-k {folder} -c listen_addresses=''", "start")  # fmt: skip

    def down() -> None:
        tool("pg_ctl", "-D", str(folder / "data"), "-m", "immediate", "-w", "stop")

    tool("initdb", "-D", str(folder / "data"), "-U", "study", "--auth=trust", "-N")
    up()
    yield f"postgresql://study@/postgres?host={folder}", up, down
    down()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgres"])
def reopen(request, tmp_path):
    """A function that opens the same store again."""
    if request.param == "sqlite":
        opened = []

        def open_again():
            opened.append(open_sqlite(tmp_path / "answers.sqlite"))
            return opened[-1]
    else:
        address = request.getfixturevalue("postgres")[0]
        opened, name = [], f"test_{random.getrandbits(40):x}"

        def open_again():
            opened.append(open_postgres(address, name))
            return opened[-1]

    yield open_again
    for db in opened:
        db.close()


@pytest.fixture
def db(reopen):
    db = reopen()
    add_design(db, {"fingerprint": "x", "whole_ids": False}, places(4), 0.0)
    db.commit() if not db.quick else None
    return db


def places(count: int, questions: int = 6) -> list[Place]:
    return random_places(IDS, count, questions, np.random.default_rng(0))


def enter(db, number: int | str, *, at: float = 100.0, alive: float = 0.0, most: int = 1000):
    """Somebody whom Prolific calls `number`, and we p1, p2, … or p."""
    return start(
        db, Arrival("prolific", str(number)), f"p{number}" if isinstance(number, int) else "p",
        partial(make_steps, rng=random.Random(str(number))), version=1, most=most, alive_since=alive, at=at,
    )  # fmt: skip


def finish(db, person) -> None:
    for k in range(person.position, len(person.steps)):
        last = k + 1 == len(person.steps)
        assert answer(
            db, person.id, k, person.steps[k], Given("left", 500, 200.0), status="finished" if last else "started"
        )


def test_an_answer_counts_once_however_often_it_is_sent(db) -> None:
    person = enter(db, 1)
    step = person.steps[0]
    assert answer(db, person.id, 0, step, Given("left", 321, 101.0))
    assert not answer(db, person.id, 0, step, Given("left", 321, 101.5))
    assert not answer(db, person.id, 0, step, Given("right", 5, 102.0))
    rows = db.run("SELECT choice, left_item, right_item, response_ms, answered, version FROM answer")
    assert rows == [("left", step.left, step.right, 321, 101.0, 1)]
    assert show(db, person.id).position == 1


def test_nobody_answers_ahead_or_after_the_end(db) -> None:
    person = enter(db, 1)
    assert not answer(db, person.id, 3, person.steps[3], Given("left", 1, 1.0))
    finish(db, person)
    assert show(db, person.id).status == "finished"
    assert show(db, person.id).step is None
    assert not step_on(db, person.id, len(person.steps), 300.0)


def test_the_same_panel_id_resumes_with_the_same_sides(db) -> None:
    first = enter(db, 1)
    answer(db, first.id, 0, first.steps[0], Given("left", 1, 1.0))
    again = start(db, Arrival("prolific", "1"), "other", lambda _: [], version=1, most=1000, alive_since=0, at=5.0)
    assert again.id == first.id
    assert again.steps == first.steps
    assert again.position == 1
    assert find_person(db, Arrival("sona", "1")) is None


def test_views_start_the_clock_of_a_question_once(db) -> None:
    person = enter(db, 1)
    visit(db, person.id, "question", 110.0, 0)
    visit(db, person.id, "question", 120.0, 0)
    record_view(db, None, "welcome", 90.0)
    answer(db, person.id, 0, person.steps[0], Given("right", None, 130.0))
    visit(db, person.id, "question", 130.0, 1)
    answer(db, person.id, 1, person.steps[1], Given("right", None, 140.0))
    assert db.run("SELECT shown, response_ms FROM answer ORDER BY position") == [(110.0, None), (130.0, None)]
    assert int(db.run("SELECT COUNT(*) FROM view")[0][0]) == 4


def test_what_was_kept_is_there_after_opening_again(db, reopen) -> None:
    db.begin()
    finish(db, enter(db, 1))
    set_meta(db, "state", "paused")
    db.commit()
    again = reopen()
    assert get_meta(again, "state") == "paused"
    assert show(again, "p1").status == "finished"
    assert add_design(again, {"fingerprint": "x"}, [], 0.0) == 1
    assert add_design(again, {"fingerprint": "y"}, places(1), 0.0) == 2


def test_erase_removes_one_person_everywhere_and_nobody_else(db) -> None:
    for number in (1, 2):
        person = enter(db, number)
        visit(db, person.id, "question", 1.0, 0)
        finish(db, person)
        db.run("INSERT INTO field (person, name, value) VALUES (?, ?, ?)", person.id, "age", "33")
    assert people_named(db, "1") == ["p1"]  # by the panel's name
    assert erase(db, "p1") == 1 + 1 + 1 + 6
    for table in schema.TABLES_OF_PEOPLE:
        left = db.run(f"SELECT {'id' if table == 'person' else 'person'} FROM {table}")
        assert {row[0] for row in left} == {"p2"}


def test_an_older_store_is_migrated_after_a_copy(reopen, monkeypatch, tmp_path) -> None:
    with monkeypatch.context() as then:
        then.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
        old = reopen()
        assert schema.version_of(old) == 1
        old.begin()
        add_design(old, {"fingerprint": "x"}, places(1), 0.0)
        person = enter(old, 1)
        answer(old, person.id, 0, person.steps[0], Given("left", 1, 1.0))
        old.commit()
    new = reopen()
    assert schema.version_of(new) == len(schema.MIGRATIONS)
    again = show(new, "p1")
    assert (again.position, again.steps) == (1, person.steps)
    assert answer(new, "p1", 1, again.step, Given("right", 1, 2.0))
    if new.quick:
        (copy,) = copies_of(tmp_path / "answers.sqlite")
        with sqlite3.connect(copy) as connection:
            assert connection.execute("SELECT id, position FROM person").fetchall() == [("p1", 1)]
            assert connection.execute("SELECT value FROM meta").fetchone() == ("1",)
    else:
        (name,) = new.run(
            "SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE ?", f"{new.schema}_before%"
        )[0]
        assert new.run(f'SELECT id, position FROM "{name}".person') == [("p1", 1)]


def test_a_newer_store_is_refused(reopen) -> None:
    db = reopen()
    db.begin()
    set_meta(db, "schema", "99")
    db.commit()
    with pytest.raises(DataError, match="install a newer crowdmetric"):
        reopen()


def test_the_writer_commits_many_at_once_and_one_mistake_costs_only_itself(db) -> None:
    async def go():
        writer = Writer(db)
        writer.open()
        people = await asyncio.gather(*(writer.run(lambda d, k=k: enter(d, k)) for k in range(20)))

        def wrong(_):
            raise KeyError("a mistake")

        jobs = [writer.run(lambda d, p=p: answer(d, p.id, 0, p.steps[0], Given("left", 1, 1.0))) for p in people]
        jobs.insert(7, writer.run(wrong))
        results = await asyncio.gather(*jobs, return_exceptions=True)
        count = await writer.run(lambda d: int(d.run("SELECT COUNT(*) FROM answer")[0][0]))
        commits = writer.commits
        await writer.close()
        return results, count, commits

    results, count, commits = asyncio.run(go())
    assert [type(r) for r in results].count(KeyError) == 1
    assert [r for r in results if not isinstance(r, KeyError)] == [True] * 20
    assert count == 20
    assert commits < 40


# ----------------------------------------------------------------------------------------------------- mishaps


def test_a_full_disk_is_a_sentence_and_nothing_is_lost(tmp_path) -> None:
    db = open_sqlite(tmp_path / "answers.sqlite")
    add_design(db, {"fingerprint": "x"}, places(4), 0.0)

    async def go():
        writer = Writer(db)
        writer.open()
        saved, refused = 0, []
        pages = int(db.run("PRAGMA page_count")[0][0])
        db.run(f"PRAGMA max_page_count = {pages + 1}")
        for k in range(200):
            try:
                await writer.run(lambda d, k=k: enter(d, k))
                saved += 1
            except StoreError as error:
                refused.append(str(error))
        trouble = writer.trouble
        db.run("PRAGMA max_page_count = 1000000")
        await writer.run(lambda d: enter(d, 1000))
        kept = await writer.run(lambda d: int(d.run("SELECT COUNT(*) FROM person")[0][0]))
        after = writer.trouble
        await writer.close()
        return saved, refused, trouble, kept, after

    saved, refused, trouble, kept, after = asyncio.run(go())
    assert refused
    assert "disk" in refused[0]
    assert "full" in trouble
    assert kept == saved + 1
    assert after == ""


def test_a_store_that_another_process_holds_is_tried_again(tmp_path) -> None:
    db = open_sqlite(tmp_path / "answers.sqlite", patience_ms=0)
    add_design(db, {"fingerprint": "x"}, places(4), 0.0)
    other = sqlite3.connect(tmp_path / "answers.sqlite", isolation_level=None, check_same_thread=False)

    async def go():
        writer = Writer(db, tries=3, pause=0.05)
        writer.open()
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="another process holds"):
            await writer.run(lambda d: enter(d, 1))
        threading.Timer(0.05, lambda: other.execute("ROLLBACK")).start()
        writer.tries = 100
        person = await writer.run(lambda d: enter(d, 2))
        await writer.close()
        return person

    assert asyncio.run(go()).id == "p2"
    other.close()


def test_two_processes_cannot_serve_one_folder(tmp_path) -> None:
    with serving(tmp_path), pytest.raises(DataError, match="another process is serving"), serving(tmp_path):
        pass
    with serving(tmp_path):
        pass


def test_postgresql_that_goes_away_and_comes_back(postgres) -> None:
    address, up, down = postgres
    db = open_postgres(address, "test_away")
    db.begin()
    add_design(db, {"fingerprint": "x"}, places(4), 0.0)
    db.commit()

    async def go():
        writer = Writer(db, tries=2, pause=0.05)
        writer.open()
        first = await writer.run(lambda d: enter(d, 1))
        down()
        try:
            with pytest.raises(StoreError, match="PostgreSQL is not reachable"):
                await writer.run(lambda d: enter(d, 2))
            assert "not reachable" in writer.trouble
        finally:
            up()
        again = await writer.run(lambda d: enter(d, 1))
        second = await writer.run(lambda d: enter(d, 2))
        await writer.close()
        return first, again, second, writer.trouble

    first, again, second, trouble = asyncio.run(go())
    assert again.steps == first.steps
    assert second.id == "p2"
    assert trouble == ""


def test_two_processes_share_a_store_that_goes_away_and_comes_back(postgres, tmp_path, monkeypatch) -> None:
    address, up, down = postgres
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    monkeypatch.setenv("CROWDMETRIC_DATABASE", address)
    study = new_study(tmp_path)
    servers, ports = [], []
    for _ in range(2):
        servers.append(subprocess.Popen(
            [sys.executable, "-m", "crowdmetric", "collect", str(study.folder), "--port", "0", "--quiet"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ))  # fmt: skip
        ports.append(int(servers[-1].stdout.readline().rsplit(":", 1)[1].strip().strip("/")))
    told: dict[tuple[str, int], str] = {}

    async def take_part(number: int) -> None:
        """Send everything twice at once, to both processes."""
        tabs = [Visitor("127.0.0.1", port) for port in ports]
        tabs[1].cookies = tabs[0].cookies
        await tabs[number % 2].post("/start", (await tabs[number % 2].get("/")).hidden)
        person = unsign(study.secret.signing, "person", next(iter(tabs[0].cookies.values())))
        page = await tabs[0].get("/go")
        for k in range(4):
            form = {**page.hidden, "choice": ("left", "right")[(number + k) % 2]}
            first, second = await asyncio.gather(*(tab.post("/go", form, fragment=True) for tab in tabs))
            assert first.hidden["position"] == second.hidden["position"] == str(k + 1)
            told[person, k] = form["choice"]
            page = first
        if number == 0:
            down()
            try:
                form = {**page.hidden, "choice": "left"}
                polite = await tabs[1].post("/go", form, fragment=True)
                assert polite.status == 503
                assert polite.hidden["choice"] == "left"
            finally:
                up()
            page = await tabs[1].post("/go", polite.hidden, fragment=True)
            assert page.hidden["position"] == "5"
            told[person, 4] = "left"
        for tab in tabs:
            await tab.close()

    async def everybody() -> None:
        await asyncio.gather(*(take_part(number) for number in range(1, 13)))
        await take_part(0)

    try:
        asyncio.run(everybody())
        db = open_reader(study)
        stored = db.run("SELECT person, position, choice FROM answer")
        per_place = [int(n) for _, n in db.run("SELECT place, COUNT(*) FROM person GROUP BY place")]
        db.close()
    finally:
        for server in servers:
            server.terminate()
            server.communicate(timeout=HANGING)
    assert len(stored) == len(told) == 13 * 4 + 1
    assert {(person, int(position)): choice for person, position, choice in stored} == told
    assert sorted(per_place) == [3, 3, 3, 4]  # places are balanced over both processes


# -------------------------------------------------------------------------------------------------- assignment


@settings(max_examples=25)
@given(st.lists(st.sampled_from(["finish", "leave", "stay"]), min_size=1, max_size=40), st.integers(1, 7))
def test_places_are_balanced_by_people_who_finish(fates: list[str], count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        db = open_sqlite(Path(folder) / "a.sqlite")
        try:
            add_design(db, {"fingerprint": "x"}, places(count, 2), 0.0)
            for number, fate in enumerate(fates):
                now = 1000.0 * number
                # whoever was not seen for 500 seconds has left; those who stay are seen all the time
                db.run("UPDATE person SET seen = ? WHERE status = 'started' AND agent = 'stays'", now)
                person = enter(db, number, at=now, alive=now - 500)
                if fate == "finish":
                    finish(db, person)
                elif fate == "stay":
                    db.run("UPDATE person SET agent = 'stays' WHERE id = ?", person.id)
            taken = {k: 0 for k in range(count)}
            sql = "SELECT place, COUNT(*) FROM person WHERE status = 'finished' OR agent = 'stays' GROUP BY place"
            taken |= {int(place): int(n) for place, n in db.run(sql)}
            assert max(taken.values()) - min(taken.values()) <= 1
        finally:
            db.close()


def test_a_place_is_given_back_after_a_while_and_not_before(db) -> None:
    def place_of(person) -> int:
        return int(db.run("SELECT place FROM person WHERE id = ?", person.id)[0][0])

    first = place_of(enter(db, 1, at=100.0, alive=0.0))
    assert place_of(enter(db, 2, at=150.0, alive=50.0)) != first
    assert place_of(enter(db, 3, at=300.0, alive=140.0)) == first


def test_a_study_is_full_when_enough_people_have_finished(db) -> None:
    finish(db, enter(db, 1, most=1))
    assert enter(db, 2, most=1) is None
    assert enter(db, 1, most=1).status == "finished"  # who was here still finds their end


questions = st.lists(
    st.tuples(st.sampled_from(IDS), st.sampled_from(IDS)).filter(lambda p: p[0] != p[1]), min_size=1, max_size=30
)


@given(questions, st.floats(0, 1), st.integers(0, 10**6))
def test_sheets_ask_every_question_and_repeat_with_sides_swapped(pairs, share, seed) -> None:
    steps = make_steps(
        Place("design", tuple(pairs)), random.Random(seed), repeats=share, practice=[("i0", "i1")],
        checks=[("i2", "i3", "left")], instructions=True, survey=True,
    )  # fmt: skip
    assert read_steps(write_steps(steps)) == tuple(steps)
    asked = [s for s in steps if s.purpose == "design"]
    assert [tuple(sorted((s.left, s.right))) for s in asked] == [tuple(sorted(p)) for p in pairs]
    again = [(k, s) for k, s in enumerate(steps) if s.purpose == "repeat"]
    assert len(again) == repeats_of(len(pairs), share)
    for k, step in again:
        original = steps[step.repeat_of]
        assert step.repeat_of < k
        assert (step.left, step.right) == (original.right, original.left)
        assert original.purpose == "design"
    assert len({s.repeat_of for _, s in again}) == len(again)
    assert all(s.left != s.right for s in steps if s.asks)
    (check,) = [s for s in steps if s.purpose == "check"]
    assert getattr(check, check.expect) == "i2"
    assert [s.page for s in steps][:2] == ["instructions", "practice"]
    assert steps[-1].page == "survey"


def test_repeats_stand_apart_from_their_question() -> None:
    for seed in range(200):
        steps = make_steps(Place("design", tuple((IDS[0], i) for i in IDS[1:] * 2)), random.Random(seed), repeats=0.25)
        assert all(k - s.repeat_of > 3 for k, s in enumerate(steps) if s.repeat_of is not None)


def test_sides_are_even() -> None:
    place = Place("design", tuple(("i0", "i1") for _ in range(50)))
    flips = sum(s.left == "i1" for seed in range(100) for s in make_steps(place, random.Random(seed)))
    assert abs(flips - 2500) < 5 * (5000 * 0.25) ** 0.5  # five standard deviations


@pytest.mark.parametrize("kind", ["random", "matched"])
def test_designs_become_places_with_some_people_kept_for_evaluation(kind, tmp_path) -> None:
    changes = {"evaluation =": "evaluation = 0.25", "people =": "people = 12", "questions =": "questions = 4"}
    study = new_study(tmp_path, {'kind = "optimal"': f'kind = "{kind}"', **changes})
    pool = make_pool(study.settings, study.items, study.folder)
    assert len(pool.places) == 12
    assert sum(place.purpose == "evaluation" for place in pool.places) == 3
    assert all(len(place.pairs) == 4 for place in pool.places)
    assert all(a != b and {a, b} <= set(study.items.ids) for place in pool.places for a, b in place.pairs)
    assert 0 < pool.details["promise"]["expected_error"] < 100
    assert make_pool(study.settings, study.items, study.folder) == pool


def test_within_asks_each_person_about_one_subspace(tmp_path) -> None:
    rng = np.random.default_rng(0)
    lines = ["item_id,text,x,y,z,group"]
    for group in range(6):
        basis = np.linalg.qr(rng.standard_normal((3, 2)))[0]
        for k in range(6):
            x, y, z = (basis @ rng.standard_normal(2)).tolist()
            lines.append(f"{group}-{k},Item {group} {k},{x},{y},{z},{group}")
    study = new_study(tmp_path)
    (study.folder / "items.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = study.folder / "study.toml"
    text = path.read_text(encoding="utf-8").replace('kind = "file"\nfile = "questions.csv"', 'kind = "within"')
    text = text.replace('table = "items.csv"', 'table = "items.csv"\nsubspace_column = "group"')
    path.write_text(
        text.replace("people = 200", "people = 60").replace("questions = 12", "questions = 4"), encoding="utf-8"
    )
    study = open_study(study.folder)
    assert study.items.items.feature_names == ["x", "y", "z"]
    pool = make_pool(study.settings, study.items, study.folder)
    for place in pool.places:
        assert len({item.partition("-")[0] for pair in place.pairs for item in pair}) == 1


# ------------------------------------------------------------------------------------------------------ export


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_an_export_goes_straight_into_comparisons(suffix, tmp_path) -> None:
    study = new_study(tmp_path)
    db = open_sqlite(study.store)
    version = add_design(db, {"fingerprint": "x"}, make_pool(study.settings, study.items, study.folder).places, 0.0)
    assert version == 1
    person = start(
        db, Arrival("anonymous"), "who", partial(make_steps, rng=random.Random(0), practice=[("0", "1")], repeats=0.5),
        version=1, most=9, alive_since=0, at=1.0,
    )  # fmt: skip
    for k, choice in enumerate(["left", "right", "tie", "left", "left", "right"]):
        answer(db, person.id, k, person.steps[k], Given(choice, 100 * k if k % 2 else None, 50.0 + k))
    db.close()
    out = tmp_path / f"answers.{suffix}"
    assert main(["collect", "export", str(study.folder), "--out", str(out), "--quiet"]) == 0
    answers = Comparisons.read(out, item_ids=study.items.items.ids)
    assert len(answers) == 6  # five answers, one of them a tie, which is two rows; practice is left out
    assert answers.dropped == {}
    columns = read_columns(out)
    assert columns["left"].dtype.kind == "i"
    assert columns["choice"].tolist() == ["right", "tie", "left", "left", "right"]
    scan = Comparisons.scan_parquet if suffix == "parquet" else Comparisons.scan_csv
    assert Comparisons.from_scan(scan(out, item_ids=study.items.items.ids)) == answers
    assert main(["collect", "export", str(study.folder), "--out", str(out), "--everything", "--quiet"]) == 0
    assert len(read_columns(out)["choice"]) == 6


def test_an_export_before_the_first_answer_has_a_header(tmp_path) -> None:
    db = open_sqlite(tmp_path / "a.sqlite")
    for suffix in ("csv", "parquet"):
        assert write_batches(answer_batches(db, True), tmp_path / f"a.{suffix}") == 0
        assert len(read_columns(tmp_path / f"a.{suffix}")["user"]) == 0


def test_an_export_reads_beside_the_writer_and_names_no_panel_id(tmp_path) -> None:
    db = open_sqlite(tmp_path / "a.sqlite")
    add_design(db, {"fingerprint": "x"}, places(1), 0.0)
    finish(db, enter(db, "secretpid"))
    db.begin()
    enter(db, 5)
    text = "".join(csv_lines(read_sqlite(tmp_path / "a.sqlite")))
    db.commit()
    assert text.count("\n") == 7
    assert "secretpid" not in text


def test_erase_from_the_command_line_leaves_no_trace_on_disk(tmp_path, capsys) -> None:
    study = new_study(tmp_path)
    db = open_sqlite(study.store)
    add_design(db, {"fingerprint": "x"}, places(1), 0.0)
    enter(db, "verysecretpanelid")
    db.close()
    with (
        sqlite3.connect(study.store) as source,
        sqlite3.connect(study.store.with_name("answers.before-x.sqlite")) as copy,
    ):
        source.backup(copy)
    assert main(["collect", "erase", str(study.folder), "verysecretpanelid"]) == 0
    assert "erased 1 rows" in capsys.readouterr().out
    for file in study.folder.glob("answers*"):
        assert b"verysecretpanelid" not in file.read_bytes(), file.name
    assert main(["collect", "erase", str(study.folder), "verysecretpanelid"]) == 1
    assert "nobody is called" in capsys.readouterr().err
