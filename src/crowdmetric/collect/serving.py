"""The server: store, pages and signals around uvicorn, whose one place this is."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from crowdmetric.collect.folder import Study, open_store
from crowdmetric.collect.live_questions import open_live
from crowdmetric.collect.logs import RequestTally, log_event
from crowdmetric.collect.operations import add_design, newest_design
from crowdmetric.collect.participant import Participants
from crowdmetric.collect.places import design_fingerprint
from crowdmetric.collect.researcher import Researcher
from crowdmetric.collect.sqlite_database import serving
from crowdmetric.collect.verdict_process import VerdictProcess
from crowdmetric.collect.web import build_app
from crowdmetric.collect.writer import Writer
from crowdmetric.errors import DataError, missing_extra

__all__ = ["Links", "listen", "make_app", "prepare", "serve"]

# Seconds between summaries in the log.
SUMMARY = 60.0


@dataclass(frozen=True)
class Links:
    """Where people and the researcher go; the researcher's holds the secret, once."""

    participants: str
    researcher: str


def prepare(study: Study, people: int | None = None, progress: Callable[[str], None] = lambda _: None) -> int:
    """Make the store and the design if they are not there yet, and return the version of the design.

    A design that changed since becomes a new version: people who are underway keep theirs.
    """
    db = open_store(study, patience_ms=5_000)
    try:
        newest = newest_design(db)
        if newest is not None and newest[1]["fingerprint"] == design_fingerprint(
            study.settings, study.items, study.folder
        ):
            return newest[0]
        progress("choosing questions; the first time this can take a minute")
        # a study that has its design starts in a quarter of the time and memory without this
        from crowdmetric.collect.designing import make_pool  # noqa: PLC0415 - takes a while to load

        pool = make_pool(study.settings, study.items, study.folder, people)
        db.begin()
        version = add_design(db, pool.details, pool.places, time.time())
        db.commit()
        if newest is not None:
            progress(f"the design or the items changed: new people are asked by version {version}")
        return version
    finally:
        db.close()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; a DataError if the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(2048)
    except OSError as error:
        listening.close()
        raise DataError(
            f"port {port} of {host} cannot be used ({error.strerror}); choose another with --port"
        ) from error
    listening.set_inheritable(False)
    return listening


def links(study: Study, listening: socket.socket) -> Links:
    """Return the two links of a study."""
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    base = study.settings.server.address.rstrip("/") or f"http://{shown}:{port}"
    return Links(f"{base}/", f"{base}/researcher?key={study.secret.researcher}")


def make_app(study: Study, version: int, *, verdicts: bool = True, ready: Callable[[], None] = lambda: None) -> Any:
    """Return a study as an ASGI application, whose store is open while it runs."""
    writer = Writer(open_store(study))
    live = open_live(study.settings, study.folder, study.items) if study.settings.design.kind == "live" else None
    tally = RequestTally()
    process = VerdictProcess(study) if verdicts else None
    participants = Participants(study, writer, version, live)
    researcher = Researcher(study, writer, tally, process, live)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        writer.open()
        if live is not None:
            await participants.tell_everyone()
            await live.begin()
        tasks = [asyncio.create_task(_summaries(tally, writer))]
        if process is not None:
            tasks.append(asyncio.create_task(process.watch()))
        log_event("started", design_version=version)
        ready()
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            if live is not None:
                live.close()
            await writer.close()
            log_event("stopped", commits=writer.commits, **tally.summary())

    return build_app(study, participants, researcher, tally, lifespan)


def serve(
    study: Study,
    version: int,
    listening: socket.socket,
    *,
    verdicts: bool = True,
    ready: Callable[[Links], None] = lambda _: None,
) -> None:
    """Serve a study until SIGTERM or Ctrl-C; what was sent before is saved, then the store is closed."""
    try:
        uvicorn = import_module("uvicorn")
    except ImportError as error:
        raise missing_extra("uvicorn", "collect", "a study") from error
    with nullcontext() if study.database else serving(study.folder):
        app = make_app(study, version, verdicts=verdicts, ready=lambda: ready(links(study, listening)))
        config = uvicorn.Config(
            app, log_config=None, access_log=False, server_header=False, date_header=True, lifespan="on",
            timeout_keep_alive=75, timeout_graceful_shutdown=10, backlog=2048, ws="none",
        )  # fmt: skip
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # its lines hold addresses
        uvicorn.Server(config).run(sockets=[listening])


async def _summaries(tally: RequestTally, writer: Writer) -> None:
    """Log once a minute how many requests there were and how long they took."""
    last = 0
    while True:
        await asyncio.sleep(SUMMARY)
        if tally.requests > last:
            last = tally.requests
            log_event("summary", commits=writer.commits, trouble=writer.trouble, **tally.summary())
