"""Console blocks of README.md and of the pages: run as they stand there, compared, and written anew.

    python docs/console_blocks.py            # every page; `make console`
    python docs/console_blocks.py README.md docs/reference/command-line.md

The console blocks of a page are one session, in a folder that has two tables of somebody's own, items.csv and
comparisons.csv (the travel data). After a line ``$ command`` stands what it prints, errors and notes included; a line
with nothing but … stands for any lines. Numbers may differ in their last digit, or by half a percent: machines round
differently. A block that shows commands alone is only run. A block that cannot be run has a line before it that says
why::

    <!-- not run: a server runs until it is stopped -->
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import crowdmetric
from crowdmetric.datasets import load_travel

ROOT = Path(__file__).parent.parent
MADE = {"gallery", "tutorials", "api", "used-in"}  # folders that a build of the documentation makes
PAGES = sorted([ROOT / "README.md", *(page for page in (ROOT / "docs").rglob("*.md") if not MADE & set(page.parts))])
BLOCK = re.compile(r"(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?```console\n(?P<text>.*?)```", re.DOTALL)
ANY_LINES = "…"
NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
SHARE_APART = 0.005
# What a command says every half minute on a slow machine, and before what takes long there.
PROGRESS = re.compile(r"crowdmetric: .* (?:\(\d+ (?:s|min)\)|takes about \d+ (?:s|min) more)")


@dataclass(frozen=True)
class Step:
    """A command, and the lines that are shown after it."""

    command: str
    shown: list[str]


def steps_of(block: str) -> list[Step]:
    """Return the commands of a block; a command goes on in the next line after a backslash."""
    steps: list[Step] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            steps.append(Step(line[2:], []))
        elif steps and steps[-1].command.endswith("\\") and not steps[-1].shown:
            steps[-1] = Step(f"{steps[-1].command}\n{line}", [])
        else:
            steps[-1].shown.append(ANY_LINES if line.strip() == ANY_LINES else line)
    return steps


def desk(folder: Path) -> dict[str, str]:
    """Fill a folder with the tables and make `crowdmetric` and `python` known; return the environment."""
    programs = folder / "bin"
    programs.mkdir()
    for name, words in (("crowdmetric", "-m crowdmetric "), ("python", "")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}"$@"\n', encoding="utf-8")
        program.chmod(0o755)
    load_travel().named().write(folder / "desk")
    library = str(Path(crowdmetric.__file__).parent.parent)  # the one that is imported here, wherever the session is
    return os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": library, "NO_COLOR": "1"}


def printed_by(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, list[str]]:
    """Return the exit code of a command and the lines that it prints."""
    ran = subprocess.run(
        ["sh", "-c", command],
        cwd=folder / "desk",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return ran.returncode, [line for line in ran.stdout.splitlines() if not PROGRESS.fullmatch(line)]


def differences(page: Path, folder: Path) -> Iterator[str]:
    """Yield a sentence for every command of a page that does not print what the page shows."""
    environment = desk(folder)
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["reason"]:
            continue
        steps = steps_of(block["text"])
        for step in steps:
            code, printed = printed_by(step.command, folder, environment)
            if code:
                yield f"$ {step.command}\nends with exit code {code}:\n" + "\n".join(printed[-20:])
            elif any(other.shown for other in steps) and not agree(step.shown, printed):
                yield f"$ {step.command}\nshown:\n" + "\n".join(step.shown) + "\nprinted:\n" + "\n".join(printed)


def agree(shown: list[str], printed: list[str]) -> bool:
    """Return whether lines are those shown, up to the last digits and to what … stands for."""
    if ANY_LINES not in shown:
        return len(shown) == len(printed) and all(map(alike, shown, printed))
    first = shown.index(ANY_LINES)
    rest = shown[first + 1 :]
    if len(printed) < first or not all(map(alike, shown[:first], printed)):
        return False
    return any(agree(rest, printed[begin:]) for begin in range(first, len(printed) + 1))


def alike(shown: str, printed: str) -> bool:
    """Return whether two lines have the same words and nearly the same numbers."""
    if [part.split() for part in NUMBER.split(shown)] != [part.split() for part in NUMBER.split(printed)]:
        return False
    return all(map(near, NUMBER.findall(shown), NUMBER.findall(printed)))


def near(shown: str, printed: str) -> bool:
    """Return whether two numbers are the same up to the last digit shown, or to half a percent."""
    a, b = (float(number.replace(",", "").replace("−", "-")) for number in (shown, printed))
    digits = re.search(r"\.(\d+)", shown)
    unit = 10.0 ** -len(digits[1]) if digits else 1.0
    return abs(a - b) <= max(1.001 * unit if "e" not in shown else 0.0, SHARE_APART * abs(a))


def renewed(page: Path, folder: Path) -> str:
    """Return the text of a page with what its commands print now; what … stood for is left out again."""
    environment = desk(folder)

    def again(block: re.Match[str]) -> str:
        if block["reason"]:
            return block[0]
        lines: list[str] = []
        steps = steps_of(block["text"])
        for step in steps:
            code, printed = printed_by(step.command, folder, environment)
            if code:
                raise SystemExit(f"{page}: $ {step.command}\n" + "\n".join(printed))
            lines.append(f"$ {step.command}")
            if any(other.shown for other in steps):
                lines += step.shown if agree(step.shown, printed) else shortened(printed, step.shown)
        return "```console\n" + "".join(f"{line}\n" for line in lines) + "```"

    return BLOCK.sub(again, page.read_text(encoding="utf-8"))


def shortened(printed: list[str], before: list[str]) -> list[str]:
    """Return lines without those for which … stood before: as many are shown of each part, found by its first line."""
    if ANY_LINES not in before:
        return printed
    parts: list[list[str]] = [[]]
    for line in before:
        if line == ANY_LINES:
            parts.append([])
        else:
            parts[-1].append(line)
    lines, begin = printed[: len(parts[0])], len(parts[0])
    for part in parts[1:-1]:
        scores = [difflib.SequenceMatcher(None, part[0], line).ratio() for line in printed[begin:]]
        begin += max(range(len(scores)), key=scores.__getitem__)
        lines += [ANY_LINES, *printed[begin : begin + len(part)]]
        begin += len(part)
    return [*lines, ANY_LINES, *(printed[max(begin, len(printed) - len(parts[-1])) :] if parts[-1] else [])]


if __name__ == "__main__":
    for name in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        if BLOCK.search(name.read_text(encoding="utf-8")):
            with tempfile.TemporaryDirectory() as made:
                name.write_text(renewed(name, Path(made)), encoding="utf-8")
            print(f"{name.relative_to(ROOT)} shows what is printed now")
