"""A study that people can take: from a table of items to answers that can teach a metric.

::

    words.py              every fixed string, in English
    settings.py           study.toml -> settings, every key checked
    template.py           the study.toml to begin with
    study_items.py        the items as people see them
    sheets.py             the steps of one person, with sides, repeats and checks
    schema.py             the tables of a store, and their versions
    database.py           what a store needs of a database
    sqlite_database.py    … in one file
    postgres_database.py  … in PostgreSQL
    operations.py         everything that happens to a store
    writer.py             one writer with group commit
    places.py             what one person is asked, from a file or at random
    designing.py          all places of a study, as a design asks
    tokens.py             signed tokens
    panels.py             Prolific, Connect, SONA, personal links
    folder.py             a study as a folder
    live_questions.py     the hook for a design that learns while asking
    request.py            a request and a reply, independent of the server
    limits.py             how much one visitor may ask for
    logs.py               structured logs without personal data
    pages.py              templates -> pages (the one place for Jinja2)
    participant.py        what people see and send
    careless.py           who looks careless, by stated rules
    svg.py                small pictures as SVG
    counting.py           what the answers show so far, one person after the other
    findings.py           what the answers teach so far, run in a separate process
    verdict_process.py    keeps the findings up to date
    researcher.py         what the researcher sees and does
    web.py                requests -> replies (the one place for Starlette)
    serving.py            the server (the one place for uvicorn)
    exporting.py          answers as a table, streamed
    visitor.py            a visitor without a browser, for rehearsals and load tests
    rehearsal.py          simulated people through the real server
"""

from __future__ import annotations

from crowdmetric.collect.folder import Study, check_study, make_study, open_study
from crowdmetric.collect.settings import Settings

__all__ = ["Settings", "Study", "check_study", "make_study", "open_study"]
