"""What the researcher sees and does, behind a secret that is exchanged for a cookie at the first visit."""

from __future__ import annotations

import asyncio
import csv
import io
import time
from collections.abc import Iterator
from typing import Any

from crowdmetric.collect.careless import rules
from crowdmetric.collect.counting import EDGES
from crowdmetric.collect.database import Database, StoreError
from crowdmetric.collect.exporting import csv_lines
from crowdmetric.collect.folder import Study, open_reader
from crowdmetric.collect.limits import Limit
from crowdmetric.collect.live_questions import LiveQuestions
from crowdmetric.collect.logs import RequestTally, log_event
from crowdmetric.collect.operations import CLOSED, OPEN, PAUSED, get_meta, set_meta
from crowdmetric.collect.pages import render
from crowdmetric.collect.panels import people_of_list, personal_links
from crowdmetric.collect.request import Ask, Cookie, Reply, redirect
from crowdmetric.collect.svg import bars, forecast, heat_map, intervals
from crowdmetric.collect.tokens import same, sign, unsign
from crowdmetric.collect.verdict_process import VerdictProcess, read_findings
from crowdmetric.collect.writer import Writer

__all__ = ["Researcher"]

DAYS = 7
# 90 % of a Gaussian lies within this many standard errors.
Z = 1.645
MOST_FEATURES = 16
ACTIONS = {"pause": PAUSED, "resume": OPEN, "close": CLOSED}


class Researcher:
    """The researcher's pages.

    Parameters
    ----------
    study : Study
    writer : Writer
    tally : RequestTally
    process : VerdictProcess, optional
    live : LiveQuestions, optional
    """

    def __init__(
        self,
        study: Study,
        writer: Writer,
        tally: RequestTally,
        process: VerdictProcess | None,
        live: LiveQuestions | None = None,
    ) -> None:
        self.study, self.writer, self.tally, self.process, self.live = study, writer, tally, process, live
        self.cookie = f"cmr_{study.secret.study[:8]}"
        self.guesses = Limit(rate=0.2, burst=10)

    # --------------------------------------------------------------------------------------------------- requests

    async def page(self, ask: Ask) -> Reply:
        """Show the study; a first visit with the secret exchanges it for a cookie and leaves the address behind."""
        if "key" in ask.query:
            return self._exchange(ask)
        if not self._knows(ask):
            return self._stranger(403)
        return Reply(render("researcher.html", **await self._page_values(), link=f"{self._address(ask)}/"))

    async def change_state(self, ask: Ask) -> Reply:
        """Pause, resume or close."""
        state = ACTIONS.get(ask.form.get("action", ""))
        if not self._knows(ask) or ask.cross_site:
            return self._stranger(403)
        if state is None:
            return self._stranger(400)
        try:
            await self.writer.run(lambda db: set_meta(db, "state", state))
        except StoreError:
            return redirect("../researcher")  # the page says what is wrong with the store
        log_event("state", state=state)
        return redirect("../researcher")

    async def download(self, ask: Ask) -> Reply:
        """Stream every answer as CSV."""
        if not self._knows(ask):
            return self._stranger(403)
        headers = {"content-disposition": 'attachment; filename="answers.csv"'}
        return Reply(kind="text/csv; charset=utf-8", headers=headers, stream=self._lines())

    async def links(self, ask: Ask) -> Reply:
        """Return everybody's own link, for studies with a list of people."""
        if not self._knows(ask) or self.study.settings.panel.kind != "list":
            return self._stranger(403)
        people = people_of_list(self.study.folder / self.study.settings.panel.list)
        text = io.StringIO()
        csv.writer(text).writerows([("person", "link"), *personal_links(self._address(ask), people, self._key)])
        headers = {"content-disposition": 'attachment; filename="links.csv"'}
        return Reply(text.getvalue(), kind="text/csv; charset=utf-8", headers=headers)

    async def leave(self, ask: Ask) -> Reply:
        """Forget the cookie."""
        return redirect("../researcher", Cookie(self.cookie, "", 0, strict=True))

    def _lines(self) -> Iterator[str]:
        db = open_reader(self.study)
        try:
            yield from csv_lines(db)
        finally:
            db.close()

    def _address(self, ask: Ask) -> str:
        """Return where people reach the study: as the study says, or where the researcher reached it."""
        return (self.study.settings.server.address or ask.base).rstrip("/")

    # --------------------------------------------------------------------------------------------------- identity

    @property
    def _key(self) -> bytes:
        return self.study.secret.signing

    def _exchange(self, ask: Ask) -> Reply:
        if not self.guesses.allows(ask.client):
            return self._stranger(429)
        if not same(ask.query["key"], self.study.secret.researcher):
            log_event("wrong_secret")
            return self._stranger(403)
        until = int(time.time()) + DAYS * 86400
        cookie = Cookie(self.cookie, sign(self._key, "researcher", str(until)), DAYS * 86400, strict=True)
        # go on from a page of our own: a strict cookie is not sent along a redirect that began on another site
        return Reply(render("researcher_welcome.html"), cookies=(cookie,))

    def _knows(self, ask: Ask) -> bool:
        until = unsign(self._key, "researcher", ask.cookies.get(self.cookie, ""))
        return until is not None and until.isdigit() and int(until) > time.time()

    def _stranger(self, status: int) -> Reply:
        return Reply(render("researcher_stranger.html", status=status), status)

    # ------------------------------------------------------------------------------------------------------ page

    async def _page_values(self) -> dict[str, Any]:
        """Return the values that the page shows."""
        if self.process is not None:
            self.process.wanted.set()
        counts, trouble = await asyncio.to_thread(self._counted)
        found = read_findings(self.study)
        learned = found.get("learned", {})
        return {
            "title": self.study.settings.study.title, "people": counts, "planned": self.study.settings.study.people,
            "panel": self.study.settings.panel.kind, "trouble": self.writer.trouble or trouble,
            "found": found.get("counts"),
            "age": _age(found.get("at")), "learned": learned, "learned_age": _age(found.get("learned_at")),
            "rules": rules(self.study.settings.careless),
            "pictures": _pictures(counts, found.get("counts") or {}, learned),
            "live": "" if self.live is None else await self.live.summary(),
            "server": self.tally.summary(),
            "running": self.process is not None and self.process.running,
        }  # fmt: skip

    def _counted(self) -> tuple[dict[str, Any], str]:
        """Return the counts of people, and what is wrong with the store; it is read beside the writer."""
        try:
            db = open_reader(self.study)
        except StoreError as error:
            return {}, str(error)
        try:
            return self._count(db), ""
        except StoreError as error:
            return {}, str(error)
        finally:
            db.close()

    def _count(self, db: Database) -> dict[str, Any]:
        """Return how many people there are of each kind, and after which step the others left."""
        alive = time.time() - 60 * self.study.settings.design.give_back_minutes
        status = {row[0]: int(row[1]) for row in db.run("SELECT status, COUNT(*) FROM person GROUP BY status")}
        here = int(db.run("SELECT COUNT(*) FROM person WHERE status = 'started' AND seen > ?", alive)[0][0])
        left_at = db.run(
            "SELECT position, COUNT(*) FROM person WHERE status = 'started' AND seen <= ? GROUP BY position", alive
        )
        return {
            "state": get_meta(db, "state", OPEN), "started": sum(status.values()),
            "finished": status.get("finished", 0), "screened": status.get("screened", 0),
            "failed": status.get("failed", 0), "here": here,
            "left": status.get("started", 0) - here,
            "left_at": {int(position): int(number) for position, number in left_at},
        }  # fmt: skip


