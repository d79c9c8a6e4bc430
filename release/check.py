"""Everything that must hold before a release; ``make release-check`` runs it.

In order: build twice and compare bytes, check metadata, install each distribution into a clean environment without
extras, run every command there, write a software bill of materials, review the repository. The first failure ends it
with one sentence.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
BILL = DIST / "crowdmetric.cdx.json"

# What a user types first, in an order in which each command finds what the one before left behind. Each row: the words,
# and the extra without which the command must refuse with a sentence that names it (None: it must work).
SMOKE: list[tuple[str, str | None]] = [
    ("simulate --dimension 3 --subspaces 0 --users 60 --comparisons 4 --out crowd", None),
    ("import movielens films --out imported --pairs 5", None),
    ("plan crowd/items.csv --answers 2 --error 0.3 --kind random", None),
    ("design crowd/items.csv --people 50 --kind random --out questions.csv", None),
    ("diagnose crowd/items.csv crowd/comparisons.csv", None),
    ("evaluate crowd/items.csv crowd/comparisons.csv --split pairs --repeats 1 --models linear", None),
    ("fit crowd/items.csv crowd/comparisons.csv --no-evaluate --no-report --out model", None),
    ("predict model crowd/comparisons.csv", None),
    ("locate model crowd/comparisons.csv", None),
    ("export model --out head.npz", None),
    ("info model", None),
    ("export model --out head.safetensors", "export"),
    ("collect crowd/items.csv", "collect"),
    ("reproduce --quick --out figures", "plots"),
    ("fit crowd/items.csv crowd/comparisons.csv --engine torch --no-evaluate --out model2", "gpu"),
]


def main() -> None:
    """Run all checks."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        build(DIST)
        build(Path(folder) / "again")
        compare(DIST, Path(folder) / "again")
        run(sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted(DIST.iterdir())))
        for built in sorted(DIST.iterdir()):
            python = install(built, Path(folder) / built.suffix.strip("."))
            smoke(python, Path(folder) / f"use{built.suffix}")
            if built.suffix == ".whl":  # what users install; the other environment has the build backend too
                write_bill(python, Path(folder) / BILL.name)
        shutil.copy(Path(folder) / BILL.name, BILL)
    run(sys.executable, "-m", "repo_review", str(ROOT))
    say(f"ready: {', '.join(path.name for path in sorted(DIST.iterdir()))}")


def say(text: str) -> None:
    """Print a line at once, also into a pipe."""
    print(f"release-check: {text}", flush=True)


def run(*words: str, **options: object) -> str:
    """Run a program and return what it prints; end the check where it fails."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    if done.returncode != 0:
        sys.exit(f"release-check: {' '.join(words)} failed\n{done.stdout}{done.stderr}")
    return str(done.stdout)


def build(out: Path) -> None:
    """Build the source distribution, and the wheel from it, with the dates of the last commit."""
    stamp = run("git", "-C", str(ROOT), "log", "-1", "--format=%ct").strip()
    run(
        sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT),
        env=os.environ | {"SOURCE_DATE_EPOCH": stamp},
    )  # fmt: skip


def compare(first: Path, second: Path) -> None:
    """End the check unless two builds are the same, byte by byte."""
    for path in sorted(first.iterdir()):
        one, two = (hashlib.sha256((folder / path.name).read_bytes()).hexdigest() for folder in (first, second))
        if one != two:
            sys.exit(f"release-check: {path.name} differs between two builds of the same commit")
        say(f"{path.name} is the same twice, {path.stat().st_size:,} bytes, sha256 {one[:16]}…")


def install(built: Path, folder: Path) -> Path:
    """Install one distribution without extras into a clean environment; return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    if built.suffix == ".gz":  # built with the pinned backend, not with one that is downloaded for the occasion
        run(*pip, "--constraint", str(ROOT / "constraints.txt"), "hatchling")
    run(*pip, "--constraint", str(ROOT / "constraints.txt"), "--no-build-isolation", str(built))
    run(str(python), "-m", "pip", "check")
    return python


def smoke(python: Path, folder: Path) -> None:
    """Run every command in an empty folder, without extras and without the sources on the path."""
    folder.mkdir()
    (folder / "films").mkdir()
    ratings = [f"{user},{film},{1 + (user * film) % 5},0" for user in range(1, 30) for film in range(1, 12)]
    (folder / "films" / "ratings.csv").write_text("userId,movieId,rating,timestamp\n" + "\n".join(ratings))
    films = [f"{film},Film {film} (1990),{'Comedy' if film % 2 else 'Drama|Crime'}" for film in range(1, 12)]
    (folder / "films" / "movies.csv").write_text("movieId,title,genres\n" + "\n".join(films))

    names = run(str(python), "-c", "from crowdmetric.commands import COMMANDS; print(*[c.name for c in COMMANDS])")
    missing = set(names.split()) - {words.split()[0] for words, _ in SMOKE}
    if missing:
        sys.exit(f"release-check: SMOKE in {Path(__file__).name} does not run {', '.join(sorted(missing))}")
    for words, extra in SMOKE:
        done = subprocess.run(
            [python, "-m", "crowdmetric", *words.split()], cwd=folder, capture_output=True, text=True, check=False
        )
        if extra is None and done.returncode != 0:
            sys.exit(f"release-check: crowdmetric {words} failed\n{done.stderr}")
        if extra is not None and (done.returncode != 1 or f"crowdmetric[{extra}]" not in done.stderr):
            sys.exit(
                f"release-check: crowdmetric {words} should end with exit code 1 and name crowdmetric[{extra}], but "
                f"ended with {done.returncode}\n{done.stdout}{done.stderr}"
            )
    say(f"all {len(names.split())} commands work from a clean installation, or say which extra they need")


def write_bill(python: Path, out: Path) -> None:
    """Write what a plain installation consists of, in the format of CycloneDX."""
    tool = Path(sys.executable).with_name("cyclonedx-py")
    run(str(tool), "environment", str(python), "--output-reproducible", "--output-file", str(out))
    components = json.loads(out.read_text(encoding="utf-8"))["components"]
    say(f"bill of materials: {', '.join(sorted(part['name'] for part in components))}")


if __name__ == "__main__":
    main()
