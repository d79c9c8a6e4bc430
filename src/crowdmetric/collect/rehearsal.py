"""Simulated people with a known metric, through the real server over HTTP, to a store of their own.

They see what people will see, and answer by ψ = ‖x − u‖²_M − ‖x' − u‖²_M with a metric M and ideal points u that
`crowdmetric.design` thinks possible for these items. The answers go the whole way: pages, server, store, export, fit.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.collect.database import Database
from crowdmetric.collect.exporting import answer_batches
from crowdmetric.collect.folder import Study, open_reader, open_study
from crowdmetric.collect.operations import newest_design
from crowdmetric.collect.serving import prepare
from crowdmetric.collect.sheets import minutes_of, read_steps
from crowdmetric.collect.tokens import unsign
from crowdmetric.collect.visitor import Visitor
from crowdmetric.comparisons import Comparisons
from crowdmetric.design.guess import guess_about_items
from crowdmetric.errors import DataError
from crowdmetric.estimators import PopulationMetric
from crowdmetric.simulate import answer
from crowdmetric.symmetric import relative_error, shape_error
from crowdmetric.tables import write_batches

__all__ = ["Rehearsal", "rehearse"]

# Number of simultaneous people, seconds to wait for the server, and pages after which a person is certainly lost.
AT_ONCE, PATIENCE, MOST_PAGES = 16, 120.0, 2_500
# The answer to a question counts as known beforehand if fewer than one in this many simulated people would choose the
# other item.
FOREGONE = 50
MOST_NAMED = 5


@dataclass(frozen=True)
class Rehearsal:
    """What a study would find.

    Attributes
    ----------
    people, finished, answers : int
    error, shape_error : float
        Of the metric that was fitted, against the one that people had; the second after the best rescaling.
    promise, promised_shape : float or None
        Errors that the design promised for that many people.
    minutes : float
        Duration for one person, at 4 s per question and 20 s per other page.
    server_ms : float
        Median time from an answer to the next page.
    foregone : list of (left, right)
        Questions that nearly everybody answers alike: they teach nothing.
    equal : list of (left, right)
        Questions about two items with the same features, or that look the same.
    reliability : float or None
        Share of repeated questions that were answered alike.
    """

    people: int
    finished: int
    answers: int
    error: float
    shape_error: float
    promise: float | None
    promised_shape: float | None
    minutes: float
    server_ms: float
    questions: int
    foregone: list[tuple[str, str]]
    equal: list[tuple[str, str]]
    reliability: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    def summary(self) -> str:
        """Return the rehearsal in a few sentences."""
        promised = (
            "The design made no promise."
            if self.promise is None
            else f"The design promised {self.promise:.2f} ({self.promised_shape:.2f} up to scale)."
        )
        lines = [
            f"{self.finished:,} of {self.people:,} simulated people finished; {self.answers:,} answers were saved.",
            f"Error of the metric: {self.error:.2f} ({self.shape_error:.2f} up to scale). {promised}",
            f"A person takes about {self.minutes:.0f} minutes; "
            f"the server answered within {self.server_ms:.0f} ms (median).",
        ]
        if self.reliability is not None:
            lines.append(f"Repeated questions were answered alike {self.reliability:.0%} of the time.")
        for what, pairs in (
            ("have an answer that is known beforehand: nearly everybody chooses the same item", self.foregone),
            ("compare items that are the same: nobody should be asked these", self.equal),
        ):
            if pairs:
                few = "; ".join(f"{a} or {b}" for a, b in pairs[:MOST_NAMED])
                lines.append(f"{len(pairs):,} of {self.questions:,} different questions {what} ({few}).")
        return "\n".join(lines)


def rehearse(study: Study, people: int, progress: Callable[[str], None] = lambda _: None, seed: int = 0) -> Rehearsal:
    """Send simulated people through a study, and return what it would find."""
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as place:
        copy = _copy(study, Path(place) / "study", people)
        rng = np.random.default_rng(seed)
        X = copy.items.scaled
        guess = guess_about_items(X, None, None, 1.0, None, rng)
        metric = guess.metrics[0]
        ideal = guess.crowd[rng.integers(len(guess.crowd), size=people)]
        prepare(copy, people, progress)
        progress(f"sending {people} simulated people through the server")
        with _Server(copy) as port:
            walks = asyncio.run(_walk_everybody(copy, port, ideal, metric, seed))
        progress("fitting the metric to their answers")
        return _found(copy, people, metric, ideal, walks)


def _copy(study: Study, folder: Path, people: int) -> Study:
    """Return the same study in a new folder, for this many anonymous people, with an empty store."""
    kept = shutil.ignore_patterns("answers.*", "secret.json", "serving.lock", "verdict.json", ".*")
    shutil.copytree(study.folder, folder, ignore=kept)
    copy = open_study(folder)
    _write_settings(folder, people)
    return open_study(copy.folder)


def _write_settings(folder: Path, people: int) -> None:
    """Change what a rehearsal must not share: the number of people, the panel, the address, the database, the limit.

    Simulated people answer in milliseconds. A live design would hardly learn before the last of them has come, so they
    wait for it.
    """
    path = folder / "study.toml"
    changes = {
        "study": {"people": str(people)}, "server": {"address": '""', "database": '""', "starts_per_minute": "1000000"},
        "panel": {"kind": '"anonymous"', "list": '""'}, "design": {"wait": "true"},
    }  # fmt: skip
    section, lines = "", []
    missing = {name: dict(keys) for name, keys in changes.items()}
    for written in path.read_text(encoding="utf-8").splitlines():
        line, bare = written, written.strip()
        if bare.startswith("["):
            lines += [f"{key} = {value}" for key, value in missing.pop(section, {}).items()]
            section = bare.strip("[]")
        key = bare.partition("=")[0].strip()
        if section in missing and key in missing[section]:
            line = f"{key} = {missing[section].pop(key)}"
        lines.append(line)
    lines += [f"{key} = {value}" for key, value in missing.pop(section, {}).items()]
    for name, keys in missing.items():
        lines += [f"[{name}]", *(f"{key} = {value}" for key, value in keys.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


class _Server:
    """The real server, as a separate process on a free port of this machine."""

    def __init__(self, study: Study) -> None:
        self.study = study

    def __enter__(self) -> int:
        environment = {k: v for k, v in os.environ.items() if k != "CROWDMETRIC_DATABASE"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crowdmetric", "collect", str(self.study.folder), "--port", "0", "--quiet"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        if "http://" not in first:
            self.process.kill()
            raise DataError("the server of the rehearsal did not start; try crowdmetric collect without --rehearse")
        return int(first.rsplit(":", 1)[1].strip().strip("/"))

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


async def _walk_everybody(
    study: Study, port: int, ideal: NDArray[Any], metric: NDArray[Any], seed: int
) -> list[tuple[str, list[float]]]:
    """Return everybody's id and the seconds that each of their answers took; a bounded number at a time."""
    gate = asyncio.Semaphore(AT_ONCE)
    db = open_reader(study)

    async def walk(number: int) -> tuple[str, list[float]]:
        async with gate:
            return await _walk(study, db, port, ideal[number], metric, seed + number)

    try:
        return list(await asyncio.gather(*(walk(k) for k in range(len(ideal)))))
    finally:
        db.close()


