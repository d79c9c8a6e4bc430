"""A study as a folder: `study.toml`, the items with their files, the secret and the store.

::

    study/
      study.toml       what the study is (read by people, checked by `settings`)
      items.csv        the items, and their files beside it
      secret.json      the researcher's secret and the signing key, readable by the owner alone
      answers.sqlite   the store
      verdict.json     what the answers teach so far, written by a separate process
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from crowdmetric.collect.database import Database
from crowdmetric.collect.panels import people_of_list
from crowdmetric.collect.places import questionnaire_file
from crowdmetric.collect.postgres_database import open_postgres
from crowdmetric.collect.settings import Settings, problems_of_settings
from crowdmetric.collect.sqlite_database import open_sqlite, read_sqlite
from crowdmetric.collect.study_items import MEDIA, StudyItems, problems_of_items
from crowdmetric.collect.template import template
from crowdmetric.errors import DataError
from crowdmetric.folders import new_folder
from crowdmetric.tables import read_columns

__all__ = ["Secret", "Study", "check_study", "make_study", "open_reader", "open_store", "open_study", "read_secret"]

DATABASE = "CROWDMETRIC_DATABASE"  # an address with a password is better kept out of the file


@dataclass(frozen=True, repr=False)
class Secret:
    """Secrets of the server, without a repr, so they do not end up in a log."""

    study: str
    researcher: str
    signing: bytes


@dataclass(frozen=True, eq=False, repr=False)
class Study:
    """An opened study."""

    folder: Path
    settings: Settings
    items: StudyItems
    secret: Secret

    @property
    def store(self) -> Path:
        """The file of the store."""
        return self.folder / "answers.sqlite"

    @property
    def verdict(self) -> Path:
        """What the answers teach so far, written by a separate process."""
        return self.folder / "verdict.json"

    @property
    def database(self) -> str:
        """The address of a PostgreSQL database; nothing for SQLite."""
        return os.environ.get(DATABASE, "") or self.settings.server.database


def make_study(table: Path, folder: Path) -> Path:
    r"""Make a study folder from a table of items, with the files that it names; whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from crowdmetric.collect import make_study
    >>> place = Path(tempfile.mkdtemp())
    >>> _ = (place / 'drinks.csv').write_text('item_id,sweet\ntea,0\ncola,4\nmilk,1\n')
    >>> make_study(place / 'drinks.csv', place / 'study').name
    'study'
    """
    if folder.exists():
        raise DataError(
            f"{folder} exists; continue it with crowdmetric collect {folder}, or choose another with --study"
        )
    _, wrong = problems_of_items(table.parent, table.name)
    if wrong:
        raise DataError(" ".join(wrong))
    columns = read_columns(table)
    with new_folder(folder, False, lambda _: False) as new:
        shutil.copyfile(table, new / table.name)
        for kind in (kind for kind in MEDIA if kind in columns):
            for name in {str(cell) for cell in columns[kind] if cell is not None}:
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(table.parent / name, new / name)
        (new / "study.toml").write_text(template(table.name), encoding="utf-8")
    return folder


def check_study(folder: Path) -> tuple[Settings, StudyItems | None, list[str]]:
    r"""Return the settings and items of a folder, and a sentence for everything that is wrong with it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from crowdmetric.collect import check_study, make_study
    >>> place = Path(tempfile.mkdtemp())
    >>> _ = (place / 'drinks.csv').write_text('item_id,sweet\ntea,0\ncola,4\nmilk,1\n')
    >>> settings, items, wrong = check_study(make_study(place / 'drinks.csv', place / 'study'))
    >>> wrong
    []
    """
    if not folder.is_dir():
        return Settings(), None, [f"There is no folder {folder}; crowdmetric collect ITEMS makes one."]
    settings, wrong = problems_of_settings(folder / "study.toml")
    items, more = problems_of_items(folder, settings.items.table, settings.items.subspace_column)
    wrong = [*wrong, *more]
    if items is not None:
        wrong += _unknown_items(settings, items)
        if settings.design.kind == "file" and settings.design.file:
            wrong += _tried(lambda: questionnaire_file(folder / settings.design.file, items))
    if settings.panel.kind == "list" and settings.panel.list:
        wrong += _tried(lambda: people_of_list(folder / settings.panel.list))
    return settings, items, wrong


def _unknown_items(settings: Settings, items: StudyItems) -> list[str]:
    """Return sentences about items that practice and checks name and the table does not have."""
    asked = [("pairs in [practice]", pair) for pair in settings.practice.pairs]
    asked += [("[[checks]]", (check.left, check.right)) for check in settings.checks]
    known = set(items.ids)
    found = [
        f"{where} names item {x!r}, which the table does not have." for where, p in asked for x in p if x not in known
    ]
    return found + [f"{where} compares item {a!r} with itself." for where, (a, b) in asked if a == b]


def _tried(read: object) -> list[str]:
    try:
        read()  # type: ignore[operator]
    except DataError as error:
        return [f"{error}."]
    return []


def open_study(folder: Path) -> Study:
    r"""Return a study that is ready to be served; a DataError lists everything that is wrong with it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from crowdmetric.collect import make_study, open_study
    >>> place = Path(tempfile.mkdtemp())
    >>> _ = (place / 'drinks.csv').write_text('item_id,sweet\ntea,0\ncola,4\nmilk,1\n')
    >>> study = open_study(make_study(place / 'drinks.csv', place / 'study'))
    >>> study.folder.name
    'study'
    """
    settings, items, wrong = check_study(folder)
    if wrong or items is None:
        raise DataError(" ".join(wrong))
    return Study(folder, settings, items, read_secret(folder))


def read_secret(folder: Path) -> Secret:
    """Return the secret of a folder, drawn at random the first time; a file that others may read is refused."""
    path = folder / "secret.json"
    if not path.exists():
        values = {
            "study": secrets.token_hex(8), "researcher": secrets.token_urlsafe(32), "signing": secrets.token_hex(32)
        }  # fmt: skip
        # made with its permissions: there is no moment at which others could open it
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(values, file)
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise DataError(f"other users can read {path}; restrict it to yourself with chmod 600 {path}")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return Secret(values["study"], values["researcher"], bytes.fromhex(values["signing"]))
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged; restore it from a copy, or people's links stop working") from error


def open_store(study: Study, *, patience_ms: int = 0) -> Database:
    """Return the store of a study, to write to."""
    if study.database:
        return open_postgres(study.database, f"study_{study.secret.study}")
    return open_sqlite(study.store, patience_ms=patience_ms)


def open_reader(study: Study) -> Database:
    """Return the store of a study, to read from while it is served."""
    if study.database:
        return open_postgres(study.database, f"study_{study.secret.study}")
    return read_sqlite(study.store)
