"""crowdmetric collect: a study that people take, from a table of items to answers."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path

from crowdmetric.collect.exporting import answer_batches
from crowdmetric.collect.folder import Study, check_study, make_study, open_reader, open_store, open_study
from crowdmetric.collect.logs import set_up_logs
from crowdmetric.collect.operations import erase, people_named
from crowdmetric.collect.serving import Links, listen, prepare, serve
from crowdmetric.collect.sqlite_database import erase_from_copies
from crowdmetric.commands.command import UsageError, note
from crowdmetric.errors import DataError
from crowdmetric.tables import write_batches

__all__ = ["add_arguments", "run"]


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add(
        "words", metavar="STUDY", nargs="+",
        help="a table of items, to make a study; a study's folder, to serve it; export FOLDER; erase FOLDER PERSON",
    )  # fmt: skip
    add("--study", metavar="DIR", default="study", help="folder to make from a table of items (default: study)")
    add("--check", action="store_true", help="say what is wrong with the study, and do not start it")
    add("--rehearse", type=int, metavar="N", help="send N simulated people through the real server, and report")
    add("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1, this machine only)")
    add("--port", type=int, default=8000, help="port to listen at, 0 for any (default: 8000)")
    add("--address", metavar="URL", help="where people reach the study, behind a proxy (default: as in study.toml)")
    add("--out", metavar="FILE", help="export: CSV or Parquet to write")
    add("--everything", action="store_true", help="export: practice and checks too")
    add("--json", action="store_true", help="print one JSON object")


def run(options: Namespace) -> None:
    """Run the command."""
    first, *rest = options.words
    if first == "export":
        _export(options, rest)
    elif first == "erase":
        _erase(options, rest)
    elif rest:
        raise UsageError(f"{first} {rest[0]} is not understood; give one table, one folder, or export or erase")
    elif options.out is not None or options.everything:
        raise UsageError("--out and --everything go with crowdmetric collect export FOLDER")
    else:
        _serve(options, Path(first))


def _serve(options: Namespace, place: Path) -> None:
    if not place.is_dir():
        if options.check and place.suffix == ".toml":
            place = place.parent
        else:
            place = make_study(place, Path(options.study))
            note(options, f"made {place} with a study.toml to change as you like")
    if options.check:
        _check(options, place)
        return
    study = open_study(place)
    if options.address is not None:
        server = replace(study.settings.server, address=options.address)
        study = replace(study, settings=replace(study.settings, server=server))
    if options.rehearse is not None:
        if options.rehearse < 1:
            raise UsageError(f"--rehearse {options.rehearse} is not a number of people; give 1 or more")
        from crowdmetric.collect.rehearsal import rehearse  # noqa: PLC0415 - it fits a metric, and takes a while to load

        found = rehearse(study, options.rehearse, progress=lambda text: note(options, text))
        print(json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False) if options.json else found.summary())
        return
    set_up_logs(options.quiet)
    version = prepare(study, progress=lambda text: note(options, text))
    listening = listen(options.host, options.port)
    serve(study, version, listening, ready=lambda links: _ready(options, links))


def _ready(options: Namespace, links: Links) -> None:
    if options.json:
        print(json.dumps({"participants": links.participants, "researcher": links.researcher}), flush=True)
    else:
        print(f"participants  {links.participants}\nresearcher    {links.researcher}", flush=True)


def _check(options: Namespace, place: Path) -> None:
    settings, items, wrong = check_study(place)
    if options.json:
        print(json.dumps({"study": str(place), "wrong": wrong}, ensure_ascii=False))
    elif not wrong and items is not None:
        files = f", {len(items.files)} files" if items.files else ""
        print(
            f"{place} is ready: {len(items.ids)} items{files}, {settings.study.people} people, "
            f"{settings.study.questions} questions each, design {settings.design.kind}, panel {settings.panel.kind}"
        )
    else:
        print("\n".join(wrong))
    if wrong:
        raise DataError(
            f"{place} has {len(wrong)} problem{'s' if len(wrong) > 1 else ''}; correct study.toml or the files"
        )


def _export(options: Namespace, rest: list[str]) -> None:
    if len(rest) != 1 or options.out is None:
        raise UsageError("export needs a folder and --out: crowdmetric collect export study --out answers.parquet")
    study = open_study(Path(rest[0]))
    db = open_reader(study)
    try:
        rows = write_batches(answer_batches(db, study.items.whole_ids, everything=options.everything), options.out)
    finally:
        db.close()
    if options.json:
        print(json.dumps({"written": options.out, "rows": rows}))
    note(options, f"wrote {rows:,} answers to {options.out}")


def _erase(options: Namespace, rest: list[str]) -> None:
    if len(rest) != 2:
        raise UsageError("erase needs a folder and a person: crowdmetric collect erase study PERSON")
    study = open_study(Path(rest[0]))
    rows = _erase_person(study, rest[1])
    print(json.dumps({"erased": rows}) if options.json else f"erased {rows:,} rows of {rest[1]}")
    note(options, "tables that were exported before still hold the person; export them again")


def _erase_person(study: Study, name: str) -> int:
    """Remove one person from the store and from its copies, and return how many rows that were."""
    db = open_store(study, patience_ms=5_000)
    try:
        db.begin()
        people = people_named(db, name)
        if not people:
            db.rollback()
            raise DataError(f"nobody is called {name} in {study.folder}; use the id of an export or of the panel")
        rows = sum(erase(db, person) for person in people)
        db.commit()
        if not study.database:
            db.run("PRAGMA wal_checkpoint(TRUNCATE)")  # the log holds no trace either
            for person in people:
                erase_from_copies(study.store, person)
        study.verdict.unlink(missing_ok=True)
        return rows
    finally:
        db.close()
