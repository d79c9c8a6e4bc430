"""How much memory a fit to a scan will take, computed before it starts.

Beyond what the process holds already, a fit to a scan needs memory for

- a sample of people for the starts, and the matrices of a step;
- one chunk of answers per thread: its records, their layout and the scores of a block of people;
- and, if the limit allows, cached chunks.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from crowdmetric.errors import DataError

__all__ = ["RUNTIME", "MemoryPlan", "bytes_to_lay_out", "read_memory"]

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
# Measured size of compiled loops and of heap growth.
RUNTIME = 150_000_000
# Copies of an answer's two vectors while a chunk is laid out, and bytes of its other numbers.
LAYOUT_VECTORS, LAYOUT_BYTES = 8, 200


def read_memory(memory: Any) -> int:
    """Return a limit in bytes from a number of bytes or text such as '2GB'; None: half of the free memory."""
    if memory is None:
        return _free() // 2
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", memory)
        if match and match[2].upper() in UNITS:
            memory = float(match[1]) * UNITS[match[2].upper()]
    if isinstance(memory, str | bool) or not isinstance(memory, int | float) or not 1 <= memory < inf:
        raise DataError(f"memory={memory!r} is not a number of bytes; give one, or text such as '2GB' or '500 MB'")
    return int(memory)


def bytes_to_lay_out(d: int) -> int:
    """Return the bytes that it takes to lay out an answer about items of d features."""
    return LAYOUT_VECTORS * 8 * d + LAYOUT_BYTES


def _free() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 4 * 10**9


def _in_use() -> int:
    """Return the memory of this process, or 200 MB if the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 200_000_000


@dataclass(frozen=True)
class MemoryPlan:
    """The memory of a fit to a scan, in bytes.

    Attributes
    ----------
    needed
        The minimum, with what the process holds already.
    everything
        Size of all answers, laid out.
    limit
        The maximum.
    people, answers
        How many there are.
    """

    needed: int
    everything: int
    limit: int
    people: int
    answers: int

    @staticmethod
    def of_work(
        people: int, answers: int, work: int, limit: int, what: str, *, keep: int = 0, remedy: str = ""
    ) -> MemoryPlan:
        """Return the plan for work that takes `work` bytes beyond the process; an error if the limit is too low.

        `what` names the work. `keep` is the size of all answers, if they may be cached.
        """
        needed = _in_use() + RUNTIME + work
        if needed > limit:
            raise DataError(
                f"memory={limit / 1e9:.2g} GB is too little: this {what} takes {needed / 1e9:.2g} GB or more; "
                f"raise memory{remedy}"
            )
        return MemoryPlan(needed, keep, limit, people, answers)

    @property
    def room(self) -> int:
        """Bytes for cached chunks."""
        return min(self.limit - self.needed, self.everything)

    @property
    def sentence(self) -> str:
        """The plan in words."""
        share = min(1.0, self.room / self.everything) if self.everything else 0.0
        size = f"about {(self.needed + self.room) / 1e9:.2g} GB of memory (limit {self.limit / 1e9:.2g} GB)"
        kept = (
            "all answers stay in it after the first pass"
            if share == 1.0
            else "answers are read from disk, a chunk at a time"
            if not self.everything
            else f"{100 * share:.0f} % of the answers stay in it, the rest is read from disk at every pass"
        )
        return f"{self.people:,} people with {self.answers:,} answers: {size}; {kept}"
