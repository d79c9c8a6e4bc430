"""`study.toml`: what a study is, read with `tomllib`, every key checked.

Each section of the file is a frozen dataclass below, and each of its fields carries the rule that its value must
follow. For each wrong or unknown key there is one sentence that names it. All sentences are shown together, so one look
is enough to correct the file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from crowdmetric.collect.words import STUDY_WORDS, WORDS

__all__ = [
    "CheckQuestion",
    "FormField",
    "Screening",
    "Settings",
    "parse_settings",
    "problems_of_settings",
]

Section = TypeVar("Section")

DESIGNS = ("random", "within", "matched", "optimal", "file", "live")
PANELS = ("anonymous", "prolific", "connect", "sona", "list")
# More minutes, or a larger relative error, are not meant.
MOST = 1_000_000
FIELD_KINDS = ("text", "long", "number", "choice")


def _is_language(value: Any) -> bool:
    return isinstance(value, str) and 2 <= len(value) <= 12 and value.replace("-", "").isalnum() and value.isascii()


def _is_key(value: Any) -> bool:
    return isinstance(value, str) and value.isidentifier() and value.isascii() and len(value) <= 60


@dataclass(frozen=True)
class Rule:
    """What a value must be: a sentence that completes "expected …", and the test of it."""

    expected: str
    holds: Callable[[Any], bool]


def _rule(expected: str, holds: Callable[[Any], bool]) -> dict[str, Rule]:
    return {"rule": Rule(expected, holds)}


def _text(longest: int = 20_000) -> dict[str, Rule]:
    return _rule(f"text of at most {longest:,} characters", lambda v: isinstance(v, str) and len(v) <= longest)


def _name() -> dict[str, Rule]:
    return _rule("some text", lambda v: isinstance(v, str) and bool(v.strip()) and len(v) <= 500)


def _whole(least: int, most: int) -> dict[str, Rule]:
    return _rule(f"a whole number from {least:,} to {most:,}", lambda v: type(v) is int and least <= v <= most)


def _share(most: float = 1.0) -> dict[str, Rule]:
    return _rule(f"a number from 0 to {most:g}", lambda v: type(v) in (int, float) and 0 <= v <= most)


def _positive(what: str) -> dict[str, Rule]:
    return _rule(f"{what} above 0, at most {MOST:,}", lambda v: type(v) in (int, float) and 0 < v <= MOST)


def _yes_or_no() -> dict[str, Rule]:
    return _rule("true or false", lambda v: isinstance(v, bool))


def _one_of(options: tuple[str, ...]) -> dict[str, Rule]:
    return _rule(f"one of {', '.join(map(repr, options))}", lambda v: v in options)


def _texts() -> dict[str, Rule]:
    return _rule("a list of texts", lambda v: isinstance(v, list) and all(isinstance(x, str) and x for x in v))


def _pairs() -> dict[str, Rule]:
    def holds(value: Any) -> bool:
        return isinstance(value, list) and all(
            isinstance(pair, list) and len(pair) == 2 and all(isinstance(x, str | int) for x in pair) for pair in value
        )

    return _rule("a list of pairs of item ids, such as [['a', 'b'], ['c', 'd']]", holds)


def _address() -> dict[str, Rule]:
    def holds(value: Any) -> bool:
        return isinstance(value, str) and (value == "" or value.startswith(("http://", "https://")))

    return _rule("an address that begins with http:// or https://, or nothing", holds)


@dataclass(frozen=True)
class General:
    """The section ``[study]``."""

    title: str = field(default="Which one do you prefer?", metadata=_name())
    question: str = field(default="Which one do you like better?", metadata=_name())
    language: str = field(default="en", metadata=_rule("a language code such as 'en'", _is_language))
    people: int = field(default=200, metadata=_whole(1, 10_000_000))
    questions: int = field(default=12, metadata=_whole(1, 1_000))
    undecided: bool = field(default=False, metadata=_yes_or_no())
    html_items: bool = field(default=False, metadata=_yes_or_no())


@dataclass(frozen=True)
class Pages:
    """The section ``[pages]``: paragraphs are separated by an empty line."""

    consent: str = field(default="", metadata=_text())
    instructions: str = field(default="", metadata=_text())
    thanks: str = field(default="", metadata=_text())


@dataclass(frozen=True)
class ItemTable:
    """The section ``[items]``."""

    table: str = field(default="items.csv", metadata=_name())
    subspace_column: str = field(default="", metadata=_text(200))


@dataclass(frozen=True)
class Design:
    """The section ``[design]``."""

    kind: str = field(default="random", metadata=_one_of(DESIGNS))
    file: str = field(default="", metadata=_text(500))
    hook: str = field(default="", metadata=_text(500))
    within: float = field(default=0.1, metadata=_positive("a relative error"))
    wait: bool = field(default=False, metadata=_yes_or_no())
    seed: int = field(default=0, metadata=_whole(0, 2**31))
    evaluation: float = field(default=0.1, metadata=_share(0.9))
    repeats: float = field(default=0.1, metadata=_share())
    give_back_minutes: float = field(default=60.0, metadata=_positive("a number of minutes"))


@dataclass(frozen=True)
class Practice:
    """The section ``[practice]``."""

    pairs: tuple[tuple[str, str], ...] = field(default=(), metadata=_pairs())


@dataclass(frozen=True)
class Panel:
    """The section ``[panel]``."""

    kind: str = field(default="anonymous", metadata=_one_of(PANELS))
    code: str = field(default="", metadata=_text(200))
    screened_code: str = field(default="", metadata=_text(200))
    failed_code: str = field(default="", metadata=_text(200))
    url: str = field(default="", metadata=_address())
    list: str = field(default="", metadata=_text(500))


@dataclass(frozen=True)
class Careless:
    """The section ``[careless]``: when the researcher's page points at somebody. Nobody is dropped."""

    fastest_ms: int = field(default=400, metadata=_whole(0, 60_000))
    same_side: float = field(default=0.95, metadata=_share())
    contradictions: float = field(default=0.5, metadata=_share())
    failed_checks: int = field(default=2, metadata=_whole(1, 1_000))


