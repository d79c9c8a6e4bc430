"""Requests -> replies: routes, limits, cookies and headers. The one place for Starlette."""

from __future__ import annotations

import json
import logging
import mimetypes
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from crowdmetric.collect.exchange import Ask, Reply
from crowdmetric.collect.folder import Study
from crowdmetric.collect.logs import RequestTally, log_event
from crowdmetric.collect.operations import get_meta
from crowdmetric.collect.pages import STATIC, static_file
from crowdmetric.collect.participant import Participants
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
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
# An item is only looked at: an SVG that somebody opens by itself can neither run nor load anything.
MEDIA_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "Cache-Control": "private, max-age=86400",
}


class TooLarge(Exception):
    """A body is larger than any form of the study."""


def build_app(
    study: Study,
    participants: Participants,
    researcher: Researcher,
    tally: RequestTally,
    lifespan: Callable[[Any], AbstractAsyncContextManager[None]] | None = None,
) -> Any:
    """Return the study as an ASGI application."""
    try:
        starlette = import_module("starlette.applications")
        routing = import_module("starlette.routing")
        responses = import_module("starlette.responses")
    except ImportError as error:
        raise missing_extra("Starlette", "collect", "a study") from error
    address = urlsplit(study.settings.server.address)
    prefix, secure = address.path.rstrip("/"), address.scheme == "https"
    answer = partial(_answer, responses=responses, path=prefix or "/", secure=secure, tally=tally)

    def route(path: str, handler: Handler, method: str = "GET") -> Any:
        async def endpoint(request: Any) -> Any:
            return await answer(request, path, handler, participants)

        return routing.Route(path, endpoint, methods=[method])

    def file(path: str, find: Callable[[str], Reply | None]) -> Any:
        async def handler(ask: Ask, name: str) -> Reply:
            return find(name) or participants.not_found(ask)

        async def endpoint(request: Any) -> Any:
            return await answer(request, path, partial(handler, name=request.path_params["name"]), participants)

        return routing.Route(path, endpoint, methods=["GET"])

    async def missing(request: Any, _: Exception) -> Any:
        async def handler(ask: Ask) -> Reply:
            return participants.not_found(ask)

        return await answer(request, "*", handler, participants)

    routes = [
        route("/", participants.welcome),
        route("/start", participants.begin, "POST"),
        route("/go", participants.go),
        route("/go", participants.submit, "POST"),
        file("/media/{name}", partial(_media, study)),
        file("/static/{name}", _static),
        route("/health", partial(_health, participants)),
        route("/researcher", researcher.page),
        route("/researcher/state", researcher.change_state, "POST"),
        route("/researcher/answers.csv", researcher.download),
        route("/researcher/links.csv", researcher.links),
        route("/researcher/out", researcher.leave, "POST"),
    ]
    app = starlette.Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: missing, 405: missing})
    return _without_prefix(app, prefix)


def _without_prefix(app: Any, prefix: str) -> Any:
    """Return an application that also answers under a path, whether the proxy leaves it in or not."""
    if not prefix:
        return app

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        if scope["type"] == "http" and (path == prefix or path.startswith(f"{prefix}/")):
            scope = dict(scope, path=path[len(prefix) :] or "/", raw_path=None)
        await app(scope, receive, send)

    return inner


async def _answer(
    request: Any, route: str, handler: Handler, pages: Participants, *, responses: Any, path: str, secure: bool,
    tally: RequestTally,
) -> Any:  # fmt: skip
    """Return the response to one request; whatever goes wrong is a polite page."""
    clock = time.perf_counter()
    try:
        reply = await handler(await _ask(request))
    except TooLarge:
        reply = Reply("", 413, headers={"Connection": "close"})
    except Exception as error:
        log_event("failed", level=logging.ERROR, error=error, route=route)
        reply = pages.trouble(Ask())
    tally.add(f"{request.method} {route}", reply.status, time.perf_counter() - clock)
    headers = HEADERS | dict(reply.headers)
    if reply.file is not None:
        response = responses.FileResponse(reply.file, reply.status, headers=headers, media_type=reply.kind)
    elif reply.stream is not None:
        response = responses.StreamingResponse(reply.stream, reply.status, headers=headers, media_type=reply.kind)
    else:
        response = responses.Response(reply.body, reply.status, headers=headers, media_type=reply.kind)
    for cookie in reply.cookies:
        response.set_cookie(
            cookie.name, cookie.value, max_age=cookie.seconds, path=path, secure=secure, httponly=True,
            samesite="strict" if cookie.strict else "lax",
        )  # fmt: skip
    return response


async def _ask(request: Any) -> Ask:
    """Return a request as the study sees it; TooLarge for a body that no form of the study has."""
    form: dict[str, str] = {}
    if request.method == "POST":
        body = await _body(request.stream(), request.headers.get("content-length", ""))
        if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            try:
                text = body.decode("utf-8", "replace")
                form = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS))
            except ValueError as error:
                raise TooLarge from error
    languages = [part.partition(";")[0].strip() for part in request.headers.get("accept-language", "")[:200].split(",")]
    return Ask(
        query=dict(request.query_params), form=form, cookies=request.cookies, languages=tuple(filter(None, languages)),
        fragment=request.headers.get("x-fragment") == "1", client=request.client.host if request.client else "",
        cross_site=request.headers.get("sec-fetch-site") == "cross-site" and request.method == "POST",
        agent=request.headers.get("user-agent", ""),
    )  # fmt: skip


async def _body(stream: AsyncIterator[bytes], length: str) -> bytes:
    if length.isdigit() and int(length) > LARGEST_BODY:
        raise TooLarge
    body = b""
    async for part in stream:
        body += part
        if len(body) > LARGEST_BODY:  # whatever its length was said to be
            raise TooLarge
    return body


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
    return Reply(static_file(name), kind=STATIC[name], headers={"Cache-Control": "public, max-age=300"})


async def _health(participants: Participants, _: Ask) -> Reply:
    """Say whether answers can be saved: a proxy or a container looks here."""
    writer = participants.writer
    try:
        state = await writer.run(lambda db: get_meta(db, "state", "open"))
        told = {"ok": True, "state": state}
    except Exception:
        told = {"ok": False, "trouble": "answers cannot be saved"}
    return Reply(json.dumps(told), 200 if told["ok"] else 503, kind="application/json")
