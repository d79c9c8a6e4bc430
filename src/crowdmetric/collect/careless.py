"""Who looks careless, by rules that are stated. The researcher's page names these people; nobody is dropped.

========================  ==========================================================================
rule                      somebody is named when
========================  ==========================================================================
too fast                  the median of their response times is below ``fastest_ms``
one side                  at least 8 answers, a share above ``same_side`` of them on one side
contradicts themselves    at least 2 repeats, a share above ``contradictions`` answered the other way
missed checks             at least ``failed_checks`` checks answered wrongly
========================  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from crowdmetric.collect.settings import Careless

__all__ = ["Answered", "reasons", "rules"]

FEWEST_ANSWERS, FEWEST_REPEATS = 8, 2
OTHER_SIDE = {"left": "right", "right": "left", "tie": "tie"}


@dataclass
class Answered:
    """What is needed of one person: response times, choices by position, and what repeats what."""

    times: list[int] = field(default_factory=list)
    choices: dict[int, str] = field(default_factory=dict)
    repeats: list[tuple[int, int]] = field(default_factory=list)
    missed: int = 0

    def consistent(self) -> tuple[int, int]:
        """Return how many repeats were answered alike, and how many there are; sides are swapped in a repeat."""
        pairs = [(self.choices[a], self.choices[b]) for a, b in self.repeats if a in self.choices and b in self.choices]
        return sum(OTHER_SIDE[first] == second for first, second in pairs), len(pairs)


def reasons(person: Answered, rule: Careless) -> list[str]:
    """Return why somebody looks careless; nothing if they do not."""
    found = []
    if person.times and median(person.times) < rule.fastest_ms:
        found.append(f"median response {median(person.times):.0f} ms")
    sided = [choice for choice in person.choices.values() if choice != "tie"]
    share = max(sided.count("left"), sided.count("right")) / len(sided) if sided else 0.0
    if len(sided) >= FEWEST_ANSWERS and share > rule.same_side:
        found.append(f"{share:.0%} of answers on one side")
    alike, repeats = person.consistent()
    if repeats >= FEWEST_REPEATS and 1 - alike / repeats > rule.contradictions:
        found.append(f"{repeats - alike} of {repeats} repeats contradict")
    if person.missed >= rule.failed_checks:
        found.append(f"{person.missed} checks missed")
    return found


def rules(rule: Careless) -> Sequence[str]:
    """Return the rules in words, with the numbers of this study."""
    return (
        f"median response time below {rule.fastest_ms} ms",
        f"more than {rule.same_side:.0%} of at least {FEWEST_ANSWERS} answers on one side",
        f"more than {rule.contradictions:.0%} of at least {FEWEST_REPEATS} repeats answered differently",
        f"at least {rule.failed_checks} checks missed",
    )