@dataclass(frozen=True)
class Privacy:
    """The section ``[privacy]``."""

    keep_agent: bool = field(default=False, metadata=_yes_or_no())


@dataclass(frozen=True)
class Server:
    """The section ``[server]``."""

    address: str = field(default="", metadata=_address())
    starts_per_minute: int = field(default=120, metadata=_whole(1, 1_000_000))
    database: str = field(
        default="",
        metadata=_rule(
            "nothing, or an address that begins with postgresql://",
            lambda v: isinstance(v, str) and (v == "" or v.startswith(("postgresql://", "postgres://"))),
        ),
    )


@dataclass(frozen=True)
class FormField:
    """One entry of ``[[survey]]``, asked at the end."""

    name: str = field(metadata=_rule("a short name of letters, digits and _", _is_key))
    label: str = field(metadata=_name())
    kind: str = field(default="text", metadata=_one_of(FIELD_KINDS))
    options: tuple[str, ...] = field(default=(), metadata=_texts())
    required: bool = field(default=False, metadata=_yes_or_no())


@dataclass(frozen=True)
class Screening:
    """One entry of ``[[screening]]``, asked before the study; other answers than those accepted end it."""

    name: str = field(metadata=_rule("a short name of letters, digits and _", _is_key))
    label: str = field(metadata=_name())
    options: tuple[str, ...] = field(metadata=_texts())
    accept: tuple[str, ...] = field(metadata=_texts())


@dataclass(frozen=True)
class CheckQuestion:
    """One entry of ``[[checks]]``: a question with a right answer, for attention."""

    left: str = field(metadata=_rule("the id of an item", lambda v: isinstance(v, str | int)))
    right: str = field(metadata=_rule("the id of an item", lambda v: isinstance(v, str | int)))
    expect: str = field(metadata=_one_of(("left", "right")))


@dataclass(frozen=True)
class Settings:
    """A whole ``study.toml``; `words` are fixed strings by language."""

    study: General = General()
    pages: Pages = Pages()
    items: ItemTable = ItemTable()
    design: Design = Design()
    practice: Practice = Practice()
    panel: Panel = Panel()
    careless: Careless = Careless()
    privacy: Privacy = Privacy()
    server: Server = Server()
    survey: tuple[FormField, ...] = ()
    screening: tuple[Screening, ...] = ()
    checks: tuple[CheckQuestion, ...] = ()
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


SECTIONS: dict[str, type[Any]] = {
    "study": General, "pages": Pages, "items": ItemTable, "design": Design, "practice": Practice, "panel": Panel,
    "careless": Careless, "privacy": Privacy, "server": Server,
}  # fmt: skip
LISTS: dict[str, type[Any]] = {"survey": FormField, "screening": Screening, "checks": CheckQuestion}


def problems_of_settings(path: Path) -> tuple[Settings, list[str]]:
    """Return what could be read of a file, and a sentence for each thing that is wrong with it."""
    if not path.is_file():
        return Settings(), [f"There is no {path}; crowdmetric collect ITEMS makes one."]
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # what is not TOML, and integers of thousands of digits
        return Settings(), [f"{path} is not TOML: {error}."]
    return parse_settings(table)


