"""The verdict: everything that was found, as values and in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.identifiability.assignment import Assignment, Dependence
from crowdmetric.identifiability.examples import ItemPair
from crowdmetric.identifiability.people import REASONS
from crowdmetric.identifiability.remedies import Situation, remedies

__all__ = ["Diagnosis"]

Array = NDArray[Any]

# Correlation of questions with ideal points up to which the population assumption is called safe; 0.6 is known to harm.
SAFE = 0.25


@dataclass(frozen=True)
class Diagnosis:
    """What answers to some questions can reveal of a metric.

    Attributes
    ----------
    identified
        Whether all of the metric can be learnt if nothing is assumed of the people.
    rank, dimensions
        Degrees of freedom that the answers then reveal, and how many there are, d(d+1)/2. Beyond 200 features `rank` is
        what is certain.
    rank_bounds, confidence
        Least and largest rank that the data leave possible, and how sure that is; the two are equal and the sentence is
        empty where the rank was computed exactly.
    smallest, largest
        Smallest eigenvalue of S that is not zero, and its largest; both NaN if S is zero. Their ratio says how much
        harder the worst direction is than the best. Features whose spreads differ a hundredfold are measured in
        spreads. Beyond 200 features `smallest` may be an estimate that errs upwards, by a factor of two or so where
        the rank is settled.
    unidentified_directions
        (dimensions − rank, d, d) orthonormal symmetric matrices that no answer depends on; where those would fill
        more than 128 MB, and beyond 200 features, only some of them.
    out_of_reach
        What they are in words: the entries of M that lie most in their span.
    unknown_distance, examples
        How much of the distance between two items is unknown, on average over pairs of items shown (0 … 1), and
        pairs for which it is most.
    people, silent, silent_reasons
        How many people there are, how many of them add nothing, and why.
    answers, most_answers, spare
        Answers in all, of the busiest person, and answers to spare: in excess of the independent questions of their
        person, summed over those who add something. The rank is at most that.
    d, span, items
        Features, dimension of what the differences of compared items span, and how many items were shown.
    population_rank, population_bounds, population_confidence, population_out_of_reach
        The same for people who come from one population and were not asked about items chosen for their taste.
    assignment
        Whether questions depend on who is asked.
    ceiling, ceiling_out_of_reach
        Degrees of freedom that the best questionnaire about these items could reveal, None where it was not
        computed, and what it could not.
    two_valued
        Features that take two values only.
    features, item_ids
        Names, None where none were given.
    """

    identified: bool
    rank: int
    dimensions: int
    smallest: float
    largest: float
    unidentified_directions: Array
    rank_bounds: tuple[int, int]
    confidence: str
    out_of_reach: str
    unknown_distance: float
    examples: tuple[ItemPair, ...]
    people: int
    silent: int
    silent_reasons: Mapping[str, int]
    answers: int
    most_answers: int
    spare: int
    d: int
    span: int
    items: int
    population_rank: int
    population_bounds: tuple[int, int]
    population_confidence: str
    population_out_of_reach: str
    assignment: Assignment
    ceiling: int | None
    ceiling_out_of_reach: str
    two_valued: tuple[int, ...]
    features: Sequence[str] | None
    item_ids: Sequence[Any] | Array | None

    def summary(self) -> str:
        """Return the verdict in plain words, with the remedies, cheapest first."""
        lines = [self._verdict(), *self._people(), *self._distances(), *self._ceiling(), *self._population()]
        found = self.remedies()
        if found:
            lines += ["", "What would help, cheapest first:", *(f"- {remedy}" for remedy in found)]
        return "\n".join(lines)

    def remedies(self) -> tuple[str, ...]:
        """Return what would reveal more, cheapest first; nothing if everything is revealed."""
        return remedies(
            Situation(
                d=self.d, dimensions=self.dimensions, rank=self.rank_bounds[0], span=self.span, items=self.items,
                people=self.people, silent=self.silent, spare=self.spare, most_answers=self.most_answers,
                out_of_reach=self.out_of_reach,
                population_rank=self.population_bounds[0], ceiling=self.ceiling,
                suspicious=self.assignment.suspicious, two_valued=[self._feature(j) for j in self.two_valued],
            )
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the matrices, ready for JSON."""
        whole = self.rank == 0
        return {
            "identified": self.identified, "rank": self.rank, "dimensions": self.dimensions,
            "rank_bounds": list(self.rank_bounds), "confidence": self.confidence,
            "condition": None if whole else self.largest / self.smallest,
            "out_of_reach": self.out_of_reach, "unknown_distance": self.unknown_distance,
            "examples": [{"left": self._item(e.left), "right": self._item(e.right), "unknown": e.unknown}
                         for e in self.examples],
            "people": self.people, "silent": self.silent, "silent_reasons": dict(self.silent_reasons),
            "answers": self.answers, "most_answers": self.most_answers, "spare": self.spare,
            "features": self.d, "span": self.span, "items": self.items,
            "population": {
                "rank": self.population_rank, "rank_bounds": list(self.population_bounds),
                "confidence": self.population_confidence, "out_of_reach": self.population_out_of_reach,
            },
            "assignment": {
                "testable": self.assignment.testable, "suspicious": self.assignment.suspicious,
                "people": self.assignment.people, "questions": self.assignment.questions,
                "midpoints": self._dependence(self.assignment.midpoints),
                "differences": self._dependence(self.assignment.differences),
            },
            "ceiling": self.ceiling, "ceiling_out_of_reach": self.ceiling_out_of_reach,
            "two_valued": [self._feature(j) for j in self.two_valued],
            "remedies": list(self.remedies()), "summary": self.summary(),
        }  # fmt: skip

    def _feature(self, j: int) -> str:
        return f"feature {j}" if self.features is None else repr(str(self.features[j]))

    def _item(self, row: int) -> Any:
        if self.item_ids is None:
            return row
        name = self.item_ids[row]
        return name.item() if isinstance(name, np.generic) else name

    def _dependence(self, found: Dependence | None) -> dict[str, Any] | None:
        if found is None:
            return None
        return {
            "intraclass_correlation": found.correlation, "feature": self._feature(found.feature),
            "p_value": found.p_value, "noticeable": found.noticeable, "bound": found.bound,
        }  # fmt: skip

    def _verdict(self) -> str:
        sure = f" ({self.confidence})" if self.confidence else ""
        if self.identified:
            return (
                f"These answers can teach the whole metric: all {self.dimensions:,} degrees of freedom, "
                f"whoever the people are{sure}."
            )
        if self.rank == 0:
            return (
                "These answers can teach nothing about the metric unless something is assumed of people "
                f"(0 of {self.dimensions:,} degrees of freedom)."
            )
        low, high = self.rank_bounds
        many = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        named = f"; out of reach is, for example, {self.out_of_reach}" if self.out_of_reach else ""
        return (
            f"These answers can teach {many} of {self.dimensions:,} degrees of freedom of the metric, "
            f"whoever the people are{sure}{named}."
        )

    def _people(self) -> list[str]:
        lines = []
        if self.silent:
            lines.append(
                f"{self.silent:,} of {self.people:,} people ({_percent(self.silent / self.people)}) "
                "add nothing to that:"
            )
            lines += [f"- {count:,}: {REASONS[reason]}." for reason, count in self.silent_reasons.items() if count]
        if self.rank > 0:
            ratio = self.largest / self.smallest
            least = "at least " if self.confidence else ""  # an estimate of `smallest` errs upwards
            lines.append(
                f"The hardest direction that can be learnt is {least}{_times(ratio)} times harder than the easiest."
            )
        return lines

    def _distances(self) -> list[str]:
        if self.rank == 0 or not self.examples:
            return []
        shown = "; ".join(
            f"{self._item(e.left)} and {self._item(e.right)} ({_percent(e.unknown)})" for e in self.examples
        )
        return [
            f"Of what decides the distance between two items, {_percent(self.unknown_distance)} is unknown on average; "
            f"most for the items {shown}."
        ]

    def _ceiling(self) -> list[str]:
        if self.ceiling is None or self.ceiling == self.dimensions:
            return []
        return [
            f"No questions about these {self.items:,} items could ever teach more than {self.ceiling:,} of "
            f"{self.dimensions:,} degrees of freedom, however many people answer; always out of reach is "
            f"{self.ceiling_out_of_reach}."
        ]

    def _population(self) -> list[str]:
        if self.people == 1:
            return []
        safe = _assignment_sentence(self.assignment, self._feature)
        low, high = self.population_bounds
        if (low, high) == self.rank_bounds:
            none = (
                "To take people as one population (PopulationMetric) adds nothing to what can be learnt, only accuracy."
            )
            return [none, safe]
        sure = f" ({self.population_confidence})" if self.population_confidence else ""
        many = f"{low:,} of {self.dimensions:,}" if low == high else f"{low:,} to {high:,} of {self.dimensions:,}"
        many = f"all {low:,}" if low == self.dimensions else many
        line = (
            "If people come from one population and were not asked about what they like, the answers can teach "
            f"{many} degrees of freedom{sure}, the overall size of the metric least surely: it then rests on how "
            "noisy answers are."
        )
        return [line, safe]


