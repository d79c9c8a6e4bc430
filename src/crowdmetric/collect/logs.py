"""Structured logs without personal data: one JSON object per line, on standard error.

Routes are logged, never addresses, ids, query strings or what people wrote. Requests are counted and summed up once a
minute; only failures have a line of their own.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import Counter
from math import ceil, log2
from typing import Any

__all__ = ["RequestTally", "log_event", "set_up_logs"]

LOG = logging.getLogger("crowdmetric.collect")
# Durations are counted in steps of a tenth of a doubling.
STEPS = 10


class JsonLines(logging.Formatter):
    """Each record as one JSON object: time, level, event and its details."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {"time": f"{moment}Z", "level": record.levelname.lower(), "event": record.getMessage()}
        line |= getattr(record, "details", {})
        if record.exc_info and record.exc_info[0] is not None:
            # where it happened; values are left out, as they may be about people
            last = record.exc_info[2]
            while last is not None and last.tb_next is not None:
                last = last.tb_next
            place = "" if last is None else f"{last.tb_frame.f_code.co_filename}:{last.tb_lineno}"
            line |= {"error": record.exc_info[0].__name__, "at": place}
        return json.dumps(line, ensure_ascii=False)


def set_up_logs(quiet: bool = False) -> None:
    """Write what the study logs to standard error, warnings only if `quiet`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    LOG.handlers[:] = [handler]
    LOG.propagate = False
    LOG.setLevel(logging.WARNING if quiet else logging.INFO)


def log_event(event: str, *, level: int = logging.INFO, error: BaseException | None = None, **details: Any) -> None:
    """Log one event with its details."""
    LOG.log(level, event, extra={"details": details}, exc_info=error)


class RequestTally:
    """Counts requests and how long they took, by route."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self._steps: Counter[int] = Counter()

    def add(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self.statuses[f"{route} {status}"] += 1
        self._steps[ceil(STEPS * log2(max(1e6 * seconds, 1.0)))] += 1

    @property
    def requests(self) -> int:
        """How many there were."""
        return sum(self._steps.values())

    def quantile(self, share: float) -> float:
        """Return the milliseconds within which a share of the requests was answered, to 7 %."""
        needed, seen = share * self.requests, 0
        for step in sorted(self._steps):
            seen += self._steps[step]
            if seen >= needed:
                return float(2.0 ** (step / STEPS) / 1e3)
        return 0.0

    def summary(self) -> dict[str, Any]:
        """Return what was counted."""
        return {
            "requests": self.requests, "p50_ms": round(self.quantile(0.5), 2), "p99_ms": round(self.quantile(0.99), 2),
            "statuses": dict(self.statuses),
        }  # fmt: skip
