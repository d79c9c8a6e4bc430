"""What would reveal more, with the least it takes.

Counts are the fewest people and answers with which S *can* reach full rank, by counting degrees of freedom:

    general position        a person with m > d answers adds at most m − d
    a subspace, dimension r a person with m > r answers adds at most m − r, a subspace at most r(r + 1)/2
    two parallel questions  a person adds at most 1

Answers are noisy, so an accurate metric takes many times as many people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from crowdmetric.symmetric import degrees_of_freedom

__all__ = ["Situation", "remedies"]


@dataclass(frozen=True)
class Situation:
    """What the advice depends on; the names are those of `Diagnosis`."""

    d: int
    dimensions: int
    rank: int
    span: int
    items: int
    people: int
    is_population: bool
    silent: int
    spare: int
    most_answers: int
    population_rank: int
    covariance: str
    ceiling: int | None
    suspicious: bool
    out_of_reach: str
    two_valued: Sequence[str]


def remedies(found: Situation) -> tuple[str, ...]:
    """Return sentences, what costs least first."""
    if found.rank >= found.dimensions:
        return ()
    sentences: list[str] = []
    if found.is_population and found.population_rank > found.rank:
        sentences.append(
            "Ask nothing more, if people may be taken as one population: PopulationMetric (covariance "
            f"'{found.covariance}') can then learn {found.population_rank:,} of {found.dimensions:,} degrees of "
            f"freedom instead of {found.rank:,}."
            + (" First make sure that chance decided who was asked what." if found.suspicious else "")
        )
    sentences += _judgements(found)
    sentences += _items(found)
    reachable = found.dimensions if found.ceiling is None else found.ceiling
    if found.span == found.d and found.rank < reachable:
        sentences += [sentence for _, sentence in sorted(_questions(found, reachable - found.rank))]
        sentences.append(
            "These are the fewest people with whom it is possible at all; real answers are noisy, and "
            "`crowdmetric plan` says how many make it accurate."
        )
    return tuple(sentences)


def _judgements(found: Situation) -> list[str]:
    """Return what judgements of similarity would reveal: with a known anchor nobody has to be placed.

    They compare squared distances, one degree of freedom per pair of items, except for their common scale.
    """
    reach = min(degrees_of_freedom(found.span), found.items * (found.items - 1) // 2 - 1)
    if reach <= found.rank:
        return []
    return [
        "Ask for judgements of similarity (which is more like this?), which do not depend on where people stand: "
        f"about these {found.items:,} items they can reveal up to {reach:,} of {found.dimensions:,} degrees of "
        "freedom; `crowdmetric design --judgements triplet` chooses them, SimilarityMetric learns from them."
    ]


def _items(found: Situation) -> list[str]:
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
        each = "each of them counts" if len(found.two_valued) > 1 else "it counts"
        sentences.append(
            f"Use items with more than two values of {_listed(found.two_valued)}: with two, how much {each} by itself "
            "cannot be distinguished from where people stand, unless people scatter equally in all directions."
        )
    return sentences or [
        "Ask about items that do not all satisfy one equation, as items of equal length do (normalized embeddings), or "
        "parts that add up to a whole: describe them without it (leave one of the parts out, or keep one direction "
        "fewer: crowdmetric fit --pca), or add other items."
    ]


def _questions(found: Situation, missing: int) -> list[tuple[int, str]]:
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