def parse_settings(table: Mapping[str, Any]) -> tuple[Settings, list[str]]:
    """Return the settings in a parsed file, and a sentence for each thing that is wrong with it."""
    wrong: list[str] = []
    found: dict[str, Any] = {}
    known = (*SECTIONS, *LISTS, "words")
    for name, value in table.items():
        if name not in known:
            wrong.append(f"[{name}] is unknown; the sections are {', '.join(known)}.")
        elif name in LISTS:
            found[name] = _read_list(name, value, wrong)
        elif not isinstance(value, dict):
            wrong.append(f"{name} must be a section, written [{name}].")
        elif name == "words":
            found[name] = _read_words(value, wrong)
        else:
            found[name] = _read_section(SECTIONS[name], value, f"[{name}]", wrong)
    settings = Settings(**found)
    wrong += _contradictions(settings)
    return settings, wrong


def _read_section(kind: type[Section], table: Mapping[str, Any], where: str, wrong: list[str]) -> Section:
    """Return a section of one kind; values that break their rule are reported and replaced by their default."""
    rules = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    good: dict[str, Any] = {}
    for key, value in table.items():
        if key not in rules:
            wrong.append(f"{key} in {where} is unknown; the keys there are {', '.join(rules)}.")
            continue
        rule: Rule = rules[key].metadata["rule"]
        if rule.holds(value):
            good[key] = str(value) if key in {"left", "right"} else _frozen(value)
        else:
            wrong.append(f"{key} in {where} is {value!r}, but {rule.expected} was expected.")
    for key, f in rules.items():
        if f.default is f.default_factory and key not in good:  # both MISSING: a key without a default
            if key not in table:
                wrong.append(f"{where} has no {key}; add it.")
            good[key] = () if key in ("options", "accept") else ""
    return kind(**good)


def _frozen(value: Any) -> Any:
    """Return lists as tuples; ids in pairs as text."""
    if isinstance(value, list):
        return tuple(tuple(map(str, x)) if isinstance(x, list) else x for x in value)
    return value


def _read_list(name: str, value: Any, wrong: list[str]) -> tuple[Any, ...]:
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        wrong.append(f"{name} must be written [[{name}]], once for each entry.")
        return ()
    return tuple(_read_section(LISTS[name], entry, f"[[{name}]] number {i}", wrong) for i, entry in enumerate(value, 1))


def _read_words(table: Mapping[str, Any], wrong: list[str]) -> dict[str, dict[str, str]]:
    known = {*WORDS, *STUDY_WORDS}
    words: dict[str, dict[str, str]] = {}
    for language, entries in table.items():
        if not isinstance(entries, dict) or not _is_language(language):
            wrong.append(f"[words.{language}] must be a section named after a language, such as [words.de].")
            continue
        for key, value in entries.items():
            if key not in known:
                wrong.append(f"{key} in [words.{language}] is unknown; the words are {', '.join(sorted(known))}.")
            elif not isinstance(value, str):
                wrong.append(f"{key} in [words.{language}] is {value!r}, but text was expected.")
        words[language] = {k: v for k, v in entries.items() if k in known and isinstance(v, str)}
        missing = sorted(set(WORDS) - set(words[language])) if language != "en" else []
        if missing:
            wrong.append(f"[words.{language}] has no {', '.join(missing)}; add them, or people read them in English.")
    return words


def _contradictions(settings: Settings) -> list[str]:
    """Return sentences about keys that do not go together."""
    s, found = settings, []
    if s.study.language != "en" and s.study.language not in s.words:
        found.append(
            f"language in [study] is {s.study.language!r}, but there is no [words.{s.study.language}]; add one."
        )
    if (s.design.kind == "file") != bool(s.design.file):
        found.append("file in [design] names a questionnaire and goes with kind = 'file'; give both or neither.")
    if s.design.hook and s.design.kind != "live":
        found.append("hook in [design] names a live design of your own and goes with kind = 'live'; leave it out.")
    if (s.panel.kind == "list") != bool(s.panel.list):
        found.append("list in [panel] names a file of people and goes with kind = 'list'; give both or neither.")
    if s.items.subspace_column and s.design.kind != "within":
        found.append("subspace_column in [items] has a use with kind = 'within' in [design] only; leave it out.")
    if s.design.kind == "matched" and s.study.questions % 2:
        found.append(
            f"questions in [study] is {s.study.questions}, but matched questions come in pairs; use an even number."
        )
    for entry in s.survey:
        if (entry.kind == "choice") != bool(entry.options):
            found.append(f"options of {entry.name!r} in [[survey]] go with kind = 'choice'; give both or neither.")
    for screen in s.screening:
        strange = [x for x in screen.accept if x not in screen.options]
        if strange:
            found.append(f"accept of {screen.name!r} in [[screening]] names {strange[0]!r}, which is not an option.")
    names = [*(entry.name for entry in s.survey), *(entry.name for entry in s.screening)]
    found += [f"{name!r} names two fields; rename one." for name in sorted({n for n in names if names.count(n) > 1})]
    return found