async def _walk(
    study: Study, db: Database, port: int, u: NDArray[Any], metric: NDArray[Any], seed: int
) -> tuple[str, list[float]]:
    """Take one person through all pages, with the answers that their ideal point gives."""
    visitor = Visitor("127.0.0.1", port)
    try:
        page = await visitor.get("/")
        await visitor.post("/start", page.hidden)
        token = next(iter(visitor.cookies.values()))
        person = unsign(study.secret.signing, "person", token)
        if person is None:
            raise DataError("the server of the rehearsal gave a simulated person no place; look at its log")
        steps = read_steps(db.run("SELECT sheet FROM person WHERE id = ?", person)[0][0])
        choices = _choices(study, steps, u, metric, seed)
        took: list[float] = []
        page = await visitor.get("/go")
        for _ in range(MOST_PAGES):
            hidden = page.hidden
            if "position" not in hidden:
                break
            form = _form(study, steps[int(hidden["position"])].page) | hidden
            form["choice"] = choices.get(int(hidden["position"]), "")
            clock = time.perf_counter()
            page = await visitor.post("/go", form, fragment=True)
            for _ in range(20):  # simulated people are faster than one person may be: they wait and try again
                if page.status != 429:
                    break
                await asyncio.sleep(0.25)
                clock = time.perf_counter()
                page = await visitor.post("/go", form, fragment=True)
            took.append(time.perf_counter() - clock)
        return person, took
    finally:
        await visitor.close()


