"""The verdict: everything that was found, as values and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.identifiability.assignment import Assignment, Dependence
from crowdmetric.identifiability.examples import ItemPair, percent
from crowdmetric.identifiability.person_spans import REASONS
from crowdmetric.symmetric import degrees_of_freedom

__all__ = ["Diagnosis"]

Array = NDArray[Any]

# Fewer people than this do not count as a population.
FEWEST_PEOPLE = 5
# Below this share of a distance, its unknown part is not mentioned.
NOTICEABLE = 0.005


@dataclass(frozen=True)
class Diagnosis:
    """What answers to some questions can reveal of a metric.

    Attributes
    ----------
    identified
        Whether all of the metric can be learned if nothing is assumed about people.
    rank, dimensions
        Degrees of freedom that the answers then reveal, and how many there are, d(d+1)/2. Beyond 200 features `rank` is
        what is certain.
    rank_bounds, confidence
        Least and largest rank that the data leave possible, and how sure that is; the two are equal and the sentence is
        empty if the rank was computed exactly.
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
        How many people there are, how many of them add nothing to `rank`, and why.
    answers, most_answers, spare
        All answers, those of the busiest person, and answers to spare: beyond the number of independent questions of
        their person, summed over people who add something to `rank`, which is at most that. A tie is one answer.
    d, span, items
        Features, dimension of what the differences of compared items span, and how many items were shown.
    covariance
        The law of people that the population's verdict is about: 'isotropic' or 'free', as in `PopulationMetric`.
    population_rank, population_bounds, population_confidence, population_out_of_reach
        The same for people who come from one population with this law and were not asked about items chosen for their
        taste. The ranks are those of the expected information about M at a reference law (`identifiability.law`).
    population_condition, population_hardest
        How many times more that information is in the easiest direction than in the hardest (NaN if there is none), and
        the hardest direction in words (empty if no entry of M stands out).
    free_rank, free_out_of_reach
        The same if people may scatter in any way.
    assignment
        Whether questions depend on who is asked.
    ceiling, ceiling_out_of_reach
        Degrees of freedom that the best questionnaire about these items could reveal unless people scatter equally in
        all directions, None if it was not computed, and what it could not reveal.
    two_valued
        Features that take two values only.
    features, item_ids
        Names, None if none were given.
    cut
        What the answers are if they were cut from choices, rankings or ratings, in a sentence.
    relations
        Features that follow from others, such as 'total is price + size: drop one'.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdmetric.identifiability import diagnose
    >>> items = np.random.default_rng(0).normal(size=(10, 2))
    >>> found = diagnose(items, [[0, 1], [2, 3], [4, 5]] * 4, np.repeat(np.arange(4), 3))
    >>> found.identified, found.rank
    (False, 1)
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
    covariance: str
    population_rank: int
    population_bounds: tuple[int, int]
    population_confidence: str
    population_out_of_reach: str
    population_condition: float
    population_hardest: str
    free_rank: int
    free_out_of_reach: str
    assignment: Assignment
    ceiling: int | None
    ceiling_out_of_reach: str
    two_valued: tuple[int, ...]
    features: Sequence[str] | None
    item_ids: Sequence[Any] | Array | None
    cut: str = ""
    relations: tuple[str, ...] = ()

    def summary(self) -> str:
        """Return the verdict in plain words, with the remedies, cheapest first."""
        related = [f"{text[:1].upper()}{text[1:]}." for text in self.relations]
        lines = [
            self._verdict(),
            *related,
            *filter(None, [self.cut]),
            *self._people(),
            *self._distances(),
            *self._ceiling(),
            *self._population(),
        ]
        found = self.remedies()
        if found:
            lines += ["", "What would help, cheapest first:", *(f"- {remedy}" for remedy in found)]
        return "\n".join(lines)

    def remedies(self) -> tuple[str, ...]:
        """Return what would reveal more, cheapest first; nothing if everything is revealed."""
        return _remedies(self)

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
                "covariance": self.covariance, "hardest": self.population_hardest,
                "condition": None if np.isnan(self.population_condition) else self.population_condition,
                "free": {"rank": self.free_rank, "out_of_reach": self.free_out_of_reach},
            },
            "assignment": {
                "testable": self.assignment.testable, "suspicious": self.assignment.suspicious,
                "people": self.assignment.people, "questions": self.assignment.questions,
                "midpoints": self._dependence(self.assignment.midpoints),
                "differences": self._dependence(self.assignment.differences),
            },
            "ceiling": self.ceiling, "ceiling_out_of_reach": self.ceiling_out_of_reach,
            "two_valued": [self._feature(j) for j in self.two_valued],
            "made_of": self.cut, "relations": list(self.relations),
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

    @property
    def _all(self) -> str:
        return "its one degree of freedom" if self.dimensions == 1 else f"all {self.dimensions:,} degrees of freedom"

    def _some(self, low: int, high: int) -> str:
        """Return ``all 6 degrees of freedom``, ``5 of 6 degrees …``, ``4 to 5 of 6 …``, ``at least 4 of 6 …``."""
        if low == self.dimensions:
            return self._all
        many = f"{low:,}" if low == high else f"at least {low:,}" if high == self.dimensions else f"{low:,} to {high:,}"
        return f"{many} of {self.dimensions:,} degrees of freedom"

    def _verdict(self) -> str:
        sure = f" ({self.confidence})" if self.confidence else ""
        if self.identified:
            return f"These answers can teach the whole metric: {self._all}, whoever the people are{sure}."
        if self.rank_bounds == (0, 0):
            more = self.people >= FEWEST_PEOPLE and self.population_bounds[0] > 0
            instead = f"; if people are one population, they can teach {self._some(*self.population_bounds)}"
            return (
                "These answers can teach nothing about the metric if nothing is assumed about people"
                f"{instead if more else ''}."
            )
        low, high = self.rank_bounds
        many = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        named = _named(self.out_of_reach, ", for example,")
        return (
            f"These answers can teach {many} of {self.dimensions:,} degrees of freedom of the metric, "
            f"whoever the people are{sure}{named}."
        )

    def _people(self) -> list[str]:
        lines = []
        if self.silent:
            who = f"{self.silent:,} of {self.people:,} people ({percent(self.silent / self.people)})"
            lines.append(
                f"{who if self.people > 1 else 'The one person'} gave answers that their own position can fully "
                "explain, which count only if something is assumed about people:"
            )
            lines += [f"- {count:,}: {REASONS[reason]}." for reason, count in self.silent_reasons.items() if count]
        if self.rank > 1:
            ratio = self.largest / self.smallest
            least = "at least" if self.confidence else "about"  # an estimate of `smallest` errs upwards
            lines.append(
                f"Whoever the people are, the hardest direction that can be learned takes {least} {_times(ratio)} "
                "times as many answers as the easiest."
            )
        return lines

    def _distances(self) -> list[str]:
        if self.rank == 0 or not self.examples:
            return []
        if self.examples[0].unknown < NOTICEABLE:
            return ["No distance between the items shown depends on what is out of reach."]
        shown = "; ".join(
            f"{self._item(e.left)} and {self._item(e.right)} ({percent(e.unknown)})"
            for e in self.examples
            if e.unknown >= NOTICEABLE
        )
        return [
            f"If nothing is assumed about people, {percent(self.unknown_distance)} of the distance between two items "
            f"is unknown on average; most between the items {shown}."
        ]

    def _ceiling(self) -> list[str]:
        if self.ceiling is None or self.ceiling == self.dimensions:
            return []
        # the spread of people can reveal M on the span of the items, sometimes up to its size only
        # (`identifiability.law`)
        by_spread = max(degrees_of_freedom(self.span) - 1, self.population_bounds[1] * (self.covariance != "free"))
        start = "Unless people scatter equally in all directions, no" if by_spread > self.ceiling else "No"
        if self.ceiling == self.rank_bounds[1]:
            many = "more than that" if self.ceiling else "anything"
            end = f"could ever teach {many}, however many people answer."
        else:
            named = _named(self.ceiling_out_of_reach, " always")
            end = (
                f"could ever teach more than {self.ceiling:,} of {self.dimensions:,} degrees of freedom, however many "
                f"people answer{named}."
            )
        return [f"{start} questions about these {self.items:,} items {end}"]

    def _population(self) -> list[str]:
        if self.people == 1:
            return []
        safe = "" if self.cut else self.assignment.sentence(self._feature)
        if self.identified:
            return [
                "This needs no assumption about people. To take them as one population (PopulationMetric) can still "
                "make the metric more accurate.",
                *filter(None, [safe]),
            ]
        few = [f"But {self.people} people are too few to be taken as one population."]
        return [*self._law(), *self._free(), *(few if self.people < FEWEST_PEOPLE else []), *filter(None, [safe])]

    def _law(self) -> list[str]:
        """Return what a population with the law `covariance` reveals."""
        round_people = "" if self.covariance == "free" else ", scatter equally in all directions"
        start = (
            f"If people come from one population{round_people} and were not asked about what they like "
            f"(PopulationMetric, covariance '{self.covariance}'), the answers can teach"
        )
        if self.population_bounds[0] == 0:
            if self.population_bounds[1] == 0:
                return [f"{start} nothing either."]
            return [f"{start} at most {self.population_bounds[1]:,} degrees of freedom ({self.population_confidence})."]
        sure = f" ({self.population_confidence})" if self.population_confidence else ""
        no_more = " and no more" if self.population_bounds == self.rank_bounds else ""
        named = _named(self.population_out_of_reach)
        lines = [f"{start} {self._some(*self.population_bounds)}{no_more}{sure}{named}."]
        if self.population_rank > 1:
            which = f", {self.population_hardest}," if self.population_hardest else ""
            lines.append(
                f"The hardest direction{which} then takes about {_times(self.population_condition)} times as many "
                "answers as the easiest."
            )
        return lines

    def _free(self) -> list[str]:
        """Return what is lost if people may scatter in any way."""
        if self.covariance == "free" or self.population_bounds[0] == 0:
            return []
        if self.free_rank >= self.population_bounds[0]:
            return ["The same holds if people may scatter in any way (covariance 'free')."]
        start = "If people may scatter in any way (covariance 'free'), the answers can teach"
        if self.free_rank == self.rank_bounds[1]:
            return [f"{start} no more than if nothing is assumed about people."]
        named = _named(self.free_out_of_reach)
        return [f"{start} {self._some(self.free_rank, self.free_rank)}{named}."]


