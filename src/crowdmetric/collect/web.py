"""Requests -> replies: routes, limits, cookies and headers. The one place for Starlette."""

from __future__ import annotations

import json
import logging
import mimetypes
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import lru_cache, partial
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from crowdmetric.collect.database import Database
from crowdmetric.collect.folder import Study
from crowdmetric.collect.logs import RequestTally, log_event
from crowdmetric.collect.operations import OPEN, get_meta, set_meta
from crowdmetric.collect.pages import STATIC, static_file
from crowdmetric.collect.participant import Participants
from crowdmetric.collect.request import Ask, Reply
from crowdmetric.collect.researcher import Researcher
from crowdmetric.errors import missing_extra

__all__ = ["build_app"]

Handler = Callable[[Ask], Awaitable[Reply]]

LARGEST_BODY = 64 * 1024
MOST_FIELDS = 200
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
# An item is only looked at: an SVG that somebody opens by itself can neither run nor load anything.
MEDIA_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "cache-control": "private, max-age=86400",
}


class TooLarge(Exception):
    """A body is larger than any form of the study, or ends too early."""


def build_app(
    study: Study,
    participants: Participants,
    researcher: Researcher,
    tally: RequestTally,
    lifespan: Callable[[Any], AbstractAsyncContextManager[None]] | None = None,
) -> Any:
    """Return the study as an ASGI application.

    Routes are looked up in a table, and headers are read and made as bytes: a general router, its middleware and its
    request object take longer than saving an answer. Starlette does what is hard: files with ranges, streams, and the
    protocol of start and end.
    """
    try:
        routing = import_module("starlette.routing")
        responses = import_module("starlette.responses")
    except ImportError as error:
        raise missing_extra("Starlette", "collect", "a study") from error
    address = urlsplit(study.settings.server.address)
    prefix = address.path.rstrip("/")
    cookie_end = f"; Path={prefix or '/'}; HttpOnly{'; Secure' if address.scheme == 'https' else ''}"
    router = routing.Router(lifespan=lifespan)
    routes: dict[tuple[str, str], Handler] = {
        ("GET", "/"): participants.welcome,
        ("POST", "/start"): participants.begin,
        ("GET", "/go"): participants.go,
        ("POST", "/go"): participants.submit,
        ("GET", "/health"): partial(_health, participants),
        ("GET", "/researcher"): researcher.page,
        ("POST", "/researcher/state"): researcher.change_state,
        ("GET", "/researcher/answers.csv"): researcher.download,
        ("GET", "/researcher/links.csv"): researcher.links,
        ("POST", "/researcher/out"): researcher.leave,
    }
    files: dict[str, Callable[[str], Reply | None]] = {"/media": partial(_media, study), "/static": _static}

    def find(method: str, path: str) -> tuple[str, Handler]:
        """Return the name of a route, for the log, and its handler."""
        handler = routes.get((method, path))
        if handler is not None:
            return f"{method} {path}", handler
        folder, _, name = path.rpartition("/")
        reply = files[folder](name) if method == "GET" and folder in files else None

        async def file(ask: Ask) -> Reply:
            return reply or participants.not_found(ask)

        return f"{method} {folder}/{{name}}" if folder in files else f"{method} *", file

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await router(scope, receive, send)
            return
        clock = time.perf_counter()
        # a proxy may leave the path under which people reach the study in the address, or take it away
        path, method = scope["path"], "GET" if scope["method"] == "HEAD" else scope["method"]
        path = (path[len(prefix) :] or "/") if prefix and (path == prefix or path.startswith(f"{prefix}/")) else path
        route, handler = find(method, path)
        try:
            reply = await handler(await _ask(scope, receive))
        except TooLarge:
            reply = Reply("", 413, headers={"connection": "close"})
        except Exception as error:
            log_event("failed", level=logging.ERROR, error=error, route=route)
            reply = participants.trouble(Ask())
        tally.add(route, reply.status, time.perf_counter() - clock)
        await _send(reply, scope, receive, send, responses, cookie_end)

    return app


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


ALWAYS = _raw(HEADERS)


