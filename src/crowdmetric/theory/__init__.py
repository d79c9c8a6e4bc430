"""The paper's conditions and bounds as functions: when a metric can be learned, and how well.

Labels are those of the LaTeX source of "Metric Learning from Limited Pairwise Preference Comparisons". A pair of items
enters every statement as ``Δ ⊕ δ = (xxᵀ − x'x'ᵀ) ⊕ (x − x')``, a vector of ``p + d`` numbers, ``p = d(d+1)/2``.

    can m ≤ d answers teach anything?        has_generic_pairwise_relations, is_in_general_linear_position
    can items teach a subspace metric?       quadratically_spans, quadratic_span_rank
    can subspaces teach the whole metric?    is_subspace_clusterable, spans_symmetric, least_number_of_subspaces
    how well?                                smallest_singular_value, design_strength, reconstruction_bound,
                                             logistic_constants, subspace_recovery_bound
    what to ask?                             constructive_design, random_design, design_matrix

Ranks are decided in floating point: a singular value below 1e−10 of the largest counts as zero.

::

    position.py               items in general position
    spanning.py               quadratic spanning
    clusters.py               subspaces that can teach the whole metric
    recovery_bounds.py        how well a metric is recovered
    designs.py                designs with r + 1 answers per person
    pair_rows.py              the vectors Δ ⊕ δ of pairs of items
    arguments.py              checks of arguments
"""

from __future__ import annotations

from crowdmetric.theory.clusters import (
    is_subspace_clusterable,
    least_number_of_subspaces,
    smallest_singular_value,
    spans_symmetric,
)
from crowdmetric.theory.designs import constructive_design, design_matrix, design_strength, random_design
from crowdmetric.theory.position import GenericRelations, has_generic_pairwise_relations, is_in_general_linear_position
from crowdmetric.theory.recovery_bounds import (
    LinkConstants,
    logistic_constants,
    reconstruction_bound,
    subspace_recovery_bound,
)
from crowdmetric.theory.spanning import quadratic_span_rank, quadratically_spans

__all__ = [
    "GenericRelations",
    "LinkConstants",
    "constructive_design",
    "design_matrix",
    "design_strength",
    "has_generic_pairwise_relations",
    "is_in_general_linear_position",
    "is_subspace_clusterable",
    "least_number_of_subspaces",
    "logistic_constants",
    "quadratic_span_rank",
    "quadratically_spans",
    "random_design",
    "reconstruction_bound",
    "smallest_singular_value",
    "spans_symmetric",
    "subspace_recovery_bound",
]