def _assignment_sentence(found: Assignment, name: Callable[[int], str]) -> str:
    """Return whether the population assumption looks safe."""
    if found.midpoints is None:
        return (
            "Whether people were asked about what they like cannot be checked here, which needs at least five people "
            "with two questions that share no item. The assumption is safe if questions were dealt out by chance."
        )
    if not found.suspicious:
        bound = found.midpoints.bound
        seen = f"as much within people as between them ({found.people:,} people, {found.questions:,} questions)"
        if bound > SAFE:
            return (
                f"Nothing speaks against that assumption, as questions differ {seen}; but those are few, and a "
                f"correlation with what people like of up to {bound:.2f} could go unnoticed."
            )
        return (
            f"That assumption looks safe: questions differ {seen}, so that where a question lies correlates with what "
            f"people like by less than {bound:.2f}."
        )
    both = (("where questions lie", found.midpoints), ("how far apart their items are", found.differences))
    noticed = [(what, part) for what, part in both if part is not None and part.found]
    parts = [
        f"{_percent(part.correlation)} of the variation in {what} is between people (in {name(part.feature)}; "
        f"p = {part.p_value:.2g})"
        for what, part in noticed
    ]
    return (
        f"Take care with that assumption: questions depend on who was asked. {' and '.join(parts)}. This is "
        "harmless if chance decided who got which questions (a subspace each, say), and misleading if people were "
        f"shown what they like: the correlation with it can be up to {max(part.bound for _, part in noticed):.2f}."
    )


def _times(ratio: float) -> str:
    return f"{ratio:.3g}" if ratio < 1000 or ratio >= 1e9 else f"{float(f'{ratio:.3g}'):,.0f}"


def _percent(share: float) -> str:
    """Return a share as a percentage that is 0 or 100 only if it is."""
    if 0.0 < share < 0.005:
        return "under 1 %"
    if 0.995 < share < 1.0 - 1e-9:
        return "over 99 %"
    return f"{100.0 * share:.0f} %"
