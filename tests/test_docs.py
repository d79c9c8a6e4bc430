"""What the pages say is there: code cut out of the library, links, names that exist, and a complete API reference."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
MADE = {"gallery", "tutorials", "api", "used-in"}  # folders that a build makes
PAGES = sorted([*(page for page in DOCS.rglob("*.md") if not MADE & set(page.parts)), ROOT / "README.md"])
INCLUDE = re.compile(r'literalinclude\} (?P<file>\S+)\n:start-after: "(?P<start>[^"]+)"\n:end-before: "(?P<end>[^"]+)"')

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@each_page
def test_cut_out_code_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("{literalinclude}") == len(INCLUDE.findall(text)), "cut code out between two marks"
    for file, start, end in INCLUDE.findall(text):
        source = (page.parent / file).read_text(encoding="utf-8")
        assert source.count(start) == source.count(end) == 1


def test_pages_that_explain_extending_show_the_real_code() -> None:
    for name in ("add-a-loss", "add-an-elimination", "add-a-solver"):
        assert INCLUDE.search((DOCS / "how-to" / f"{name}.md").read_text(encoding="utf-8")), name


@each_page
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+\.(?:md|rst|png|csv|cff))[^)]*\)", page.read_text(encoding="utf-8")):
        target = page.parent / link
        if MADE & {target.parent.name}:  # made from a script of the same name
            folder = {"gallery": "examples", "tutorials": "tutorials"}[target.parent.name]
            target = ROOT / folder / f"{target.stem}.py"
            target = target.with_name("GALLERY_HEADER.rst") if target.stem == "index" else target
        assert target.exists(), f"{page.name} links to {link}"


@pytest.mark.parametrize("kind", ["how-to", "explanation", "reference"])
def test_every_page_is_in_the_contents_of_its_kind(kind: str) -> None:
    listed = re.findall(r"^([a-z-]+)$", (DOCS / kind / "index.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    there = {page.stem for page in (DOCS / kind).iterdir() if page.suffix in {".md", ".rst"}} - {"index"}
    assert there == set(listed)
    assert len(listed) == len(set(listed))


# ------------------------------------------------------------------------------------------- API reference

LISTED = re.findall(
    r"^   ([A-Za-z][\w.]*)$", (DOCS / "reference" / "api.rst").read_text(encoding="utf-8"), re.MULTILINE
)
# Modules whose every name is public. Of `tables`, `symmetric`, `errors` and `engines` the reference lists a part: the
# rest is for the library itself.
WHOLE = [
    "agreement", "collect", "datasets", "design", "estimators", "evaluate", "export", "identifiability", "intervals",
    "locate", "losses", "report", "simulate", "simulate_judgements", "stitch", "subspaces", "theory",
]  # fmt: skip


def value_of(name: str) -> object:
    module, _, last = f"crowdmetric.{name}".rpartition(".")
    return getattr(importlib.import_module(module), last)


@pytest.mark.parametrize("module", WHOLE)
def test_every_public_name_is_in_the_reference(module: str) -> None:
    loaded = importlib.import_module(f"crowdmetric.{module}")
    wanted = {name for name in loaded.__all__ if callable(getattr(loaded, name))}
    prefix = "" if module == "estimators" else f"{module}."
    missing = sorted(name for name in wanted if prefix + name not in LISTED)
    assert not missing, f"docs/reference/api.rst does not list {missing} of crowdmetric.{module}"


def test_names_of_the_package_are_in_the_reference() -> None:
    package = importlib.import_module("crowdmetric")
    assert set(package.__all__) - {"__version__"} <= set(LISTED)
    assert len(LISTED) == len(set(LISTED))


@pytest.mark.parametrize("name", LISTED)
def test_names_in_the_reference_exist_and_are_documented(name: str) -> None:
    value = value_of(name)
    assert value.__doc__
    assert callable(value)


# ------------------------------------------------------------------------------------- gallery and tutorials

SCRIPTS = sorted(path for path in [*(ROOT / "examples").glob("*.py"), *(ROOT / "tutorials").glob("*.py")])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_examples_begin_with_a_title_and_draw_a_thumbnail(script: Path) -> None:
    if script.stem == "demo":
        pytest.skip("`make demo` runs it; it is not in the gallery")
    text = script.read_text(encoding="utf-8")
    title, rule, blank, *_ = (ast.get_docstring(ast.parse(text), clean=True) or "").splitlines()
    assert set(rule) == {"="}
    assert len(rule) == len(title)
    assert blank == ""
    assert "figure, axes = plt.subplots(" in text


def test_the_gallery_is_in_an_order_that_somebody_chose() -> None:
    text = (DOCS / "extensions" / "gallery_order.py").read_text(encoding="utf-8")
    order = re.findall(r'^    "(\w+)",$', text, flags=re.MULTILINE)
    assert sorted(order) == sorted(path.stem for path in (ROOT / "examples").glob("*.py") if path.stem != "demo")
