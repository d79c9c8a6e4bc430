"""What people see and send: welcome, steps, end. Nothing of a person is stored before they agree."""

from __future__ import annotations

import json
import logging
import random
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from statistics import median
from typing import Any

from crowdmetric.collect.database import Database, StoreError
from crowdmetric.collect.folder import Study
from crowdmetric.collect.limits import Limit
from crowdmetric.collect.live_questions import LiveQuestions
from crowdmetric.collect.operations import (
    CLOSED,
    FAILED,
    FINISHED,
    OPEN,
    SCREENED,
    STARTED,
    Arrival,
    Given,
    Person,
    answer,
    fill_in,
    find_person,
    get_meta,
    look_up,
    record_view,
    show,
    start,
    step_on,
    visit,
)
from crowdmetric.collect.pages import Frame, frame, render
from crowdmetric.collect.panels import arrival_of, ending_of
from crowdmetric.collect.places import questionnaire_file
from crowdmetric.collect.request import Ask, Cookie, Reply, redirect
from crowdmetric.collect.sheets import Place, Step, make_steps, minutes_of, repeats_of
from crowdmetric.collect.tokens import sign, unsign
from crowdmetric.collect.words import direction_of, words_for
from crowdmetric.collect.writer import Writer

__all__ = ["Participants"]

MONTH = 30 * 24 * 3600
# Limit on one person's requests. A fast clicker whose next question is loaded in advance stays far below it.
PERSON_RATE, PERSON_BURST = 8.0, 24.0
LONGEST_FIELD = 5_000
LONGEST_RESPONSE_MS = 3_600_000
CHOICES = ("left", "right")
# What differs between two questions; the rest of the page is rendered once.
SLOTS = ("number", "total", "done", "position", "ahead", "layout", "left", "right")
# Cards that are kept ready, a few hundred bytes each.
MOST_CARDS = 20_000
log = logging.getLogger("crowdmetric.collect")


@dataclass(frozen=True)
class Seen:
    """Where a request found somebody: the state of the study, the person, and whether their answer came too late."""

    state: str
    person: Person | None
    late: bool = False
    wrong: Mapping[str, str] | None = None


