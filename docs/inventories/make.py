"""Write the inventories that links to other libraries are looked up in.

Sphinx usually downloads them from each library's site at every build. These are small, made from the installed
libraries, and kept beside this file, so a build needs no network::

    python docs/inventories/make.py

A name is listed if it is public and its page follows the library's usual pattern of addresses.
"""

from __future__ import annotations

import importlib
import inspect
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
# library: pattern of a page's address, and the modules whose public names have such pages
LIBRARIES = {
    "numpy": ("reference/generated/{}.html#$", ["numpy", "numpy.linalg"]),
    "scipy": ("reference/generated/{}.html#$", ["scipy.linalg", "scipy.optimize", "scipy.special", "scipy.stats"]),
    "sklearn": (
        "modules/generated/{}.html#$",
        [
            f"sklearn.{name}"
            for name in (
                "base", "cluster", "datasets", "decomposition", "feature_extraction.text", "frozen", "linear_model",
                "manifold", "metrics", "model_selection", "neighbors", "pipeline", "preprocessing",
            )
        ],
    ),
}  # fmt: skip
# The standard library documents a module per page; these are the names that docstrings use.
PYTHON = {
    "stdtypes.html#$": ["str", "list", "dict", "tuple"],
    "functions.html#$": ["bool", "float", "int"],
    "constants.html#$": ["None", "True", "False"],
    "pathlib.html#$": ["pathlib.Path"],
    "exceptions.html#$": ["ValueError", "RuntimeError", "ImportError", "UserWarning"],
}


def public_names(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield each public name of a module with its role."""
    for name in sorted(getattr(module, "__all__", [])):
        try:
            value = getattr(module, name, None)
        except ImportError:  # experimental, and only there after another import
            continue
        if inspect.isclass(value):
            yield f"{module.__name__}.{name}", "class"
        elif callable(value):
            yield f"{module.__name__}.{name}", "function"


def write_inventory(library: str, version: str, lines: list[str]) -> None:
    """Write one inventory in the format of Sphinx, version 2."""
    head = f"# Sphinx inventory version 2\n# Project: {library}\n# Version: {version}\n"
    head += "# The remainder of this file is compressed using zlib.\n"
    body = zlib.compress("".join(f"{line}\n" for line in lines).encode(), 9)
    (HERE / f"{library}.inv").write_bytes(head.encode() + body)


def main() -> None:
    """Write all inventories."""
    for library, (page, modules) in LIBRARIES.items():
        found = {name: role for module in modules for name, role in public_names(importlib.import_module(module))}
        lines = [f"{name} py:{role} 1 {page.format(name)} -" for name, role in sorted(found.items())]
        write_inventory(library, importlib.import_module(library).__version__, lines)
        print(f"{library}: {len(lines)} names")
    lines = [f"{name} py:class 1 library/{page} -" for page, names in PYTHON.items() for name in names]
    write_inventory("python", "3", lines)


if __name__ == "__main__":
    main()