def _age(at: float | None) -> str:
    """Return how long ago a moment was, in words."""
    if at is None:
        return ""
    seconds = max(0, int(time.time() - at))
    return f"{seconds} s ago" if seconds < 120 else f"{seconds // 60} min ago"


def _pictures(people: dict[str, Any], counts: dict[str, Any], learned: dict[str, Any]) -> dict[str, str]:
    """Return the pictures that there is something to draw for."""
    made = {}
    if left := people.get("left_at"):
        steps = range(max(left) + 1)
        made["left"] = bars([left.get(k, 0) for k in steps], [str(k + 1) for k in steps], "Where people left")
    if learned.get("error") and learned.get("people"):
        made["forecast"] = forecast(
            learned["people"], learned["error"], learned["planned"], learned.get("promise"),
            "Error of the metric against the number of people",
        )  # fmt: skip
    if counts.get("hours"):
        labels = [time.strftime("%H:%M", time.gmtime(hour)) for hour, _ in counts["hours"]]
        made["hours"] = bars([n for _, n in counts["hours"]], labels, "Answers per hour")
    if counts.get("times"):
        labels = [f"{a / 1000:g}" for a in EDGES]
        made["times"] = bars(counts["times"], labels, "Response times")
    if learned.get("metric"):
        names, metric = learned["names"], learned["metric"]
        if len(names) <= MOST_FEATURES:
            made["metric"] = heat_map(names, metric, "The learned metric")
            errors = learned["standard_errors"]
            value = [metric[j][j] for j in range(len(names))]
            spread = [Z * (errors[j][j] or 0.0) for j in range(len(names))]
            low, high = ([v + s * e for v, e in zip(value, spread, strict=True)] for s in (-1, 1))
            made["weights"] = intervals(names, value, low, high, "Weight of each feature with its 90 % interval")
    return made
