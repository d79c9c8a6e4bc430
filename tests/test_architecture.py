"""The shape of the code: who may import whom, what stays optional, what is documented."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = "crowdmetric"
SOURCE = Path(__file__).parent.parent / "src" / ROOT

# A unit is a module of the package or a whole sub-package; it imports only from rows of a smaller number.
ROW = {
    "_version": 0,
    "errors": 0,
    "interruption": 0,
    "progress": 0,
    "canonical": 1,
    "checks": 1,
    "draw_intervals": 1,
    "engines": 1,
    "folders": 1,
    "losses": 1,
    "model_schema": 1,
    "symmetric": 1,
    "plots": 2,
    "preprocess": 2,
    "simulate": 2,
    "tables": 2,
    "users": 2,
    "choices": 3,
    "comparisons": 3,
    "importance": 3,
    "judgements": 3,
    "ratings": 3,
    "solvers": 3,
    "coefficients": 4,
    "datasets": 4,
    "inputs": 4,
    "similarity": 4,
    "smooth": 4,
    "fits": 5,
    "simulate_judgements": 5,
    "tastes": 5,
    "summary": 6,
    "base": 7,
    "bounded": 8,
    "estimators": 9,
    "stitch": 9,
    "subspaces": 9,
    "theory": 9,
    "__init__": 10,
    "agreement": 10,
    "design": 10,
    "evaluate": 10,
    "experiments": 10,
    "identifiability": 10,
    "intervals": 10,
    "locate": 10,
    "persist": 10,
    "choice": 11,
    "collect": 11,
    "export": 11,
    "report": 11,
    "commands": 12,
    "cli": 13,
    "__main__": 14,
}

# A room: everything of one thing that a person can name, and what it may import besides itself (units or modules).
ROOMS = {
    "bounded": {
        *("base", "canonical", "checks", "engines", "errors", "inputs", "losses", "symmetric", "tables"),
        *("fits.memory", "fits.passes", "solvers.cone", "solvers.solution"),
        *("users.blocks", "users.compiled", "users.projected"),
    },
}

HEAVY = [
    "torch",
    "dask",
    "pyarrow",
    "polars",
    "pandas",
    "matplotlib",
    "rich",
    "numba",
    "triton",
    "cvxpy",
    "safetensors",
    "xlrd",
    "openpyxl",
    "starlette",
    "uvicorn",
    "jinja2",
    "psycopg",
]


def name_of(path: Path) -> str:
    """Return the dotted name of a file: ``crowdmetric.users.blocks``; a package is called by its folder."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def unit_of(module: str) -> str:
    """Return the row's name: ``users`` for ``crowdmetric.users.blocks``, ``__init__`` for the root."""
    return module.split(".")[1] if "." in module else "__init__"


FILES = {name_of(path): path for path in sorted(SOURCE.rglob("*.py"))}
TREES = {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in FILES.items()}


def imports_of(module: str) -> Iterator[str]:
    """Yield every name the file imports, wherever in it; ``from a import b`` is a.b if that is a file."""
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(module, node)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield inner if inner in FILES and base != ROOT else base
        elif isinstance(node, ast.Call):
            yield from imported_by_call(node)


def absolute(module: str, node: ast.ImportFrom) -> str:
    """Return the module an import statement names, with leading dots resolved."""
    if node.level == 0:
        return node.module or ""
    package = module if FILES[module].name == "__init__.py" else module.rpartition(".")[0]
    for _ in range(node.level - 1):
        package = package.rpartition(".")[0]
    return f"{package}.{node.module}" if node.module else package


def imported_by_call(node: ast.Call) -> Iterator[str]:
    """Yield the name in ``import_module("name")`` or ``__import__("name")``, however it is spelled."""
    function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
    if function in {"import_module", "__import__"} and node.args and isinstance(node.args[0], ast.Constant):
        yield str(node.args[0].value)


def inside(module: str) -> set[str]:
    """Return what a file imports from crowdmetric."""
    return {name for name in imports_of(module) if name.split(".")[0] == ROOT}


def test_there_is_something_to_check() -> None:
    assert f"{ROOT}.errors" in FILES


