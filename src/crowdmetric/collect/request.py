"""A request as the study sees it, and a reply, independent of the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Ask", "Cookie", "Reply", "redirect"]


@dataclass(frozen=True)
class Ask:
    """A request.

    Attributes
    ----------
    query, form, cookies : mappings of text
        If a name is repeated, its last value counts.
    fragment : bool
        Whether the page's own script asks, which wants only the inside of the next page.
    languages : tuple of str
        Languages that the browser prefers, best first.
    client : str
        The network address, for rate limits; never stored.
    cross_site : bool
        Whether the browser says that another site sent this request.
    agent : str
        The browser's name.
    base : str
        The address that the browser used, without a path.
    """

    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)
    fragment: bool = False
    languages: tuple[str, ...] = ()
    client: str = ""
    cross_site: bool = False
    agent: str = ""
    base: str = ""


@dataclass(frozen=True)
class Cookie:
    """A cookie to set: HttpOnly always; strict ones are never sent along from another site."""

    name: str
    value: str
    seconds: int
    strict: bool = False


@dataclass(frozen=True)
class Reply:
    """A reply: text, a file, or a stream. Names of headers are in lower case."""

    body: str = ""
    status: int = 200
    kind: str = "text/html; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: tuple[Cookie, ...] = ()
    file: Path | None = None
    stream: Iterator[str] | None = None


def redirect(place: str, *cookies: Cookie) -> Reply:
    """Return a reply that leads to another page, by GET."""
    return Reply(status=303, headers={"location": place}, cookies=cookies)