class Participants:
    """The pages of a study.

    Parameters
    ----------
    study : Study
    writer : Writer
    version : int
        Version of the design that new people get.
    live : LiveQuestions, optional
    clock : function
        Seconds since 1970.
    """

    def __init__(
        self,
        study: Study,
        writer: Writer,
        version: int,
        live: LiveQuestions | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.study, self.writer, self.version, self.live, self.clock = study, writer, version, live, clock
        self.settings, self.key = study.settings, study.secret.signing
        self.cookie = f"cm_{study.secret.study[:8]}"
        self._said = {name: self._say(name) for name in {self.settings.study.language, *self.settings.words}}
        self._length = _length(study)
        self._offered = {language.lower(): language for language in self._said}
        self._card = lru_cache(MOST_CARDS)(self._draw_card)
        self._frame = lru_cache(None)(self._draw_frame)
        self.starts = Limit(self.settings.server.starts_per_minute / 60, self.settings.server.starts_per_minute)
        self.requests = Limit(PERSON_RATE, PERSON_BURST)

    # -------------------------------------------------------------------------------------------------- requests

    async def welcome(self, ask: Ask) -> Reply:
        """Show what the study is; people who return continue where they were."""
        arrival = arrival_of(self.settings.panel, ask.query, self.key)
        language = (Cookie(f"{self.cookie}_lang", self._language(ask), MONTH),) if "lang" in ask.query else ()
        if arrival is None:
            if self._person(ask) is not None:
                return redirect("go", *language)
            return self._message(ask, "no_link", status=400)
        known = None if arrival.panel_id is not None else self._person(ask)

        def operation(db: Database) -> tuple[str, Person | None]:
            person = show(db, known) if known is not None else find_person(db, arrival)
            if person is None:
                record_view(db, None, "welcome", self.clock())
            return get_meta(db, "state", OPEN), person

        try:
            state, person = await self.writer.run(operation)
        except StoreError:
            return self.trouble(ask, method="get")
        if person is not None:
            return redirect("go", self._cookie(person.id), *language)
        if state != OPEN:
            return self._message(ask, state)
        ticket = sign(self.key, "arrival", json.dumps(arrival.__dict__))
        questions, minutes = self._length
        page = self._page(ask, "welcome.html", ticket=ticket, questions=questions, minutes=minutes)
        return replace(page, cookies=language)

    async def begin(self, ask: Ask) -> Reply:
        """Give somebody who agrees a place."""
        ticket = unsign(self.key, "arrival", ask.form.get("ticket", ""))
        if ticket is None or ask.cross_site:
            return self._message(ask, "no_link", status=400)
        if not self.starts.allows(ask.client):
            return self._message(ask, "too_fast", status=429)
        arrival = Arrival(**json.loads(ticket))
        person_id = secrets.token_hex(12)
        try:
            asked = await self.live.ask(person_id) if self.live is not None else None
            state, person = await self.writer.run(lambda db: self._start(db, arrival, person_id, asked, ask.agent))
        except StoreError:
            return self.trouble(ask)
        if state != OPEN:
            return self._message(ask, state)
        if person is None:
            return self._ending(ask, "full", SCREENED, arrival.panel_id)
        return redirect("go", self._cookie(person.id))

    async def go(self, ask: Ask) -> Reply:
        """Show the step somebody is at."""
        person_id, refusal = self._admit(ask)
        if person_id is None:
            return refusal
        try:
            seen = await self.writer.run(lambda db: self._look(db, person_id), person_id)
        except StoreError:
            return self.trouble(ask, method="get")
        return self._show(ask, seen)

    async def submit(self, ask: Ask) -> Reply:
        """Take what somebody sends from a step, once, and lead to the next."""
        person_id, refusal = self._admit(ask)
        if person_id is None:
            return refusal
        try:
            position = int(ask.form.get("position", "")[:9])
        except ValueError:
            return redirect("go")
        now = self.clock()
        try:
            seen = await self.writer.run(lambda db: self._take(db, person_id, position, ask, now), person_id)
        except StoreError:
            return self.trouble(ask)
        if self.live is not None and seen.person is not None and seen.person.status == FINISHED and not seen.late:
            await self._tell(self.live, seen.person.id)
        if ask.fragment or seen.wrong or (seen.late and seen.person is not None):
            return self._show(ask, seen)
        return redirect("go")

    # ------------------------------------------------------------------------------------------------ operations

    def _start(
        self, db: Database, arrival: Arrival, person_id: str, asked: Place | None, agent: str
    ) -> tuple[str, Person | None]:
        state, now = get_meta(db, "state", OPEN), self.clock()
        if state != OPEN:
            return state, find_person(db, arrival)

        def steps(place: Place) -> list[Step]:
            if place.purpose == "live" and asked is not None:
                place = asked
            s = self.settings
            return make_steps(
                place, random.SystemRandom(), repeats=s.design.repeats, practice=s.practice.pairs,
                checks=[(c.left, c.right, c.expect) for c in s.checks], screening=bool(s.screening),
                instructions=bool(s.pages.instructions.strip()), survey=bool(s.survey),
            )  # fmt: skip

        person = start(
            db, arrival, person_id, steps, version=self.version, most=self.settings.study.people,
            alive_since=now - 60 * self.settings.design.give_back_minutes, at=now,
            agent=agent[:300] if self.settings.privacy.keep_agent else None,
        )  # fmt: skip
        return state, person

    def _look(self, db: Database, person_id: str) -> Seen:
        """Return where somebody is, and keep that they saw it."""
        state, person = look_up(db, person_id)
        if person is not None and state == OPEN:
            visit(db, person_id, person.page, self.clock(), person.position)
        return Seen(state, person)

    def _take(self, db: Database, person_id: str, position: int, ask: Ask, now: float) -> Seen:
        """Take one step's form; what was on the page counts, even if the study was paused meanwhile."""
        state, person = look_up(db, person_id)
        step = person.step if person is not None else None
        if person is None or step is None or position != person.position or state == CLOSED:
            return replace(self._look(db, person_id), late=True)
        shown = now if ask.fragment and state == OPEN else None  # the reply is the next page
        status, wrong = self._save(db, person, step, ask, now, shown)
        if wrong:
            return Seen(state, person, wrong=wrong)
        if status is None:  # another process was faster
            return replace(self._look(db, person_id), late=True)
        person = replace(person, position=position + 1, status=status)
        if shown is not None:
            record_view(db, person_id, person.page, now, person.position)
        return Seen(state, person)

    def _save(
        self, db: Database, person: Person, step: Step, ask: Ask, now: float, shown: float | None
    ) -> tuple[str | None, Mapping[str, str] | None]:
        """Return somebody's status after this step, None if it was taken before, and what is wrong with the form."""
        last, where = person.position + 1 == len(person.steps), (db, person.id, person.position)
        status = STARTED
        if step.asks:
            given = self._given(ask.form, now)
            if given is None:
                return None, {"choice": "required"}
            status = self._verdict(db, person, step, given) if last else STARTED
            saved = answer(*where, step, given, status=status, shown=shown)
        elif step.page == "instructions":
            status = FINISHED if last else STARTED
            saved = step_on(*where, now, status=status, shown=shown)
        else:
            values, wrong = self._fields(step.page, ask.form)
            if wrong:
                return None, wrong
            if step.page == "screening" and any(values[s.name] not in s.accept for s in self.settings.screening):
                status = SCREENED
            elif last:
                status = self._verdict(db, person, None, None)
            saved = fill_in(*where, values, now, status=status, shown=shown)
        return (status if saved else None), None

    def _given(self, form: Mapping[str, str], now: float) -> Given | None:
        choice = form.get("choice", "")
        allowed = (*CHOICES, "tie") if self.settings.study.undecided else CHOICES
        if choice not in allowed:
            return None
        ms = form.get("ms", "")
        measured = int(ms) if ms.isascii() and ms.isdigit() and len(ms) < 9 else None
        return Given(choice, measured if measured is None or measured <= LONGEST_RESPONSE_MS else None, now)

    def _verdict(self, db: Database, person: Person, step: Step | None, given: Given | None) -> str:
        """Return how somebody ends: finished, or failed if they missed too many checks."""
        rows = db.run("SELECT position, choice FROM answer WHERE person = ? AND purpose = 'check'", person.id)
        missed = sum(person.steps[int(position)].expect != choice for position, choice in rows)
        if step is not None and given is not None and step.purpose == "check":
            missed += step.expect != given.choice
        return FAILED if missed >= self.settings.careless.failed_checks else FINISHED

    def _fields(self, page: str, form: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Return what was filled in, and what is wrong with it by name; answers outside the options are missing."""
        values, wrong = {}, {}
        if page == "screening":
            for screen in self.settings.screening:
                values[screen.name] = form.get(screen.name, "")
                if values[screen.name] not in screen.options:
                    wrong[screen.name] = "required"
            return values, wrong
        for entry in self.settings.survey:
            value = form.get(entry.name, "").strip()[:LONGEST_FIELD]
            if entry.kind == "choice" and value not in entry.options:
                value = ""
            if value and entry.kind == "number" and not _is_number(value):
                wrong[entry.name] = "number_needed"
            elif entry.required and not value:
                wrong[entry.name] = "required"
            if value:
                values[entry.name] = value
        return values, wrong

    async def tell_everyone(self) -> None:
        """Tell a live design about everybody who finished before."""
        rows = await self.writer.run(lambda db: db.run("SELECT id FROM person WHERE status = 'finished'"))
        for (person,) in rows if self.live is not None else []:
            await self._tell(self.live, person)  # type: ignore[arg-type]  # it is not None here

    async def _tell(self, live: LiveQuestions, person: str) -> None:
        sql = (
            "SELECT left_item, right_item, choice FROM answer WHERE person = ? AND purpose IN ('design', 'evaluation')"
            " ORDER BY position"
        )
        rows = await self.writer.run(lambda db: db.run(sql, person))
        try:
            await live.tell(person, [(a, b, c) for a, b, c in rows])
        except Exception:  # an error in a hook must not keep people from their last page
            log.exception("hook_failed")

    # ------------------------------------------------------------------------------------------------------ pages

    def _show(self, ask: Ask, seen: Seen) -> Reply:
        person = seen.person
        if person is None:
            return self._message(ask, "no_person", status=404)
        if person.status != STARTED:
            page = {FINISHED: "done", FAILED: "done", SCREENED: "screened"}[person.status]
            return self._ending(ask, page, person.status, person.panel_id)
        if seen.state != OPEN:
            return self._message(ask, seen.state)
        step = person.step
        assert step is not None
        shared: dict[str, Any] = {
            "position": person.position,
            "late": seen.late,
            "wrong": dict(seen.wrong or {}),
            "filled": ask.form,
        }
        if step.asks:
            return self._question(ask, person, step, seen.late)
        if step.page == "instructions":
            return self._page(ask, "instructions.html", following=person.steps[person.position + 1 :][:1], **shared)
        fields = self.settings.screening if step.page == "screening" else self.settings.survey
        return self._page(ask, "form.html", fields=fields, page=step.page, **shared)

    def _question(self, ask: Ask, person: Person, step: Step, late: bool) -> Reply:
        language, shown = self._language(ask), self.study.items.shown
        following = [s for s in person.steps[person.position + 1 : person.position + 2] if s.asks]
        ahead = [number for s in following for x in (s.left, s.right) if x in shown for number in shown[x].files]
        pictures = any(x in shown and shown[x].image is not None for x in (step.left, step.right))
        page = self._frame(language, ask.fragment, step.page == "practice", late)
        return Reply(page.fill(
            number=step.number, total=step.total, done=step.number - 1, position=person.position,
            ahead=" ".join(map(str, ahead)), layout=" pictures" if pictures else "",
            left=self._card(language, "left", step.left), right=self._card(language, "right", step.right),
        ))  # fmt: skip

    def _draw_frame(self, language: str, fragment: bool, practice: bool, late: bool) -> Frame:
        """Return a question's page, with slots for all that differs between questions."""
        return frame(
            "question.html", SLOTS, **self._said[language], fragment=fragment, practice=practice, late=late,
            undecided=self.settings.study.undecided,
        )  # fmt: skip

    def _draw_card(self, language: str, side: str, item: str) -> str:
        """Return an item as it is shown on one side."""
        return render(
            "card.html", words=self._said[language]["words"], side=side, shown=self.study.items.shown.get(item),
            html_items=self.settings.study.html_items,
        )  # fmt: skip

    def _page(self, ask: Ask, template: str, *, status: int = 200, **values: Any) -> Reply:
        return Reply(render(template, **self._said[self._language(ask)], fragment=ask.fragment, **values), status)

    def _say(self, language: str) -> dict[str, Any]:
        """Return every text of the study in a language."""
        own, s = self.settings.words.get(language, {}), self.settings
        texts = {
            "title": own.get("title", s.study.title), "question": own.get("question", s.study.question),
            "consent": own.get("consent", s.pages.consent),
            "instructions": own.get("instructions_text", s.pages.instructions),
            "thanks": own.get("thanks", s.pages.thanks),
        }  # fmt: skip
        words = words_for(language, s.words)
        return {"words": words, "texts": texts, "language": language, "direction": direction_of(language)}

    def _message(self, ask: Ask, name: str, *, status: int = 200) -> Reply:
        return self._page(ask, "message.html", name=name, status=status)

    def _ending(self, ask: Ask, name: str, status: str, panel_id: str | None) -> Reply:
        return self._page(ask, "message.html", name=name, ending=ending_of(self.settings.panel, status, panel_id))

    def trouble(self, ask: Ask, method: str = "post") -> Reply:
        """Ask to try again, with everything that was sent still in the page."""
        target = "start" if "ticket" in ask.form else "go"
        kept = ask.form if method == "post" else ask.query
        target = target if method == "post" or not ask.query else "."
        reply = self._page(ask, "trouble.html", kept=dict(kept), method=method, target=target, status=503)
        return replace(reply, headers={"retry-after": "2"})

    def not_found(self, ask: Ask) -> Reply:
        """Say that there is nothing at an address."""
        return self._message(ask, "not_found", status=404)

    # -------------------------------------------------------------------------------------------------- identity

    def _admit(self, ask: Ask) -> tuple[str | None, Reply]:
        """Return whose request this is; None and a refusal if nobody's, another site's, or one too many."""
        person = self._person(ask)
        if person is None or ask.cross_site:
            return None, self._message(ask, "no_person", status=403)
        if not self.requests.allows(person):
            return None, self._message(ask, "too_fast", status=429)
        return person, Reply()

    def _person(self, ask: Ask) -> str | None:
        return unsign(self.key, "person", ask.cookies.get(self.cookie, ""))

    def _cookie(self, person: str) -> Cookie:
        return Cookie(self.cookie, sign(self.key, "person", person), MONTH)

    def _language(self, ask: Ask) -> str:
        """Return the language of a page: asked for, chosen before, preferred by the browser, or the study's own."""
        wanted = (ask.query.get("lang", ""), ask.cookies.get(f"{self.cookie}_lang", ""), *ask.languages)
        for language in filter(None, wanted):
            for name in (language.lower(), language.lower().partition("-")[0]):
                if name in self._offered:
                    return self._offered[name]
        return self.settings.study.language


def _length(study: Study) -> tuple[int, int]:
    """Return about how many questions and minutes one person has before them."""
    s, asked = study.settings, study.settings.study.questions
    if s.design.kind == "file":
        asked = int(median(len(place.pairs) for place in questionnaire_file(study.folder / s.design.file, study.items)))
    questions = asked + repeats_of(asked, s.design.repeats) + len(s.checks)
    pages = 2 + bool(s.screening) + bool(s.pages.instructions.strip()) + bool(s.survey)
    return questions, ceil(minutes_of(questions + len(s.practice.pairs), pages))


def _is_number(text: str) -> bool:
    try:
        return abs(float(text.replace(",", "."))) < 1e300
    except ValueError:
        return False