def test_the_page_on_architecture_is_true() -> None:
    page = (SOURCE.parent.parent / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", page, flags=re.MULTILINE)
    said = {unit: int(row) for row, units in rows for unit in re.findall(r"`(\w+)(?:\.py|/)`", units)}
    unsaid = {"_version", "__init__", "__main__"}
    assert said == {unit: row for unit, row in ROW.items() if unit not in unsaid}
    missing = [name for name in set(re.findall(r"\b\w+/\w+\.py", page)) if not (SOURCE / name).is_file()]
    assert not [name for name in missing if not name.startswith("tests/")], f"the page names {missing}"


def test_the_page_lists_what_rooms_may_import() -> None:
    page = (SOURCE.parent.parent / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    rooms = re.findall(r"^\| `(\w+)/` \| (.*?) \|", page, flags=re.MULTILINE)
    assert {room: set(re.findall(r"`([\w.]+)`", allowed)) for room, allowed in rooms} == ROOMS


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_it_may(room: str) -> None:
    members = [module for module in FILES if unit_of(module) == room]
    imported = {(module, name) for module in members for name in inside(module) - {ROOT} if unit_of(name) != room}
    known = {
        entry: {i for i in imported if entry in (unit_of(i[1]), i[1].removeprefix(f"{ROOT}."))} for entry in ROOMS[room]
    }
    wrong = imported.difference(*known.values())
    assert not wrong, f"{room} may not import {sorted(wrong)}"
    unused = [entry for entry, found in known.items() if not found]
    assert not unused, f"{room} imports no {unused}; take them off its list"


def test_every_module_has_a_row() -> None:
    missing = {module for module in FILES if unit_of(module) not in ROW}
    assert not missing, f"{sorted(missing)} are in no row; add their units to ROW in {Path(__file__).name}"


def test_imports_point_upwards() -> None:
    wrong = [
        f"{module} (row {ROW.get(unit_of(module))}) imports {name}"
        for module in FILES
        for name in sorted(inside(module) - {ROOT})
        if unit_of(name) != unit_of(module) and ROW.get(unit_of(name), 99) >= ROW.get(unit_of(module), 99)
    ]
    assert not wrong, f"these are not in a row above: {'; '.join(wrong)}"


def test_nothing_is_imported_through_the_root() -> None:
    wrong = [module for module in FILES if ROOT in inside(module) - {module}]
    assert not wrong, f"{wrong} import through {ROOT}; name the module instead"


def test_every_module_has_its_own_name() -> None:
    """A command may be called like the module that does its work (`commands/export.py`, `export.py`)."""
    seen: dict[str, list[str]] = {}
    for module, path in FILES.items():
        if path.name != "__init__.py" and unit_of(module) != "commands":
            seen.setdefault(path.stem, []).append(module)
    repeated = {name: modules for name, modules in seen.items() if len(modules) > 1}
    assert not repeated, f"rename all but one of {repeated}"


def test_every_class_has_its_own_name() -> None:
    seen: dict[str, list[str]] = {}
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                seen.setdefault(node.name, []).append(module)
    repeated = {name: modules for name, modules in seen.items() if len(modules) > 1}
    assert not repeated, f"rename all but one of {repeated}"


def test_a_package_lists_its_modules() -> None:
    for module in [name for name, path in FILES.items() if path.name == "__init__.py" and name != ROOT]:
        listed = re.findall(r"^    (\w+\.py) ", ast.get_docstring(TREES[module]) or "", flags=re.MULTILINE)
        there = {path.name for path in FILES[module].parent.glob("*.py")} - {"__init__.py"}
        assert set(listed) <= there, f"{module} lists {sorted(set(listed) - there)}, which do not exist"
        assert there <= set(listed), (
            f"the docstring of {module} does not list {sorted(there - set(listed))}; add a line"
        )


def test_there_are_no_cycles() -> None:
    graph = {module: inside(module) - {module} for module in FILES}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the cycle


@pytest.mark.parametrize("library", HEAVY)
def test_a_heavy_library_is_imported_in_one_place(library: str) -> None:
    places = [module for module in FILES if library in {name.split(".")[0] for name in imports_of(module)}]
    assert len(places) <= 1, f"{library} is imported in {places}; keep one and let the others ask it"


# Numba and Triton compile functions where they are defined, so files of compiled loops load them, at the first fit.
COMPILED = {
    f"crowdmetric.users.{name}"
    for name in ("compiled", "line_kernels", "population_kernels", "propagation_kernels", "set_kernels")
} | {
    "crowdmetric.bounded.placing_kernels",
    "crowdmetric.similarity.choice_kernels",
    "crowdmetric.smooth.site_kernels",
    "crowdmetric.users.fused_kernels",
}
# scikit-learn looks for some of them by itself; what it loads is not our doing.
CORE = ["numpy", "scipy.special", "sklearn.base", "sklearn.metrics", "sklearn.utils.validation"]


@pytest.mark.parametrize("scope", ["package", "every module"])
def test_importing_loads_no_heavy_library(scope: str) -> None:
    everything = [m for m in FILES if unit_of(m) != "__main__" and m not in COMPILED]
    wanted = [ROOT] if scope == "package" else everything
    lines = [
        "import importlib, sys",
        f"[importlib.import_module(name) for name in {CORE!r}]",
        "before = set(sys.modules)",
        f"[importlib.import_module(name) for name in {wanted!r}]",
        f"print(*[name for name in {HEAVY!r} if name in set(sys.modules) - before])",
    ]
    result = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert not result.stdout.split(), f"importing {scope} loads {result.stdout.split()}; import them inside functions"


def test_all_names_exist() -> None:
    skipped = {f"{ROOT}.__main__"}  # importing it runs the command line
    if find_spec("triton") is None:  # comes with PyTorch for CUDA
        skipped.add("crowdmetric.users.fused_kernels")
    for module in FILES.keys() - skipped:
        loaded = importlib.import_module(module)
        names = getattr(loaded, "__all__", [])
        missing = [name for name in names if not hasattr(loaded, name)]
        assert not missing, f"{module}.__all__ names {missing}, which do not exist"
        assert len(set(names)) == len(names), f"{module}.__all__ repeats a name"


def public(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Yield the public functions and classes of a module (ruff sees to their methods)."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            overload = any("overload" in ast.dump(mark) for mark in node.decorator_list)
            if not node.name.startswith("_") and not overload:
                yield node


def test_everything_public_is_documented() -> None:
    bare = [f"{module} itself" for module, tree in TREES.items() if not ast.get_docstring(tree)]
    for module, tree in TREES.items():
        bare += [f"{module}.{node.name} (line {node.lineno})" for node in public(tree) if not ast.get_docstring(node)]
    assert not bare, f"without a docstring: {', '.join(bare)}"