def _named(out_of_reach: str, how: str = "") -> str:
    """Return a clause on entries of M that are out of reach, each followed by how unknown it is; empty if none are."""
    several = out_of_reach.count(" unknown)") > 1
    return f"; out of reach {'are' if several else 'is'}{how} {out_of_reach}" if out_of_reach else ""


def _times(ratio: float) -> str:
    return f"{ratio:.3g}" if ratio < 1000 or ratio >= 1e9 else f"{float(f'{ratio:.3g}'):,.0f}"


def _remedies(found: Diagnosis) -> tuple[str, ...]:
    """Return what would reveal more, with the least it takes, as sentences; what costs least comes first.

    Counts are the fewest people and answers with which S *can* reach full rank, by counting degrees of freedom:

        general position        a person with m > d answers adds at most m − d
        a subspace, dimension r a person with m > r answers adds at most m − r, a subspace at most r(r + 1)/2
        two parallel questions  a person adds at most 1

    Answers are noisy, so an accurate metric takes many times as many people.
    """
    rank = found.rank_bounds[0]  # what is certain
    if rank >= found.dimensions:
        return ()
    sentences: list[str] = []
    population_rank = found.population_bounds[0]
    if found.people >= FEWEST_PEOPLE and population_rank > rank:
        sentences.append(
            "Ask nothing more, if people may be taken as one population: PopulationMetric (covariance "
            f"'{found.covariance}') can then learn {population_rank:,} of {found.dimensions:,} degrees of "
            f"freedom instead of {rank:,}."
            + (" First make sure that chance decided who was asked what." if found.assignment.suspicious else "")
        )
    sentences += _judgements(found)
    sentences += _items(found)
    reachable = found.dimensions if found.ceiling is None else found.ceiling
    if found.span == found.d and rank < reachable:
        sentences += [sentence for _, sentence in sorted(_questions(found, reachable - rank))]
        sentences.append(
            "These are the fewest people with whom it is possible at all; real answers are noisy, and "
            "`crowdmetric plan` says how many make it accurate."
        )
    return tuple(sentences)


