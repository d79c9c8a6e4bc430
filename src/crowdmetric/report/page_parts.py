"""Pieces of a page: texts, lists, tables and pictures as HTML, and the whole page. Texts are escaped here."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence

from crowdmetric.errors import MissingExtraError
from crowdmetric.report.glossary import linked, words_section
from crowdmetric.report.style import STYLE

__all__ = [
    "Html",
    "as_html",
    "as_number",
    "as_sentence",
    "list_of",
    "paragraphs_of",
    "picture_of",
    "table_of",
    "whole_page",
]


def whole_page(sections: Sequence[str], models: Sequence[str] = ()) -> str:
    """Return sections as one HTML page; at its end stands what their words mean and what these models are."""
    body = "".join(sections)
    body += words_section(models, sections=body)
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>crowdmetric: what was learned</title><style>{STYLE}</style>"
    )
    footer = '<footer class="small">This page holds everything it shows, and asks no server for anything.</footer>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}{footer}</body></html>\n'


class Html(str):
    """A cell of a table that is HTML already."""

    __slots__ = ()


def as_sentence(text: str) -> str:
    """Return a clause with a capital letter and a period."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def as_html(text: str) -> str:
    """Return a text for HTML, with `what is between backticks` and --options set as code."""
    return re.sub(r"`([^`]*)`|(?<!\S)(--estimator [a-z]+|--[a-z][a-z-]*)", _code, html.escape(text))


def _code(found: re.Match[str]) -> str:
    return f"<code>{found[1] or found[2]}</code>"


def paragraphs_of(texts: Sequence[str]) -> str:
    """Return texts as paragraphs, escaped here."""
    return "".join(f"<p>{as_html(text)}</p>" for text in texts)


def list_of(texts: Sequence[str]) -> str:
    """Return a list of texts, escaped here."""
    return "<ul>" + "".join(f"<li>{as_html(text)}</li>" for text in texts) + "</ul>" if texts else ""


def table_of(
    head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = (), saved: int | None = None
) -> str:
    """Return a table of texts, escaped here unless they are `Html`.

    Columns in `numbers` are set to the right, the row `saved` stands out. A number that is not known (NaN) is left out.
    """
    rows = [[_known(c) if column in numbers else c for column, c in enumerate(row)] for row in rows]

    def line(cells: Sequence[str], tag: str, stands_out: bool = False) -> str:
        marks = [' class="number"' if column in numbers else "" for column in range(len(cells))]
        texts = [linked(c) if tag == "th" else c if isinstance(c, Html) else html.escape(c) for c in cells]
        inside = "".join(f"<{tag}{m}>{c}</{tag}>" for m, c in zip(marks, texts, strict=True))
        opening = '<tr class="saved">' if stands_out else "<tr>"
        return f"{opening}{inside}</tr>"

    body = "".join(line(row, "td", place == saved) for place, row in enumerate(rows))
    return f'<div class="wide"><table><thead>{line(head, "th")}</thead><tbody>{body}</tbody></table></div>'


def _known(cell: str) -> str:
    """Return the text of a number without an error that is not known; nothing if the number itself is not."""
    text = re.sub(r" ± (nan|inf)\b", "", cell)
    return "" if re.search(r"\b(nan|inf)\b", text) else Html(text) if isinstance(cell, Html) else text


def picture_of(draw: Callable[[], str], caption: str) -> str:
    """Return a figure; where matplotlib is missing, the sentence that says how to get it."""
    try:
        svg = draw()
    except MissingExtraError as error:
        return f'<p class="small">{html.escape(as_sentence(str(error)))}</p>'
    marked = svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(caption)}"', 1)
    return f"<figure>{marked}<figcaption>{html.escape(caption)}</figcaption></figure>"


def as_number(value: float) -> str:
    """Return a number with two decimals and a true minus sign."""
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")
