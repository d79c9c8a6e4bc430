"""Somebody without a browser, who takes a study over HTTP as a page without JavaScript would, or as the script does.

Used by rehearsals and by the load test: plain asyncio streams, one connection that is kept, cookies, forms.
"""

from __future__ import annotations

import asyncio
import html
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

__all__ = ["Page", "Visitor"]

HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')
COOKIE = re.compile(r"^set-cookie: ([^=]+)=([^;]*)", re.IGNORECASE)
SECONDS = 30.0


@dataclass(frozen=True)
class Page:
    """A page: its status, its text, and where a redirect leads."""

    status: int
    text: str
    location: str = ""

    @property
    def hidden(self) -> dict[str, str]:
        """The hidden fields of its form."""
        return {name: html.unescape(value) for name, value in HIDDEN.findall(self.text)}

    @property
    def asks(self) -> bool:
        """Whether it asks which of two items."""
        return "data-question" in self.text


class Visitor:
    """One person with one connection.

    Parameters
    ----------
    host, port : str, int
        Address of the server.
    headers : str
        Further lines for every request.
    """

    def __init__(self, host: str, port: int, headers: str = "") -> None:
        self.host, self.port, self.headers = host, port, headers
        self.cookies: dict[str, str] = {}
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str) -> Page:
        """Ask for a page."""
        return await self._send("GET", path, "")

    async def post(self, path: str, form: dict[str, Any], fragment: bool = False) -> Page:
        """Send a form; as the page's script does with `fragment`."""
        return await self._send("POST", path, urlencode(form), "X-Fragment: 1\r\n" if fragment else "")

    async def close(self) -> None:
        """Leave."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _send(self, method: str, path: str, body: str, more: str = "") -> Page:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        request = (
            f"{method} {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n{self.headers}{more}"
            + (f"Cookie: {cookies}\r\n" if cookies else "")
            + (f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n" if body else "")
            + f"\r\n{body}"
        )
        for last in (False, True):  # a kept connection may have been closed meanwhile
            try:
                return await asyncio.wait_for(self._exchange(request.encode()), SECONDS)
            except (ConnectionError, asyncio.IncompleteReadError):
                await self.close()
                if last:
                    raise
        raise AssertionError("the loop returns or raises")

    async def _exchange(self, request: bytes) -> Page:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self.host, self.port)
        reader, writer = self._streams
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, length, location = int(head[9:12]), 0, ""
        for line in head.split("\r\n"):
            lower = line.lower()
            if lower.startswith("content-length:"):
                length = int(line[15:])
            elif lower.startswith("location:"):
                location = line[9:].strip()
            elif found := COOKIE.match(line):
                self.cookies[found[1]] = found[2]
        text = (await reader.readexactly(length)).decode() if length else ""
        return Page(status, text, location)
