"""Keeps `findings` up to date in a separate process, which can never slow down a participant.

It runs at the lowest priority with one thread of linear algebra, never twice at once, at most every so often, and is
ended if it takes too long.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any

from crowdmetric.collect.folder import Study
from crowdmetric.collect.logs import log_event

__all__ = ["VerdictProcess", "read_findings"]

# Fewest seconds between two runs, and the longest that one may take. A run is followed by a pause of `REST` times its
# own length, so a large study does not keep a processor busy.
EVERY, LONGEST, REST = 20.0, 900.0, 3.0
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")}


def read_findings(study: Study) -> dict[str, Any]:
    """Return what was found last; nothing if nothing was."""
    try:
        found: dict[str, Any] = json.loads(study.verdict.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


class VerdictProcess:
    """Starts the process when a researcher is watching; `wanted` is set by the researcher's page."""

    def __init__(self, study: Study, every: float = EVERY) -> None:
        self.study, self.every = study, every
        self.wanted = asyncio.Event()
        self.running = False

    async def watch(self) -> None:
        """Look whenever somebody wants to know, until canceled."""
        while True:
            await self.wanted.wait()
            self.wanted.clear()
            began = time.monotonic()
            await self._look()
            await asyncio.sleep(max(self.every, REST * (time.monotonic() - began)))

    async def _look(self) -> None:
        nice = ["nice", "-n", "15"] if os.name == "posix" else []
        process = await asyncio.create_subprocess_exec(
            *nice, sys.executable, "-m", "crowdmetric.collect.findings", str(self.study.folder),
            env={**os.environ, **ONE_THREAD}, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        self.running = True
        try:
            _, errors = await asyncio.wait_for(process.communicate(), LONGEST)
            if process.returncode not in (0, -signal.SIGTERM):  # SIGTERM: the whole group is being stopped
                last = errors.decode("utf-8", "replace").strip().splitlines()[-1:] or [""]
                log_event("verdict_failed", error_type=last[0].partition(":")[0])
        except TimeoutError:
            log_event("verdict_took_too_long", seconds=LONGEST)
        finally:
            self.running = False
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
