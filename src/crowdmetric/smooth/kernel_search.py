"""Which kernels the answers leave possible: structures of the metric and shapes, each fitted, compared by the evidence.

Where people are many, kernels are first fitted to some of them, and go on with four times as many at a time. A
structure that asks for many parameters pays for them once and gains with every person. So a kernel is left behind on a
part of the people only if it is out of the question there and, by what its likelihood gains per person, would be among
all of them. The kernels that are left at the end are compared on everybody, and each has the probability that its
evidence gives it.

Shapes are tried with the structure that is the best so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdmetric.smooth.ahead import AGAIN, ANEW, Ahead
from crowdmetric.smooth.covariances import Covariances
from crowdmetric.smooth.evidence import SmoothFit, fit_evidence, go_on, log_evidence, number_determined
from crowdmetric.smooth.inducing import InducedCovariances
from crowdmetric.smooth.people_blocks import DistinctAnswers, PeopleBlock, arrange, some_people

__all__ = ["LEAST_PROBABLE", "Candidates", "FoundKernels", "Kernel", "find_kernels", "go_on_with"]

Array = NDArray[Any]
Indices = NDArray[np.intp]

# Least work of people (`people_blocks.work_of`, summed over them) for which it pays to begin with some of them, and the
# tolerance there in nats. Where the work of all items is more, leaving people out saves nothing.
SEARCH_WORK, SEARCH_TOLERANCE = 2e6, 0.2
# Factor between the sizes of the parts of the crowd that are fitted in turn. The whole crowd comes after a part that is
# at most three quarters of it.
GROWTH, LARGEST_PART = 4.0, 0.75
# A kernel that is less probable than this times the best one, given the answers, does not count.
LEAST_PROBABLE = 0.01


class Kernel(NamedTuple):
    """A structure of the metric (`kernel_metrics`), and how covariances fall with distance (`kernel.SHAPES`)."""

    structure: str
    shape: str


@dataclass(frozen=True)
class Candidates:
    """What is tried.

    Attributes
    ----------
    path, structures : tuple of str
        Structures to fit, each from the end of the one before, and those of them that are compared.
    shapes : tuple of str
    family : function of a Kernel
        Its covariances.
    tolerance : float
        Of the fits to everybody, in nats.
    max_steps : int
    """

    path: tuple[str, ...]
    structures: tuple[str, ...]
    shapes: tuple[str, ...]
    family: Callable[[Kernel], Covariances]
    tolerance: float
    max_steps: int


@dataclass(frozen=True)
class FoundKernels:
    """Kernels that the answers leave possible, the most probable first.

    Attributes
    ----------
    fits : dict
        To everybody, by kernel.
    weights : (k,)
        Probabilities of the kernels, one in all.
    evidence : dict
        Log evidence of every kernel that was tried. One that was left behind on a part of the people is as far below
        the best as it was there.
    """

    fits: dict[Kernel, SmoothFit]
    weights: Array
    evidence: dict[Kernel, float]


def find_kernels(candidates: Candidates, Z: Array, answers: DistinctAnswers, ahead: Ahead) -> FoundKernels:
    """Return the kernels under which the answers (about items Z) are probable, each fitted to everybody."""
    first = candidates.family(Kernel(candidates.path[0], candidates.shapes[0]))
    sharing = len(first.inducing) if isinstance(first, InducedCovariances) else len(Z)
    parts = _parts(answers, max(SEARCH_WORK, float(sharing) ** 3))
    kernels = len(candidates.path) + len(candidates.shapes) - 1
    for number, some in enumerate(parts):
        ahead.expect((AGAIN if number else ANEW) * kernels, some.size / parts[-1].size)
    fits: dict[Kernel, SmoothFit] = {}
    behind: dict[Kernel, float] = {}
    evidence: dict[Kernel, float] = {}
    for number, some in enumerate(parts):
        last, more = number == len(parts) - 1, parts[-1].size / some.size
        part = _SomePeople(
            candidates, Z, arrange(answers.of(some), len(Z)), 1.0 / more,
            candidates.tolerance if last else max(candidates.tolerance, SEARCH_TOLERANCE), ahead,
        )  # fmt: skip
        if number == 0:
            fits = part.structures()
        else:
            fits = {
                kernel: part.further(kernel, fit, some.size / parts[number - 1].size) for kernel, fit in fits.items()
            }
        best = max(fits, key=lambda kernel: _expected(fits[kernel], more))
        for kernel in (Kernel(best.structure, shape) for shape in candidates.shapes):
            if kernel not in fits and kernel not in behind:
                fits[kernel] = part.fitted(kernel, fits[best])
        evidence = {kernel: log_evidence(fit) for kernel, fit in fits.items()}
        expected = {kernel: _expected(fit, more) for kernel, fit in fits.items()}
        for kernel in list(fits):
            gap = min(max(found.values()) - found[kernel] for found in (evidence, expected))
            if gap > -log(LEAST_PROBABLE):
                behind[kernel] = gap
                del fits[kernel]
    return _weighed(fits, evidence, behind)


def go_on_with(
    ends: dict[Kernel, SmoothFit], candidates: Candidates, Z: Array, answers: DistinctAnswers, ahead: Ahead
) -> FoundKernels:
    """Return the same kernels fitted to other answers, from where they ended before."""
    ahead.expect(AGAIN * len(ends))
    part = _SomePeople(candidates, Z, arrange(answers, len(Z)), 1.0, candidates.tolerance, ahead)
    fits = {kernel: part.further(kernel, end, 1.0) for kernel, end in ends.items()}
    return _weighed(fits, {kernel: log_evidence(fit) for kernel, fit in fits.items()}, {})


def _parts(answers: DistinctAnswers, work: float) -> list[Indices]:
    """Return people: some whose work is small, four times as many at a time, and everybody."""
    everybody, parts = np.unique(answers.person), list[Indices]()
    while (some := some_people(answers, work)).size <= LARGEST_PART * everybody.size:
        if not parts or some.size > parts[-1].size:
            parts.append(some)
        work *= GROWTH
    return [*parts, everybody]


@dataclass(frozen=True)
class _SomePeople:
    """Fits to some of the people: `share` of all."""

    candidates: Candidates
    Z: Array
    blocks: list[PeopleBlock]
    share: float
    tolerance: float
    ahead: Ahead

    def structures(self) -> dict[Kernel, SmoothFit]:
        """Return a fit of every structure to compare, with the first shape."""
        fits: dict[Kernel, SmoothFit] = {}
        before: SmoothFit | None = None
        for structure in self.candidates.path:
            kernel = Kernel(structure, self.candidates.shapes[0])
            before = self.fitted(kernel, before)
            if structure in self.candidates.structures:
                fits[kernel] = before
        return fits

    def fitted(self, kernel: Kernel, before: SmoothFit | None) -> SmoothFit:
        """Return the fit of a kernel, from the end of another to the same people."""
        self._begin(kernel, ANEW)
        family = self.candidates.family(kernel)
        start = inverse = sites = None
        if before is not None:
            same = before.family.structure == family.structure
            start, inverse = (
                (before.theta, before.inverse) if same else (family.like(before.family, before.theta), None)
            )
            sites = before.propagation.keep()
        return fit_evidence(
            family, self.Z, self.blocks, start=start, inverse=inverse, sites=sites, tolerance=self.tolerance,
            max_steps=self.candidates.max_steps, ahead=self.ahead,
        )  # fmt: skip

    def further(self, kernel: Kernel, end: SmoothFit, more: float) -> SmoothFit:
        """Return the fit of a kernel from its end among fewer people, or with other answers."""
        self._begin(kernel, AGAIN)
        return go_on(
            end, self.Z, self.blocks, more, tolerance=self.tolerance, max_steps=self.candidates.max_steps,
            ahead=self.ahead,
        )  # fmt: skip

    def _begin(self, kernel: Kernel, evaluations: float) -> None:
        among = "" if self.share == 1.0 else f" among {100.0 * self.share:.0f} % of the people"
        self.ahead.begin(f"kernel {kernel.structure}, {kernel.shape}{among}", evaluations, self.share)


def _expected(fit: SmoothFit, more: float) -> float:
    """Return the log evidence to be expected of `more` times as many people.

    By the likelihood, without the half nat by which every parameter that the answers determine has raised it.
    """
    gain = fit.log_likelihood - 0.5 * number_determined(fit)
    return log_evidence(fit) + (more - 1.0) * gain


def _weighed(fits: dict[Kernel, SmoothFit], evidence: dict[Kernel, float], behind: dict[Kernel, float]) -> FoundKernels:
    """Return the kernels that count, with their probabilities."""
    best = max(evidence[kernel] for kernel in fits)
    odds = {kernel: exp(evidence[kernel] - best) for kernel in fits}
    order = sorted((kernel for kernel in fits if odds[kernel] > LEAST_PROBABLE), key=lambda kernel: -odds[kernel])
    weights = np.array([odds[kernel] for kernel in order])
    all_of_them = {kernel: best - gap for kernel, gap in behind.items()} | {k: evidence[k] for k in fits}
    return FoundKernels({kernel: fits[kernel] for kernel in order}, weights / weights.sum(), all_of_them)
