"""Templates -> pages. The one place for Jinja2; everything that is filled in is escaped unless the study says HTML."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any

from crowdmetric.errors import missing_extra

__all__ = ["STATIC", "Frame", "frame", "paragraphs", "render", "static_file"]

# Files that pages may load, and their types.
STATIC = {
    "style.css": "text/css; charset=utf-8",
    "script.js": "text/javascript; charset=utf-8",
    "refresh.js": "text/javascript; charset=utf-8",
    "researcher.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
FOLDER = files("crowdmetric.collect")
# Marks a slot in a frame; no text of a study can hold it.
SLOT = "\0"


@cache
def static_file(name: str) -> str:
    """Return the text of a file in `STATIC`."""
    return (FOLDER / "static" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Any:
    try:
        jinja2 = import_module("jinja2")
    except ImportError as error:
        raise missing_extra("Jinja2", "collect", "a study") from error

    def load(name: str) -> str | None:
        place = FOLDER / "templates" / name
        return place.read_text(encoding="utf-8") if place.is_file() else None

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(load), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, auto_reload=False, cache_size=100,
    )  # fmt: skip
    environment.filters["paragraphs"] = paragraphs
    return environment


def render(template: str, **values: Any) -> str:
    """Return a page."""
    return str(_template(template).render(**values))


class Frame:
    """A page that is rendered once and filled in many times, because a template takes longer than saving an answer.

    What is filled in is not escaped: it is a number, or was rendered before.
    """

    def __init__(self, text: str) -> None:
        self._parts = text.split(SLOT)
        self._names = self._parts[1::2]

    def fill(self, **values: str | int) -> str:
        """Return the page with a value in each slot."""
        parts = self._parts.copy()
        parts[1::2] = [str(values[name]) for name in self._names]
        return "".join(parts)


def frame(template: str, slots: tuple[str, ...], **values: Any) -> Frame:
    """Return a page that has slots where the template uses the names in `slots`."""
    return Frame(render(template, **{name: f"{SLOT}{name}{SLOT}" for name in slots}, **values))


@cache
def _template(name: str) -> Any:
    """Return a compiled template; asking Jinja2 for it each time would take a lock."""
    return _environment().get_template(name)


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, which empty lines separate."""
    return [" ".join(part.split()) for part in text.strip().split("\n\n") if part.strip()]
