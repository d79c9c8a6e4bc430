"""Run a notebook while the pages are built, and set it on a page like any other text.

A page with the line ``<!-- notebook: name.ipynb -->`` gets the cells and what they print and draw. Notebooks are kept
without outputs, so that none can be out of date; a cell that fails, or warns, stops the build.
"""

from __future__ import annotations

import re
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

MARK = re.compile(r"^<!-- notebook: (?P<file>[\w./-]+) -->$", flags=re.MULTILINE)
WIDTH = 100  # of printed lines


def on_page_markdown(markdown: str, *, config: Any, **_: Any) -> str:
    """Return the page with the notebooks it names (called by MkDocs for every page)."""
    return MARK.sub(lambda mark: _page((Path(config.docs_dir) / mark["file"]).read_text(encoding="utf-8")), markdown)


@cache  # `mkdocs serve` builds again and again
def _page(text: str) -> str:
    notebook = nbformat.reads(text, as_version=4)
    files_not_ports = Config({"ConnectionFileMixin": {"transport": "ipc"}})
    NotebookClient(
        notebook, config=files_not_ports, kernel_name="python3", timeout=300, coalesce_streams=True
    ).execute()
    parts = [part for cell in notebook.cells for part in _parts(cell)]
    return "\n\n".join(parts).partition("\n")[2]  # without its title, which the page has


def _parts(cell: Any) -> list[str]:
    if cell.cell_type == "markdown":
        return [cell.source]
    return [_fenced("python", cell.source), *(_output(output, cell) for output in cell.outputs)]


def _output(output: Any, cell: Any) -> str:
    if output.output_type == "stream":
        if output.name == "stderr":
            raise RuntimeError(f"a cell of the notebook writes to standard error: {output.text}")
        return _fenced("text", output.text)
    if "image/png" in output.data:
        return f"![{cell.metadata.get('alt', '')}](data:image/png;base64,{output.data['image/png'].strip()})"
    return _fenced("text", output.data["text/plain"])


def _fenced(language: str, text: str) -> str:
    lines = text.rstrip("\n").splitlines()
    if language == "text":
        lines = [piece for line in lines for piece in textwrap.wrap(line, WIDTH, subsequent_indent="  ") or [""]]
    head = "``` { .text .output .no-copy }" if language == "text" else f"```{language}"
    return "\n".join([head, *lines, "```"])
