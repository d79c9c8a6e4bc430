"""What similarity judgements can teach, before any fit.

A judgement compares squared distances of pairs, and those are linear in M: ``⟨svec δδᵀ, svec M⟩``. The anchor is known,
so that no person has to be placed first, and the degrees of freedom of M that questions reveal are the rank of the
p × p information at equal distances, ``S = Fᵀ Lap F`` (`crowdmetric.similarity.objective`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.errors import DataError
from crowdmetric.inputs import check_items
from crowdmetric.judgements import Judgements
from crowdmetric.preprocess import spreads_of
from crowdmetric.similarity.likelihood import AnswerModel
from crowdmetric.similarity.objective import SimilarityObjective
from crowdmetric.similarity.pair_choices import questions_of
from crowdmetric.similarity.structures import Full
from crowdmetric.symmetric import degrees_of_freedom, describe_direction
from crowdmetric.tables import ids_of, matched

__all__ = ["MOST_DIAGNOSED", "JudgementDiagnosis", "diagnose_judgements"]

Array = NDArray[np.float64]

# Eigenvalues of the scaled information below this share of the largest count as zero.
NONE = 1e-9
# Maximum number of degrees of freedom for which the information is decomposed.
MOST_DIAGNOSED = 3_000
MOST_NAMED = 3


@dataclass(frozen=True)
class JudgementDiagnosis:
    """What judgements can teach about a metric.

    Attributes
    ----------
    rank, dimensions : int
        Degrees of freedom that they reveal, of how many.
    smallest : float
        Of the scaled information, the smallest eigenvalue that is not zero relative to the largest.
    unidentified_directions : (q, p) array
        svec directions that no judgement sees.
    checks : str
        What the check questions say; empty if there are none.
    features : tuple of str or None
    """

    rank: int
    dimensions: int
    smallest: float
    unidentified_directions: Array
    checks: str
    features: tuple[str, ...] | None = None

    @property
    def identified(self) -> bool:
        """Whether everything about the metric can be learned."""
        return self.rank == self.dimensions

    def summary(self) -> str:
        """Return the verdict in a few lines."""
        lines = [f"The judgements reveal {self.rank} of {self.dimensions} degrees of freedom of the metric."]
        if self.identified:
            lines.append("The whole metric can be learned from them, whoever answered.")
        else:
            seen = [describe_direction(v, names=self.features) for v in self.unidentified_directions[:MOST_NAMED]]
            lines.append(f"Not seen by any of them: {'; '.join(seen)}.")
            lines.append(
                "Remedy: judge more items (features that are sums of others stay unseen), leave out features that "
                "others determine, or choose structure='diagonal'."
            )
        return "\n".join([*lines, f"Checks: {self.checks}."] if self.checks else lines)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the directions as plain Python values, for JSON."""
        return {
            "identified": self.identified,
            "rank": self.rank,
            "dimensions": self.dimensions,
            "smallest": self.smallest,
            "checks": self.checks,
        }


def diagnose_judgements(
    items: Any, judgements: Judgements, *, features: Sequence[str] | None = None
) -> JudgementDiagnosis:
    """Return what judgements about items (N, d) can teach about a full metric."""
    X = check_items(items)
    judgements = matched(judgements, ids_of(items), len(X))
    p = degrees_of_freedom(X.shape[1])
    if p > MOST_DIAGNOSED:
        raise DataError(
            f"items have {X.shape[1]} features, and a metric of them {p:,} degrees of freedom; at most "
            f"{MOST_DIAGNOSED:,} are supported: reduce the features first (ItemMap(components=…))"
        )
    X = (X - X.mean(axis=0)) / spreads_of(X)
    objective = SimilarityObjective(X, questions_of([judgements]), AnswerModel(), Full(X.shape[1]))
    S = objective.curvature(np.zeros(p))
    scale = 1.0 / np.sqrt(np.maximum(np.diag(S), 1e-300))
    values, vectors = np.linalg.eigh(S * scale[:, None] * scale)
    seen = values > NONE * max(float(values[-1]), 1e-300)
    assert judgements.checks is not None
    return JudgementDiagnosis(
        int(seen.sum()), p, float(values[seen][0] / values[-1]) if seen.any() else 0.0, vectors[:, ~seen].T,
        judgements.checks.summary() if judgements.checks.asked.any() else "",
        None if features is None else tuple(features),
    )  # fmt: skip
