"""What the answers show so far: counts first, then what they teach. Runs in a separate process.

::

    python -m crowdmetric.collect.findings FOLDER

writes ``verdict.json`` into the folder, whole or not at all: once with the counts, again with the metric.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from array import array
from pathlib import Path
from sys import intern
from typing import Any
from zlib import crc32

import numpy as np

from crowdmetric.collect.counting import Counts, Row, answers_by_person
from crowdmetric.collect.database import Database
from crowdmetric.collect.folder import Study, open_reader, open_study
from crowdmetric.collect.operations import newest_design
from crowdmetric.comparisons import Comparisons
from crowdmetric.errors import CrowdmetricError
from crowdmetric.estimators import PopulationMetric
from crowdmetric.folders import for_json, write_file
from crowdmetric.identifiability import diagnose

__all__ = ["StudySample", "learn", "main"]

# Fewest people and answers for which a metric is fitted, and the numbers above which a sample is used.
FEWEST_PEOPLE, FEWEST_ANSWERS = 10, 60
MOST_PEOPLE, MOST_ANSWERS = 20_000, 400_000
USED = ("design", "evaluation", "repeat")


class StudySample:
    """The answers that a metric is fitted to: of everybody, or of people drawn at random if there are very many.

    Ids are random, so people whose hash is small are a random sample, and the same ones at every fit.
    """

    def __init__(self, study: Study, db: Database) -> None:
        people = int(db.run("SELECT COUNT(*) FROM person")[0][0])
        answers = int(db.run("SELECT COUNT(*) FROM answer")[0][0])
        db.rollback()
        self.share = min(1.0, MOST_PEOPLE / max(people, 1), MOST_ANSWERS / max(answers, 1))
        self._row = {item: row for row, item in enumerate(study.items.ids)}
        self.people = self.drawn = self.answers = 0
        self.user, self.left, self.right = array("q"), array("q"), array("q")
        self.choice: list[str] = []

    def add(self, person: str, rows: list[Row]) -> None:
        """Add one person, if they are drawn."""
        used = [row for row in rows if row.purpose in USED and row.left in self._row and row.right in self._row]
        if not used:
            return
        self.people += 1
        self.answers += len(used)
        if crc32(person.encode()) >= self.share * 2**32:
            return
        self.user.extend([self.drawn] * len(used))
        self.left.extend(self._row[row.left] for row in used)
        self.right.extend(self._row[row.right] for row in used)
        self.choice += [intern(row.choice) for row in used]
        self.drawn += 1

    def comparisons(self) -> Comparisons:
        """Return the answers."""
        return Comparisons.from_arrays(
            np.array(self.user), left=np.array(self.left), right=np.array(self.right), choice=self.choice,
            n_items=len(self._row),
        )  # fmt: skip


def learn(study: Study, db: Database, sample: StudySample) -> dict[str, Any]:
    """Return what the answers teach: identifiability, the metric with intervals, and its error against the plan."""
    finished = int(db.run("SELECT COUNT(*) FROM person WHERE status = 'finished'")[0][0])
    found: dict[str, Any] = {"people": sample.people, "answers": sample.answers, "finished": finished}
    if sample.people < FEWEST_PEOPLE or sample.answers < FEWEST_ANSWERS:
        return found | {
            "sentence": f"Too early: a metric is fitted from {FEWEST_PEOPLE} people and {FEWEST_ANSWERS} answers on."
        }
    if sample.drawn < sample.people:
        found["drawn"] = sample.drawn
    answers, scaled = sample.comparisons(), study.items.scaled
    diagnosis = diagnose(scaled, answers, features=study.items.items.feature_names)
    found |= {
        "rank": diagnosis.rank, "dimensions": diagnosis.dimensions, "identified": diagnosis.identified,
        "population_rank": diagnosis.population_rank, "summary": diagnosis.summary(),
    }  # fmt: skip
    model = PopulationMetric(scaled, jobs=1).fit(answers)
    covariance = np.asarray(getattr(model, "metric_covariance_", np.full((1, 1), np.nan)))
    size = float(np.linalg.norm(model.metric_))
    error = float(np.sqrt(np.trace(covariance)) / size) if size > 0 else float("nan")
    planned = study.settings.study.people
    design = newest_design(db)
    promise = (design[1].get("promise") or {}) if design is not None else {}
    return found | {
        "names": list(study.items.items.feature_names),
        "metric": model.metric_.tolist(),
        "standard_errors": np.asarray(getattr(model, "standard_errors_", np.full_like(model.metric_, np.nan))).tolist(),
        "error": error * np.sqrt(sample.drawn / sample.people),
        "forecast": error * np.sqrt(sample.drawn / max(planned, 1)),
        "promise": promise.get("expected_error"),
        "planned": planned,
        "status": str(model.solution_.status),
    }  # fmt: skip


def _write(study: Study, found: dict[str, Any]) -> None:
    write_file(study.verdict, json.dumps(for_json(found), allow_nan=False))


def main(folder: str) -> None:
    """Count, write, learn, write."""
    study = open_study(Path(folder))
    db = open_reader(study)
    started = time.time()
    counts, sample = Counts(study.settings.careless), StudySample(study, db)
    for person, rows in answers_by_person(db):
        counts.add(db, person, rows)
        sample.add(person, rows)
    found: dict[str, Any] = {"at": started, "counts": counts.to_dict()}
    try:
        old: dict[str, Any] = json.loads(study.verdict.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        old = {}
    _write(study, {**old, **found})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            learned = learn(study, db, sample)
        except CrowdmetricError as error:
            learned = {"sentence": f"No metric yet: {error}."}
    learned["warnings"] = [str(w.message) for w in caught if "crowdmetric" in type(w.message).__module__]
    _write(study, {**found, "learned": learned, "learned_at": time.time()})


if __name__ == "__main__":
    main(sys.argv[1])