async def _send(reply: Reply, scope: Any, receive: Any, send: Any, responses: Any, cookie_end: str) -> None:
    """Send a reply; text goes straight out, Starlette sends files and streams."""
    headers = _raw(HEADERS | dict(reply.headers)) if reply.headers else ALWAYS.copy()
    for cookie in reply.cookies:
        same_site = "Strict" if cookie.strict else "Lax"
        text = f"{cookie.name}={cookie.value}; Max-Age={cookie.seconds}; SameSite={same_site}{cookie_end}"
        headers.append((b"set-cookie", text.encode()))
    if reply.file is None and reply.stream is None:
        body = reply.body.encode()
        headers += [(b"content-type", reply.kind.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return
    if reply.file is not None:
        response = responses.FileResponse(reply.file, reply.status, media_type=reply.kind)
    else:
        response = responses.StreamingResponse(reply.stream, reply.status, media_type=reply.kind)
    response.raw_headers += headers
    await response(scope, receive, send)


async def _ask(scope: Any, receive: Any) -> Ask:
    """Return a request as the study sees it; TooLarge for a body that no form of the study has."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    form: dict[str, str] = {}
    if scope["method"] == "POST":
        body = await _body(receive, headers.get(b"content-length", b""))
        if headers.get(b"content-type", b"").startswith(b"application/x-www-form-urlencoded"):
            form = _parse(body)
    return Ask(
        query=_parse(scope["query_string"]), form=form, cookies=_cookies(headers.get(b"cookie", b"")),
        languages=_languages(headers.get(b"accept-language", b"")), fragment=headers.get(b"x-fragment") == b"1",
        client=scope["client"][0] if scope.get("client") else "",
        cross_site=headers.get(b"sec-fetch-site") == b"cross-site" and scope["method"] == "POST",
        agent=headers.get(b"user-agent", b"").decode("latin-1"),
        base=f"{scope['scheme']}://{headers.get(b'host', b'').decode('latin-1')}",
    )  # fmt: skip


async def _body(receive: Any, length: bytes) -> bytes:
    if length.isdigit() and int(length) > LARGEST_BODY:
        raise TooLarge
    body, more = b"", True
    while more:
        part = await receive()
        if part["type"] == "http.disconnect":
            raise TooLarge  # cut off: nobody waits for the reply
        body += part.get("body", b"")
        more = part.get("more_body", False)
        if len(body) > LARGEST_BODY:  # regardless of its Content-Length
            raise TooLarge
    return body


def _parse(text: bytes) -> dict[str, str]:
    """Return the fields of a form or a query."""
    if not text:
        return {}
    try:
        return dict(parse_qsl(text.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError as error:
        raise TooLarge from error


def _cookies(header: bytes) -> dict[str, str]:
    pairs = (part.partition("=") for part in header.decode("latin-1").split(";"))
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


@lru_cache(1024)
def _languages(header: bytes) -> tuple[str, ...]:
    parts = header[:200].decode("latin-1").split(",")
    return tuple(filter(None, (part.partition(";")[0].strip() for part in parts)))


def _media(study: Study, name: str) -> Reply | None:
    """Return an item's file by its number: an address cannot name any other file."""
    files = study.items.files
    if not (name.isascii() and name.isdigit() and len(name) < 9 and int(name) < len(files)):
        return None
    file = files[int(name)]
    if not file.is_file():
        return None
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return Reply(kind=kind, file=file, headers=MEDIA_HEADERS)


def _static(name: str) -> Reply | None:
    if name not in STATIC:
        return None
    return Reply(static_file(name), kind=STATIC[name], headers={"cache-control": "public, max-age=300"})


async def _health(participants: Participants, _: Ask) -> Reply:
    """Say whether answers can be saved, by saving something: a proxy or a container looks here."""

    def operation(db: Database) -> str:
        set_meta(db, "checked", f"{time.time():.0f}")
        return get_meta(db, "state", OPEN)

    try:
        health = {"ok": True, "state": await participants.writer.run(operation)}
    except Exception:
        health = {"ok": False, "trouble": "answers cannot be saved"}
    return Reply(json.dumps(health), 200 if health["ok"] else 503, kind="application/json")
