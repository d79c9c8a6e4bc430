"""What the pages say is there: code cut out of the library, links, and names that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md"])
MARK = re.compile(r'--8<-- "(?P<file>[^":]+):(?P<section>[a-z-]+)"')

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@each_page
def test_cut_out_code_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"--\s*8\s*<", text)) == len(MARK.findall(text)), "a formatter broke a mark"
    for file, section in MARK.findall(text):
        source = (ROOT / file).read_text(encoding="utf-8")
        assert f"--8<-- [start:{section}]" in source
        assert f"--8<-- [end:{section}]" in source


def test_pages_that_explain_extending_show_the_real_code() -> None:
    for name in ("add-a-loss", "add-an-elimination", "add-a-solver"):
        assert MARK.search((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")), name


@each_page
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+\.(?:md|png|csv))[^)]*\)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), f"{page.name} links to {link}"


@pytest.mark.parametrize("notebook", sorted((ROOT / "docs").glob("*.ipynb")), ids=lambda path: path.name)
def test_notebooks_are_kept_without_outputs_and_are_on_a_page(notebook: Path) -> None:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        if cell["cell_type"] == "code":
            compile("".join(cell["source"]), notebook.name, "exec")
            assert cell["outputs"] == [], "clear the outputs: the documentation is built with fresh ones"
            assert cell["execution_count"] is None
    links = re.findall(r"\]\(([\w-]+\.md)\)", "".join("".join(cell["source"]) for cell in cells))
    assert links
    assert all((notebook.parent / link).exists() for link in links)
    assert f"<!-- notebook: {notebook.name} -->" in notebook.with_suffix(".md").read_text(encoding="utf-8")
