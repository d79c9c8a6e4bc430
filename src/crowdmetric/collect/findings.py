"""What the answers show so far: counts first, then what they teach. Runs in a process of its own.

::

    python -m crowdmetric.collect.findings FOLDER

writes ``verdict.json`` into the folder, whole or not at all: once with the counts, again with the metric.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from crowdmetric.collect.careless import Answered, reasons
from crowdmetric.collect.database import Database
from crowdmetric.collect.folder import Study, open_reader, open_study
from crowdmetric.collect.operations import newest_design
from crowdmetric.collect.sheets import read_steps
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import CrowdmetricError
from crowdmetric.estimators import PopulationMetric
from crowdmetric.folders import write_file
from crowdmetric.identifiability import diagnose

__all__ = ["FILE", "count", "learn", "main"]

FILE = "verdict.json"
# Fewest people and answers for which a metric is fitted, and the number of people above which a sample is used.
FEWEST_PEOPLE, FEWEST_ANSWERS, MOST_PEOPLE = 10, 60, 20_000
MOST_NAMED = 50
# Edges of the histogram of response times, in milliseconds.
EDGES = (0, 200, 400, 600, 800, 1000, 1300, 1700, 2200, 3000, 4000, 6000, 10_000, 30_000)
Rows = list[tuple[Any, ...]]


def _read(db: Database) -> Rows:
    """Return person, position, left, right, choice, purpose, repeat_of, response_ms and answered of every answer."""
    rows: Rows = []
    last = -1
    sql = (
        "SELECT id, person, position, left_item, right_item, choice, purpose, repeat_of, response_ms, answered"
        " FROM answer WHERE id > ? ORDER BY id LIMIT 20000"
    )
    while piece := db.run(sql, last):
        last = int(piece[-1][0])
        rows += [row[1:] for row in piece]
        db.rollback()
    return rows


def count(study: Study, db: Database, rows: Rows) -> dict[str, Any]:
    """Return what the researcher's page shows of people and their answers."""
    people: dict[str, Answered] = defaultdict(Answered)
    checks = {row[0] for row in rows if row[5] == "check"}
    expected: dict[tuple[str, int], str] = {}
    for person in checks:
        for sheet in db.run("SELECT sheet FROM person WHERE id = ?", person):
            expected |= {(person, k): step.expect for k, step in enumerate(read_steps(sheet[0])) if step.expect}
    for person, position, _, _, choice, purpose, repeat_of, ms, _ in rows:
        if purpose == "practice":
            continue
        entry = people[person]
        if ms is not None:
            entry.times.append(int(ms))
        if purpose == "check":
            entry.missed += expected.get((person, int(position)), choice) != choice
            continue
        entry.choices[int(position)] = choice
        if repeat_of is not None:
            entry.repeats.append((int(repeat_of), int(position)))
    careless = {person: found for person, a in people.items() if (found := reasons(a, study.settings.careless))}
    alike, repeats = (sum(x) for x in zip((0, 0), *(a.consistent() for a in people.values()), strict=True))
    times = [ms for a in people.values() for ms in a.times]
    hours = Counter(int(row[8] // 3600) for row in rows)
    sides = Counter(row[4] for row in rows if row[5] != "practice")
    return {
        "answers": len(rows),
        "hours": _last_hours(hours),
        "times": np.histogram(np.clip(times, 0, EDGES[-1] - 1), EDGES)[0].tolist() if times else [],
        "median_ms": float(np.median(times)) if times else None,
        "repeats": repeats, "alike": alike,
        "left": sides["left"], "right": sides["right"], "ties": sides["tie"],
        "careless": len(careless),
        "named": [[person, found] for person, found in list(careless.items())[:MOST_NAMED]],
    }  # fmt: skip


def _last_hours(hours: Counter[int]) -> list[list[Any]]:
    """Return the hours since the first answer, 12 to 48 of them, each with its count."""
    if not hours:
        return []
    last = max(hours)
    first = min(max(min(hours), last - 47), last - 11)
    return [[3600 * hour, hours[hour]] for hour in range(first, last + 1)]


def learn(study: Study, db: Database, rows: Rows) -> dict[str, Any]:
    """Return what the answers teach: identifiability, the metric with intervals, and its error against the plan."""
    used = [row for row in rows if row[5] in ("design", "evaluation", "repeat")]
    people = sorted({row[0] for row in used})
    finished = int(db.run("SELECT COUNT(*) FROM person WHERE status = 'finished'")[0][0])
    found: dict[str, Any] = {"people": len(people), "answers": len(used), "finished": finished}
    if len(people) < FEWEST_PEOPLE or len(used) < FEWEST_ANSWERS:
        return found | {
            "sentence": f"Too early: a metric is fitted from {FEWEST_PEOPLE} people and {FEWEST_ANSWERS} answers on."
        }
    if len(people) > MOST_PEOPLE:
        drawn = set(people[:: -(-len(people) // MOST_PEOPLE)])  # ids are random, so every k-th is a random sample
        used = [row for row in used if row[0] in drawn]
        found["drawn"] = len(drawn)
    place = {item: row for row, item in enumerate(study.items.ids)}
    known = [row for row in used if row[2] in place and row[3] in place]
    answers = Comparisons.from_arrays(
        [row[0] for row in known], left=[place[row[2]] for row in known], right=[place[row[3]] for row in known],
        choice=[row[4] for row in known], n_items=len(place),
    )  # fmt: skip
    X = study.items.items.features
    center, spread = X.mean(axis=0), X.std(axis=0)
    scaled = (X - center) / np.where(spread > 0, spread, 1.0)
    diagnosis = diagnose(scaled, answers, features=study.items.items.feature_names)
    found |= {
        "rank": diagnosis.rank, "dimensions": diagnosis.dimensions, "identified": diagnosis.identified,
        "population_rank": diagnosis.population_rank, "summary": diagnosis.summary(),
    }  # fmt: skip
    model = PopulationMetric(scaled, jobs=1).fit(answers)
    covariance = np.asarray(getattr(model, "metric_covariance_", np.full((1, 1), np.nan)))
    size = float(np.linalg.norm(model.metric_))
    error = float(np.sqrt(np.trace(covariance)) / size) if size > 0 else float("nan")
    used_people = found.get("drawn", len(people))
    planned = study.settings.study.people
    design = newest_design(db)
    promise = (design[1].get("promise") or {}) if design is not None else {}
    return found | {
        "names": list(study.items.items.feature_names),
        "metric": model.metric_.tolist(),
        "standard_errors": np.asarray(getattr(model, "standard_errors_", np.full_like(model.metric_, np.nan))).tolist(),
        "error": _finite(error * np.sqrt(used_people / len(people))),
        "forecast": _finite(error * np.sqrt(used_people / max(planned, 1))),
        "promise": promise.get("expected_error"),
        "planned": planned,
        "status": str(model.solution_.status),
    }  # fmt: skip


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _write(folder: Path, found: dict[str, Any]) -> None:
    text = json.dumps(found, allow_nan=False, default=float)
    write_file(folder / FILE, text)


def _without_nan(value: Any) -> Any:
    """Return nested lists with None for numbers that are not."""
    if isinstance(value, list):
        return [_without_nan(x) for x in value]
    if isinstance(value, dict):
        return {key: _without_nan(x) for key, x in value.items()}
    return None if isinstance(value, float) and not np.isfinite(value) else value


def main(folder: str) -> None:
    """Count, write, learn, write."""
    study = open_study(Path(folder))
    db = open_reader(study)
    started = time.time()
    rows = _read(db)
    counts = {"at": started, "counts": count(study, db, rows)}
    old: dict[str, Any] = {}
    if (study.folder / FILE).exists():
        old = json.loads((study.folder / FILE).read_text(encoding="utf-8"))
    _write(study.folder, {**old, **counts})
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            learned = learn(study, db, rows)
        except CrowdmetricError as error:
            learned = {"sentence": f"No metric yet: {error}."}
    learned["warnings"] = [str(w.message) for w in told if "crowdmetric" in type(w.message).__module__]
    _write(study.folder, _without_nan({**counts, "learned": learned, "learned_at": time.time()}))


if __name__ == "__main__":
    main(sys.argv[1])
