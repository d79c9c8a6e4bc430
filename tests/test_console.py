"""What the console blocks of README.md and of the pages show is what the program prints (`docs/console_blocks.py`)."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
spec = importlib.util.spec_from_file_location("console_blocks", DOCS / "console_blocks.py")
assert spec is not None
assert spec.loader is not None
blocks = importlib.util.module_from_spec(spec)
sys.modules["console_blocks"] = blocks
spec.loader.exec_module(blocks)

RUN = [page for page in blocks.PAGES if any(not b["reason"] for b in blocks.BLOCK.finditer(page.read_text("utf-8")))]
needs_a_shell = pytest.mark.skipif(os.name == "nt", reason="the sessions are those of a POSIX shell")


@needs_a_shell
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_pages_show_what_is_printed(page: Path, tmp_path: Path) -> None:
    wrong = list(blocks.differences(page, tmp_path))
    assert not wrong, f"`python docs/console_blocks.py {page.name}` writes them anew\n\n" + "\n\n".join(wrong)


def test_a_block_that_is_not_run_says_why() -> None:
    for page in blocks.PAGES:
        text = page.read_text(encoding="utf-8")
        assert text.count("```console\n") == len(blocks.BLOCK.findall(text)), page
        for block in blocks.BLOCK.finditer(text):
            assert block["text"].startswith("$ "), f"{page}: a console block begins with a command"


def test_lines_agree_up_to_the_last_digit() -> None:
    assert blocks.agree(["time  44 %  -9.069"], ["time   45 %  -9.068"])
    assert not blocks.agree(["time  56 %  1.331"], ["time  50 %  1.289"])  # what the README once showed
    assert not blocks.agree(["time 44 %"], ["cost 44 %"])
    assert not blocks.agree(["1", "2"], ["1"])
    assert blocks.agree(["first", "…", "last 2"], ["first", "second", "third", "last 3"])
    assert not blocks.agree(["first", "…", "last"], ["first", "second"])
    assert not blocks.agree(["0.5"], ["0.8"])


@needs_a_shell
def test_a_page_is_written_anew(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    shown = ["```console", "$ printf 'a 1\\nb 2\\nc 3\\n'", "a 9", "…", "c 8", "```"]
    told = ["<!-- not run: it would not end -->", "```console", "$ yes", "n", "```"]
    page.write_text("\n".join([*shown, *told]), encoding="utf-8")
    (tmp_path / "one").mkdir()
    assert len(list(blocks.differences(page, tmp_path / "one"))) == 1
    (tmp_path / "two").mkdir()
    text = blocks.renewed(page, tmp_path / "two")
    assert text.splitlines() == [*shown[:2], "a 1", "…", "c 3", *shown[-1:], *told]