def _judgements(found: Diagnosis) -> list[str]:
    """Return what judgements of similarity would reveal: with a known anchor nobody has to be placed.

    They compare squared distances, one degree of freedom per pair of items, except for their common scale.
    """
    reach = min(degrees_of_freedom(found.span), found.items * (found.items - 1) // 2 - 1)
    if reach <= found.rank_bounds[0]:
        return []
    return [
        "Ask for judgements of similarity (which is more like this?), which do not depend on where people stand: "
        f"about these {found.items:,} items they can reveal up to {reach:,} of {found.dimensions:,} degrees of "
        "freedom; `crowdmetric design --judgements triplet` chooses them, SimilarityMetric learns from them."
    ]


def _items(found: Diagnosis) -> list[str]:
    """Return what is wrong with the items themselves."""
    sentences = []
    needed = 1 + found.d + found.dimensions
    if found.span < found.d:
        sentences.append(
            f"Compared items differ in {found.span} of {found.d} dimensions only: compare items that differ in the "
            f"others, or {_in_fewer(found.span)}."
        )
    if found.items < needed:
        fewer = max(k for k in range(found.d) if 1 + k + degrees_of_freedom(k) <= found.items)
        less = f", or describe items by at most {fewer} feature{'s' if fewer > 1 else ''}" if fewer else ""
        sentences.append(
            f"Ask about more items: {found.items:,} cannot pin down a metric in {found.d} dimensions unless people "
            f"scatter equally in all directions; it takes {needed:,} at least{less}."
        )
    if found.ceiling is None or found.ceiling == found.dimensions:
        return sentences
    if found.two_valued:
        names = [found._feature(j) for j in found.two_valued]
        each = "each of them counts" if len(names) > 1 else "it counts"
        sentences.append(
            f"Use items with more than two values of {_listed(names)}: with two, how much {each} by itself "
            "cannot be distinguished from where people stand, unless people scatter equally in all directions."
        )
    return sentences or [
        "Ask about items that do not all satisfy one equation, as items of equal length do (normalized embeddings), or "
        "parts that add up to a whole: describe them without it (leave one of the parts out, or keep one direction "
        "fewer: crowdmetric fit --pca), or add other items."
    ]


def _questions(found: Diagnosis, missing: int) -> list[tuple[int, str]]:
    """Return ways to ask for what is missing, each with the fewest new answers it takes."""
    d, p, m = found.d, found.dimensions, max(2, found.most_answers)
    ways = [
        (
            2 * missing,
            "Ask pairs of parallel questions, two per person with the same difference between the items: at least "
            f"{_people(missing)} more ({2 * missing:,} answers); `crowdmetric design` finds them, MatchedMetric "
            "learns from them.",
        )
    ]
    if m <= d:
        r = m - 1
        subspaces, each = ceil(p / degrees_of_freedom(r)), degrees_of_freedom(r)  # everybody adds m − r = 1
        kind = "a line" if r == 1 else f"a subspace of {r} dimensions"
        ways.append(
            (
                subspaces * each * m,
                f"With {m} answers per person, ask each about items in {kind} (items that differ in {r} independent "
                f"way{'s' if r > 1 else ''}): at least {subspaces:,} such subspaces with {_people(each)} each "
                f"({subspaces * each * m:,} answers).",
            )
        )
        several = ceil(missing / d)
        ways.append(
            (
                2 * d * several,
                f"Ask more of each person: the most that anybody answers is {found.most_answers}, and items in general "
                f"position need more than {d}; for instance {2 * d} answers from at least {_people(several)} "
                f"({2 * d * several:,} answers).",
            )
        )
    elif found.spare >= 2 * p:
        ways.append(
            (
                0,
                f"There are enough answers ({found.spare:,} to spare), but not about everything: ask people about "
                f"items that {_differ_in(found.out_of_reach)}.",
            )
        )
    elif found.people > found.silent:
        each_adds = found.spare / (found.people - found.silent)
        more = ceil(missing / each_adds)
        ways.append(
            (
                more * m,
                f"Ask more people, or the same people about other items: one who adds something now adds "
                f"{each_adds:.3g} degrees of freedom at most, so at least {_people(more)} more like them.",
            )
        )
    return ways


def _in_fewer(span: int) -> str:
    return {0: "use other items", 1: "describe items by 1 feature"}.get(
        span, f"describe items by at most {span} features"
    )


def _differ_in(out_of_reach: str) -> str:
    return f"bear on {out_of_reach}" if out_of_reach else "differ in other ways"


def _people(count: int) -> str:
    return "1 person" if count == 1 else f"{count:,} people"


def _listed(names: Sequence[str], most: int = 5) -> str:
    shown = list(names[:most]) + ([f"{len(names) - most} more"] if len(names) > most else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