def _choices(study: Study, steps: Any, u: NDArray[Any], metric: NDArray[Any], seed: int) -> dict[int, str]:
    """Return what a person chooses, by position."""
    asked = [k for k, step in enumerate(steps) if step.asks]
    place = {item: row for row, item in enumerate(study.items.ids)}
    pairs = np.array([[place[steps[k].left], place[steps[k].right]] for k in asked])
    y = answer(study.items.scaled, pairs, np.tile(u, (len(asked), 1)), metric, seed=seed)
    chosen = {k: "left" if side < 0 else "right" for k, side in zip(asked, y.tolist(), strict=True)}
    return chosen | {k: steps[k].expect for k in asked if steps[k].expect}


def _form(study: Study, page: str) -> dict[str, str]:
    """Return fields that let a simulated person pass screening and survey."""
    if page == "screening":
        return {s.name: s.accept[0] for s in study.settings.screening}
    if page == "survey":
        return {f.name: f.options[0] if f.options else "1" for f in study.settings.survey}
    return {}


def _found(
    study: Study, people: int, metric: NDArray[Any], ideal: NDArray[Any], walks: list[tuple[str, list[float]]]
) -> Rehearsal:
    db = open_reader(study)
    try:
        table = study.folder / "answers.csv"
        rows = write_batches(answer_batches(db, study.items.whole_ids), table)
        finished = int(db.run("SELECT COUNT(*) FROM person WHERE status = 'finished'")[0][0])
        steps = read_steps(db.run("SELECT sheet FROM person LIMIT 1")[0][0])
        design = newest_design(db)
        alike = _alike(db)
    finally:
        db.close()
    promise = (design[1].get("promise") or {}) if design is not None else {}
    X = study.items.scaled
    answers = Comparisons.read(table, item_ids=study.items.items.ids)
    model = PopulationMetric(X, jobs=1, uncertainty=False).fit(answers)
    pairs = np.unique(np.sort(answers.pairs, axis=1), axis=0)
    foregone, equal = _useless(study, pairs, ideal, metric)
    questions = sum(step.asks for step in steps)
    return Rehearsal(
        people=people, finished=finished, answers=rows,
        error=relative_error(model.metric_, metric), shape_error=shape_error(model.metric_, metric),
        promise=promise.get("expected_error"), promised_shape=promise.get("expected_shape_error"),
        minutes=minutes_of(questions, len(steps) - questions + 2),
        server_ms=1e3 * float(np.median([s for _, took in walks for s in took])), questions=len(pairs),
        foregone=foregone, equal=equal, reliability=alike,
    )  # fmt: skip


def _alike(db: Database) -> float | None:
    """Return the share of repeats that name the same item again."""
    rows = db.run(
        "SELECT COUNT(*), SUM(CASE WHEN a.choice <> b.choice THEN 1 ELSE 0 END) FROM answer a JOIN answer b"
        " ON b.person = a.person AND b.position = a.repeat_of WHERE a.repeat_of IS NOT NULL"
    )
    return float(rows[0][1]) / float(rows[0][0]) if rows[0][0] else None


def _useless(
    study: Study, pairs: NDArray[Any], ideal: NDArray[Any], metric: NDArray[Any]
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return questions whose answer is known beforehand, and those about two items that are the same."""
    X, ids, shown = study.items.scaled, study.items.ids, study.items.shown
    foregone, equal = [], []
    for a, b in pairs.tolist():
        named = (ids[a], ids[b])
        if np.array_equal(X[a], X[b]) or shown[ids[a]] == shown[ids[b]]:
            equal.append(named)
            continue
        y = answer(X, np.tile([a, b], (len(ideal), 1)), ideal, metric, seed=a * len(ids) + b)
        if min(np.sum(y < 0), np.sum(y > 0)) * FOREGONE < len(ideal):
            foregone.append(named)
    return foregone, equal
