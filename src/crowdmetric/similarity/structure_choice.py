"""Which structure of a metric predicts judgements that it was not fitted to: about other items, or about the same.

Evidence counts every answer as independent given the metric. Where few items were asked about very often, that is
wrong: a rich metric then learns what is particular to those items, and does harm on others. So the structure, and how
strongly off-diagonal entries are shrunk toward zero, are chosen by *items left out*: items are dealt into groups, and
the questions about none of a group predict those about at least one. Where only the same items will ever be asked
about, questions are left out instead: there a metric may learn what is particular to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from crowdmetric.similarity.cone_step import ConeStep, regular
from crowdmetric.similarity.likelihood import AnswerModel
from crowdmetric.similarity.newton import ROUGH, SimilarityFit, fit_with_evidence, held_size, refined, refit
from crowdmetric.similarity.objective import SimilarityObjective
from crowdmetric.similarity.pair_choices import PairChoices
from crowdmetric.similarity.structures import STRUCTURES

__all__ = ["BETTER", "LEFT_OUT", "Candidate", "StructureChoice", "choose_structure", "left_out_items"]

Array = NDArray[np.float64]

# What may be left out in turn to choose a structure, and how a summary calls it.
LEFT_OUT = {"items": "judgements about items left out", "questions": "questions left out"}
# Structures, the simplest first.
SIMPLEST = ("identity", "diagonal", "full")
# Factors on the evidence's strength on off-diagonal entries, tried in turn while they help.
FACTORS = (1.0, 4.0, 16.0, 64.0)
# With fewer items per group than this, nothing can be learned about other items.
ITEMS_PER_GROUP = 2
# With fewer questions per group than this, nothing can be learned about other questions.
QUESTIONS_PER_GROUP = 2
# A fit without a group stops when a step would gain less than this per answer, in nats.
ENOUGH = 1e-5
# A richer structure must predict answers that were left out better by this much per answer, in nats.
BETTER = 1e-4
# A stronger ridge on off-diagonal entries is preferred if it predicts at most this much worse than the best, in nats
# per answer. (A standard error would not do as a limit: if answers are few it is large, and would allow a metric that
# is far from the best.)
CLOSE = 1e-3


@dataclass(frozen=True)
class Candidate:
    """A structure with its strengths, and how it did.

    Attributes
    ----------
    structure, factor
        Its name, and the factor on the evidence's strength on off-diagonal entries.
    score
        Mean log-likelihood of an answer that was left out; NaN if that cannot be found.
    log_evidence
        Of the fit to all answers.
    scores
        The same as `score`, for each group that was left out.
    """

    structure: str
    factor: float
    score: float
    log_evidence: float
    scores: tuple[float, ...] = ()

    def summary(self) -> str:
        """Return it in a few words."""
        stronger = "" if self.factor == 1.0 else f", ridge on off-diagonal entries {self.factor:g} times as strong"
        return f"{self.structure}{stronger}"


@dataclass(frozen=True)
class StructureChoice:
    """The chosen fit, and what it was chosen from.

    Attributes
    ----------
    objective, fit
        Of the chosen structure, on all answers.
    chosen
        Which of `candidates`.
    candidates
        Everything that was tried.
    left_out
        What was left out to decide, a key of `LEFT_OUT`; None if the evidence did.
    why_link
        Why the link is what it is, in one sentence; empty if it was given.
    """

    objective: SimilarityObjective
    fit: SimilarityFit
    chosen: Candidate
    candidates: tuple[Candidate, ...]
    left_out: str | None
    why_link: str = ""

    @classmethod
    def given(cls, objective: SimilarityObjective, fit: SimilarityFit) -> StructureChoice:
        """Return a structure that was asked for, not chosen."""
        chosen = Candidate(objective.structure.name, 1.0, float("nan"), fit.log_evidence)
        return cls(objective, fit, chosen, (), None)

    def summary_of_link(self, other: StructureChoice) -> str:
        """Return why the link of this choice was chosen, and not that of the other."""
        compared = {"squared": "squared distances", "distance": "distances"}[self.objective.likelihood.link]
        if self.left_out is None:
            return f"People are taken to compare {compared}: the evidence prefers it."
        scores = f"{self.chosen.score:.4f} against {other.chosen.score:.4f} nats per answer"
        about = LEFT_OUT[self.left_out]
        better = self.chosen.score - other.chosen.score > BETTER
        why = f"predicts {about} better" if better else f"is simpler, and predicts {about} as well"
        return f"People are taken to compare {compared}: that {why} ({scores})."

    @property
    def merit(self) -> float:
        """How well it predicts what was left out, or its evidence where nothing was."""
        return _merit(self.chosen)

    def summary(self) -> str:
        """Return what was chosen and why, in one sentence."""
        if not self.candidates:
            return f"The metric is {self.chosen.summary()}, as asked for."
        why = "the evidence prefers it" if self.left_out is None else f"it predicts {LEFT_OUT[self.left_out]} best"
        return f"The metric is {self.chosen.summary()}: {why}."


def left_out_items(questions: PairChoices, n_items: int, folds: int, seed: int) -> list[NDArray[np.bool_]]:
    """Return masks (N,) of the items to leave out in turn; none where the questions do not allow it."""
    used = np.unique(questions.pairs)
    if len(used) < ITEMS_PER_GROUP * folds:
        return []
    place = np.random.default_rng(seed).permutation(len(used)) % folds
    groups = []
    for fold in range(folds):
        group = np.zeros(n_items, dtype=bool)
        group[used[place == fold]] = True
        groups.append(group)
    splits = [questions.split_by_items(group) for group in groups]
    return groups if all(known.asked and new.asked for known, new in splits) else []


def choose_structure(
    items: Array,
    questions: PairChoices,
    likelihood: AnswerModel,
    *,
    names: Sequence[str] = tuple(STRUCTURES),
    left_out: str,
    folds: int,
    seed: int,
    tolerance: float,
    max_iterations: int,
) -> StructureChoice:
    """Return the best of some structures, the full one with the best ridge on off-diagonal entries.

    If there is one structure only, it is given, its ridge is the evidence's, and its score is found for other choices.
    """
    d = items.shape[1]
    splits = _splits(items, questions, left_out, folds, seed)
    best: tuple[Candidate, SimilarityObjective, SimilarityFit] | None = None
    tried: list[Candidate] = []
    for name in sorted(names, key=SIMPLEST.index):
        objective = SimilarityObjective(items, questions, likelihood, STRUCTURES[name](d))
        step = ConeStep(objective.structure, objective.covariance)
        enough = max(tolerance, ROUGH) if splits else tolerance
        fit = fit_with_evidence(objective, step=step, tolerance=enough, max_iterations=max_iterations)
        found = _candidates(objective, fit, splits, step, FACTORS if len(names) > 1 else FACTORS[:1])
        tried += [candidate for candidate, _ in found]
        candidate, strengths = _hardest_of_the_best(found)
        if best is None or _merit(candidate) > _merit(best[0]) + (BETTER if splits else 0.0):
            best = candidate, objective, replace(fit, strengths=strengths)
    assert best is not None
    chosen, objective, fit = best
    if splits:
        fit = refined(objective, fit, fit.strengths, tolerance=tolerance, max_iterations=max_iterations)
    return StructureChoice(objective, fit, chosen, tuple(tried) if len(names) > 1 else (), left_out if splits else None)


def _splits(
    items: Array, questions: PairChoices, left_out: str, folds: int, seed: int
) -> list[tuple[PairChoices, PairChoices]]:
    """Return what is learned from and what is left out, in turn; none where the questions do not allow it."""
    if left_out == "items":
        return [questions.split_by_items(group) for group in left_out_items(questions, len(items), folds, seed)]
    if questions.n_questions < QUESTIONS_PER_GROUP * folds:
        return []
    return questions.deal(folds, np.random.default_rng(seed))


def _candidates(
    objective: SimilarityObjective,
    fit: SimilarityFit,
    splits: list[tuple[PairChoices, PairChoices]],
    step: ConeStep,
    factors: tuple[float, ...],
) -> list[tuple[Candidate, tuple[float, ...]]]:
    """Return one structure with its strengths; the ridge on off-diagonal entries is raised while that helps."""
    found: list[tuple[Candidate, tuple[float, ...]]] = []
    starts = [fit.theta for _ in splits]
    for factor in factors if splits and len(fit.strengths) > 1 else (1.0,):
        strengths = (*fit.strengths[:1], *(factor * strength for strength in fit.strengths[1:]))
        scores, weights = _left_out_scores(objective, fit, strengths, starts, splits, step)
        score = float(np.average(scores, weights=weights)) if splits else float("nan")
        found.append((Candidate(objective.structure.name, factor, score, fit.log_evidence, tuple(scores)), strengths))
        if len(found) > 1 and score <= found[-2][0].score:
            break
    return found


def _hardest_of_the_best(
    found: list[tuple[Candidate, tuple[float, ...]]],
) -> tuple[Candidate, tuple[float, ...]]:
    """Return the candidate with the strongest ridge of those within one standard error of the best, and close to it."""
    best = max(found, key=lambda pair: _merit(pair[0]))
    for candidate, strengths in reversed(found):
        behind = np.subtract(best[0].scores, candidate.scores)
        if behind.size > 1 and behind.mean() <= min(CLOSE, behind.std(ddof=1) / np.sqrt(behind.size)):
            return candidate, strengths
    return best


def _merit(candidate: Candidate) -> float:
    return candidate.log_evidence if np.isnan(candidate.score) else candidate.score


def _left_out_scores(
    objective: SimilarityObjective,
    fit: SimilarityFit,
    strengths: tuple[float, ...],
    starts: list[Array],
    splits: list[tuple[PairChoices, PairChoices]],
    step: ConeStep,
) -> tuple[list[float], list[float]]:
    """Return the mean log-likelihood of the answers of each group left out, and how many there are.

    The size is that of the fit. Predictions are averaged over what the other answers leave open, as always.
    `starts` has where to begin for each group, and is given where the fit ended: the next strengths begin there.
    """
    scores, answers = [], []
    held = held_size(objective, fit)
    for place, (known, new) in enumerate(splits):
        enough = ENOUGH * known.n_answers
        theta, H = refit(objective.about(known), strengths, starts[place], step, held, tolerance=enough)
        starts[place] = theta
        answers.append(new.n_answers)
        root = np.linalg.inv(np.linalg.cholesky(regular(H))).T
        scores.append(-objective.about(new).log_loss(theta, root) / new.n_answers)
    return scores, answers
