"""Small studies for the tests of `crowdmetric.collect`."""

from __future__ import annotations

import csv
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from crowdmetric.collect import Study, make_study, open_study
from crowdmetric.collect.serving import make_app, prepare
from crowdmetric.collect.visitor import Page

ITEMS = 12


def new_study(
    folder: Path, changes: dict[str, str] | None = None, more: str = "", texts: list[str] | None = None
) -> Study:
    """A study about a few items; `changes` are lines of study.toml by their key, `more` is added at its end."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    texts = texts or [f"Item {i}" for i in range(ITEMS)]
    with (folder / "items.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["item_id", "text", "a", "b"])
        writer.writerows([i, text, *rng.standard_normal(2)] for i, text in enumerate(texts))
    # the person column names places; six questions each, no design to compute
    with (folder / "questions.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["person", "left", "right"])
        for person in range(4):
            for k in range(6):
                writer.writerow([person, (person + k) % len(texts), (person + k + 1) % len(texts)])
    place = make_study(folder / "items.csv", folder / "study")
    (folder / "questions.csv").rename(place / "questions.csv")
    defaults = {
        "kind = \"optimal\"": 'kind = "file"\nfile = "questions.csv"', "evaluation =": "evaluation = 0",
        "repeats =": "repeats = 0", "starts_per_minute =": "starts_per_minute = 100000", "instructions = \"\"\"": None,
    }  # fmt: skip
    text = (place / "study.toml").read_text(encoding="utf-8")
    text = text.replace(
        'instructions = """\nLook at both, then choose the one you like better. Go with your first impression."""',
        'instructions = ""',
    )
    for key, line in {**{k: v for k, v in defaults.items() if v}, **(changes or {})}.items():
        lines = text.splitlines()
        found = [n for n, old in enumerate(lines) if old.startswith(key)]
        assert found, key
        lines[found[0]] = line
        text = "\n".join(lines) + "\n"
    (place / "study.toml").write_text(text + more, encoding="utf-8")
    return open_study(place)


@contextmanager
def client_of(study: Study):
    """A client of the study as it is served, without the process of the verdict."""
    testing = pytest.importorskip("starlette.testclient", reason="Starlette or httpx is not installed")
    with testing.TestClient(make_app(study, prepare(study), verdicts=False), base_url="http://testserver") as client:
        yield client


def hidden(text: str) -> dict[str, str]:
    return Page(200, text).hidden


def begin(client, path: str = "/"):
    """Agree, and return the first page."""
    page = client.get(path)
    return client.post("/start", data=hidden(page.text))


def walk(client, page, choice: str = "left", most: int = 100, **fields: str):
    """Answer until there is nothing more to answer, and return the last page."""
    for _ in range(most):
        form = hidden(page.text)
        if "position" not in form:
            break
        page = client.post("/go", data={**form, "choice": choice, **fields})
    return page
