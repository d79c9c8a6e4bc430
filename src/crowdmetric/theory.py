"""The paper's conditions and bounds as functions: when a metric can be learnt, and how well.

Labels are those of the LaTeX source of "Metric Learning from Limited Pairwise Preference Comparisons". A pair of items
enters every statement as ``Δ ⊕ δ = (xxᵀ − x'x'ᵀ) ⊕ (x − x')``, a vector of ``p + d`` numbers, ``p = d(d+1)/2``.

    can m ≤ d answers teach anything?        has_generic_pairwise_relations, is_in_general_linear_position
    can items teach a subspace metric?       quadratically_spans, quadratic_span_rank
    can subspaces teach the whole metric?    is_subspace_clusterable, spans_symmetric, least_number_of_subspaces
    how well?                                smallest_singular_value, design_strength, reconstruction_bound,
                                             logistic_constants, subspace_recovery_bound
    what to ask?                             constructive_design, random_design, design_matrix

Ranks are decided in floating point: a singular value below 1e−10 of the largest counts as zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product
from math import comb, exp, inf, isfinite, log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr

from crowdmetric.errors import DataError, NotIdentifiedError
from crowdmetric.solvers.rows import DENSE_UNKNOWNS
from crowdmetric.subspace_map import Matrices, SubspaceMap
from crowdmetric.symmetric import degrees_of_freedom, outer_difference
from crowdmetric.users.projected import RANK_TOLERANCE

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

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Edges = tuple[tuple[int, int], ...]

# Up to this many graphs are all looked at, which takes seconds; beyond, some are drawn.
EXACT_GRAPHS = 200_000
# Unit differences are dependent if the smallest singular value of their matrix is below this. Random items come so
# near to dependence by chance about once in 10¹¹ graphs; coordinates are rounded to 10⁻¹⁶ of their size.
DEPENDENT = 1e-11
# An item further than this share of its length from a subspace is not in it.
INSIDE = 1e-8
# Numbers in one temporary.
CHUNK = 1 << 20


# ------------------------------------------------------------------------------------------- general position


@dataclass(frozen=True)
class GenericRelations:
    """Whether items are in general position, and how sure that is.

    Attributes
    ----------
    condition
        What was asked: "generic pairwise relations" or "general linear position".
    holds
        The verdict.
    exact
        Whether the verdict is certain (up to rounding): all graphs were looked at, or a counterexample was found.
    checked
        How many graphs were looked at.
    counterexample
        A smallest dependent set of differences, as pairs of item numbers; None if none was found.
    """

    condition: str
    holds: bool
    exact: bool
    checked: int
    counterexample: Edges | None

    @property
    def confidence(self) -> str:
        """How sure the verdict is, in words."""
        if self.counterexample is not None:
            return "certain: the counterexample proves it"
        if self.exact:
            return f"certain: all cases ({self.checked:,}) were looked at"
        share = 1.0 - 0.05 ** (1.0 / self.checked)
        return (
            f"not certain: none of {self.checked:,} graphs drawn at random is dependent, so with 95 % confidence fewer "
            f"than {share:.2g} of such draws are; rare exceptions may have been missed"
        )

    def summary(self) -> str:
        """Return the verdict, its certainty and the counterexample in plain words."""
        verdict = "have" if self.holds else "do not have"
        if self.condition == "general linear position":
            verdict = "are in" if self.holds else "are not in"
        lines = [f"The items {verdict} {self.condition}{'' if self.exact else ', as far as seen'}.", self.confidence]
        if self.counterexample is not None:
            edges = ", ".join(f"x[{i}] − x[{j}]" for i, j in self.counterexample)
            lines.append(f"linearly dependent: {edges}")
        return "\n".join(lines)


def has_generic_pairwise_relations(items: ArrayLike, *, trials: int = 1000, seed: int = 0) -> GenericRelations:
    """Say whether any d lines through pairs of items are independent (`def:pairwise-generic`).

    Items have *generic pairwise relations* if for every acyclic graph on them with at most d edges the differences
    ``{x − x' : (x, x') an edge}`` are linearly independent. Almost all finite sets have (`prop:generic-as`); a
    parallelogram has not (`example:not-generic-pairwise`). If items have, then m ≤ d answers a person reveal
    nothing of the metric, however many people answer (`thm:negative-result`).

    Every acyclic graph with at most d edges is part of one with ``k = min(d, N − 1)`` edges, and the span of its
    differences depends only on which items it connects. So one forest is looked at for each partition of the N items
    into N − k groups: the Stirling number S(N, N − k) of them. Up to 200,000 (N = 632 for d = 1, 37 for d = 2, 9 for
    d = 7, any N ≤ d + 1) all are looked at. Beyond, equal items are searched for, then `trials` forests are drawn, each
    by adding uniformly random edges that close no cycle.

    Parameters
    ----------
    items
        (N, d) vectors.
    trials
        How many graphs are drawn where there are too many to look at all.
    seed
        Of the draws.
    """
    X = _check_items(items)
    N, k = X.shape[0], min(X.shape[1], X.shape[0] - 1)
    few = _partitions(N, k) <= EXACT_GRAPHS
    rng = np.random.default_rng(seed)
    drawn = (_random_forest(N, k, rng) for _ in range(_positive(trials, "trials")))
    return _position("generic pairwise relations", X, _forests(N, k) if few else drawn, few)


def is_in_general_linear_position(items: ArrayLike, *, trials: int = 1000, seed: int = 0) -> GenericRelations:
    """Say whether no d + 1 items lie in a hyperplane (`def:general-linear-position`).

    Items are in *general linear position* if for every star graph with at most d edges the differences along its edges
    are linearly independent: any ``k + 1 = min(d + 1, N)`` items are affinely independent. Generic pairwise relations
    imply it; the converse fails (`example:not-generic-pairwise`). All C(N, k + 1) sets of items are looked at if they
    are at most 200,000; otherwise equal items are searched for, and `trials` sets are drawn uniformly.

    Parameters
    ----------
    items, trials, seed
        As in `has_generic_pairwise_relations`.
    """
    X = _check_items(items)
    N, k = X.shape[0], min(X.shape[1], X.shape[0] - 1)
    few = comb(N, k + 1) <= EXACT_GRAPHS
    rng = np.random.default_rng(seed)
    drawn = (rng.choice(N, k + 1, replace=False).tolist() for _ in range(_positive(trials, "trials")))
    chosen = combinations(range(N), k + 1) if few else drawn
    return _position("general linear position", X, ((c[1:], c[:1] * k) for c in chosen), few)


Graph = tuple[Sequence[int], Sequence[int]]  # one end of every edge, and the other


def _position(condition: str, X: Array, graphs: Iterable[Graph], every: bool) -> GenericRelations:
    """Look at graphs until one is dependent."""
    found = None if every else _equal_items(X)
    graphs, checked = iter(graphs), 0
    size = max(1, CHUNK // X.shape[1] ** 2)
    while found is None and (some := list(islice(graphs, size))):
        edges = np.swapaxes(np.array(some, dtype=np.intp), 1, 2)  # (B, k, 2)
        bad = np.flatnonzero(_dependent(X, edges)) if edges.shape[1] else np.empty(0, dtype=np.intp)
        checked += len(some)
        if bad.size:
            found = _shrunk(X, edges[bad[0]])
    return GenericRelations(condition, found is None, every or found is not None, checked, found)


def _dependent(X: Array, edges: Indices) -> NDArray[np.bool_]:
    """Say of every graph in edges (B, k, 2) whether its differences are linearly dependent, (B,)."""
    rows = X[edges[..., 0]] - X[edges[..., 1]]
    lengths = np.linalg.norm(rows, axis=2, keepdims=True)
    rows = rows / np.where(lengths > 0, lengths, 1.0)
    # With unit rows |det| ≤ √e σ_min, so that a determinant that is not small settles the matter cheaply.
    square = rows.shape[1] == rows.shape[2]
    open_ = np.abs(np.linalg.det(rows)) <= 2.0 * DEPENDENT if square else np.ones(len(rows), dtype=bool)
    open_[open_] = np.linalg.svd(rows[open_], compute_uv=False)[:, -1] <= DEPENDENT
    return open_


def _shrunk(X: Array, edges: Indices) -> Edges:
    """Return a smallest dependent part of dependent edges (k, 2): without any one of them it is independent."""
    kept = edges
    for edge in edges:
        rest = kept[np.any(kept != edge, axis=1)]
        if len(rest) and _dependent(X, rest[None])[0]:
            kept = rest
    return tuple((int(min(e)), int(max(e))) for e in kept)


def _equal_items(X: Array) -> Edges | None:
    """Return the first two equal items found, which no general position allows."""
    order = np.lexsort(X.T)
    same = np.flatnonzero(np.all(X[order[1:]] == X[order[:-1]], axis=1))
    if not same.size:
        return None
    pair = sorted(order[same[0] : same[0] + 2].tolist())
    return ((pair[0], pair[1]),)


def _partitions(N: int, k: int) -> int:
    """Return the number of partitions of N items into N − k groups, or EXACT_GRAPHS + 1 if there are more than that.

    S(n, n − j) = S(n − 1, n − 1 − j) + (n − j) S(n − 1, n − j), a table of j = 0…k for growing n.
    """
    most = EXACT_GRAPHS + 1
    if comb(N, k + 1) >= most:  # partitions with a single group of more than one item
        return most
    count = [1] + [0] * k
    for n in range(1, N + 1):
        count = [1] + [min(most, count[j] + (n - j) * count[j - 1]) if j < n else 0 for j in range(1, k + 1)]
    return count[k]


def _forests(N: int, k: int) -> Iterator[Graph]:
    """Yield one forest of k edges for each partition into N − k groups: items are tied to the first of their group."""
    for children in combinations(range(1, N), k):
        first = sorted(set(range(N)) - set(children))
        for parents in product(*([j for j in first if j < i] for i in children)):
            yield children, parents


def _random_forest(N: int, k: int, rng: np.random.Generator) -> Graph:
    """Return k random edges, each uniform among all until it closes no cycle."""
    parent: dict[int, int] = {}

    def root(i: int) -> int:
        while i in parent:
            i = parent[i]
        return i

    left: list[int] = []
    right: list[int] = []
    while len(left) < k:
        for i, j in rng.integers(N, size=(k, 2)).tolist():
            a, b = root(i), root(j)
            if a != b and len(left) < k:
                parent[a] = b
                left.append(i)
                right.append(j)
    return left, right


# ------------------------------------------------------------------------------------------ quadratic spanning


def quadratic_span_rank(items: ArrayLike, basis: ArrayLike | None = None) -> int:
    """Return the dimension of the span of ``{Δ ⊕ δ}`` over all pairs of items, at most ``r(r+1)/2 + r``.

    It is the rank of the N − 1 pairs with one fixed item, because ``Δ ⊕ δ`` of (x, x') is that of (x, x₀) less that of
    (x', x₀). It does not change under ``x ↦ T(x − c)`` with T invertible, so items are centred and whitened first;
    neither their scale nor their origin matters.

    Parameters
    ----------
    items
        (N, d) vectors.
    basis
        (d, r) orthonormal basis of a subspace V that contains them; None for all of R^d.

    Returns
    -------
    int
        What one person, asked everything, can reveal: this less the dimension of ``span{δ}`` degrees of freedom of M.
    """
    return _span_rank(_coordinates(items, basis))


def quadratically_spans(items: ArrayLike, basis: ArrayLike | None = None) -> bool:
    """Say whether items are rich enough to reveal the metric on their space V (`def:quadratic-span`).

    Items quadratically span V (dimension r) if ``{Δ ⊕ δ}`` spans ``Sym(V) ⊕ V``, of dimension r(r+1)/2 + r. Then
    m = r + 1 answers of each of K = r(r+1)/2 people can identify the metric on V (`prop:quadsufficiency`, see
    `constructive_design`); otherwise no number of answers can (`prop:quadnecessary`). It takes r(r+1)/2 + r + 1 items
    that lie on no common quadric.

    Parameters
    ----------
    items, basis
        As in `quadratic_span_rank`.
    """
    x = _coordinates(items, basis)
    return _span_rank(x) == degrees_of_freedom(x.shape[1]) + x.shape[1]


def _span_rank(x: Array) -> int:
    z = _whitened(x)
    if z.shape[1] == 0:
        return 0
    star = np.column_stack([np.arange(1, len(z)), np.zeros(len(z) - 1, dtype=np.intp)])
    values = _singular_values(_design_rows(z, star), degrees_of_freedom(z.shape[1]) + z.shape[1])
    return int(np.sum(values > RANK_TOLERANCE * values[0]))


def _whitened(x: Array) -> Array:
    """Return items (N, q) centred and in uncorrelated coordinates of unit size, constant directions dropped."""
    U, values, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    white: Array = U[:, values > RANK_TOLERANCE * np.linalg.norm(x)] * sqrt(len(x))
    return white


# --------------------------------------------------------------------------------------------- subspace clusters


def is_subspace_clusterable(items: ArrayLike, bases: Matrices, labels: ArrayLike | None = None) -> bool:
    """Say whether items on subspaces determine the metric of the whole space (`def:subspace-clusterable`).

    Items are subspace-clusterable over V_λ if (1) the items in each V_λ quadratically span it, so that its metric can
    be learnt, and (2) ``{xxᵀ : x ∈ V_λ}`` spans Sym(R^d), so that these metrics determine M
    (`prop:reconstruction-equiv`).

    Parameters
    ----------
    items
        (N, d) vectors.
    bases
        (n, d, r) orthonormal bases, or a list of (d, r_λ).
    labels
        (N,) number of each item's subspace, −1 for none; None takes all items that lie in V_λ.
    """
    X, Bs = _check_items(items), [np.asarray(B, dtype=float) for B in bases]
    if not spans_symmetric(Bs):
        return False
    if X.shape[1] != Bs[0].shape[0]:
        raise DataError(
            f"items have {X.shape[1]} features, but bases are of R^{Bs[0].shape[0]}; give both in one space"
        )
    if labels is None:
        members = [_distance(X, B) <= INSIDE * np.linalg.norm(X, axis=1) for B in Bs]
    else:
        numbers = _check_labels(labels, X.shape[0], len(Bs))
        members = [numbers == i for i in range(len(Bs))]
    return all(np.any(inside) and quadratically_spans(X[inside], B) for inside, B in zip(members, Bs, strict=True))


def spans_symmetric(bases: Matrices) -> bool:
    """Say whether ``{xxᵀ : x ∈ V_λ}`` spans Sym(R^d): subspace metrics determine M (`prop:reconstruction-equiv`).

    The same as ``Π: A ↦ (B_λᵀ A B_λ)_λ`` being injective, which is what is checked: rank Π = d(d+1)/2. The cost is
    as in `smallest_singular_value`.

    Parameters
    ----------
    bases
        (n, d, r) orthonormal bases, or a list of (d, r_λ).
    """
    values = _map_values(SubspaceMap(bases))
    return bool(values[-1] > RANK_TOLERANCE * values[0])


def smallest_singular_value(bases: Matrices) -> float:
    """Return ``σ_min(Π) = min ‖(B_λᵀ A B_λ)_λ‖ / ‖A‖_F`` over symmetric A: how well spread subspaces are.

    It divides the error bound of `thm:recovery_guarantee`; zero if the subspaces do not determine the metric. Computed
    exactly, by reducing Π to a triangle (p, p), p = d(d+1)/2, and its singular values: under a second for d = 30,
    a few for d = 60, and 8p² bytes of memory (3 GiB at d = 200).

    Parameters
    ----------
    bases
        (n, d, r) orthonormal bases, or a list of (d, r_λ).
    """
    values = _map_values(SubspaceMap(bases))
    return float(values[-1]) if values[-1] > RANK_TOLERANCE * values[0] else 0.0


def least_number_of_subspaces(d: int, ranks: int | Sequence[int], *, exact: bool = True) -> int:
    """Return how many subspaces are needed to determine a metric on R^d (`rmk:min_subspaces`).

    A subspace of dimension r shows r(r+1)/2 degrees of freedom of M, so ``Σ r_λ(r_λ+1)/2 ≥ d(d+1)/2`` is necessary
    (for lines: d(d+1)/2 of them). It is not sufficient: subspaces that meet see the same thing twice. Three planes of
    R³ are needed where counting says two; four subspaces of dimension 4 in R⁷ where counting says three. The rank of Π
    is largest for subspaces in general position, so the exact number is the first n for which n random subspaces
    determine M; that is tried, from the counting bound upwards.

    Parameters
    ----------
    d
        Dimension of the items.
    ranks
        One dimension for all subspaces, or those of the subspaces at hand, of which the largest are taken first.
    exact
        False returns the counting bound, which is all that is offered for d > 62 unless all are lines.

    Raises
    ------
    NotIdentifiedError
        If all the subspaces at hand together are not enough.
    """
    p = degrees_of_freedom(_positive(d, "d"))
    sizes = [ranks] * p if isinstance(ranks, int | np.integer) else sorted(ranks, reverse=True)
    for r in sizes:
        if not 1 <= r <= d:
            raise DataError(f"ranks holds {r}, but a subspace of R^{d} has a dimension from 1 to {d}; correct it")
    seen = np.cumsum([degrees_of_freedom(r) for r in sizes])
    n = int(np.searchsorted(seen, p)) + 1
    if exact and sizes and 1 < sizes[0] < d:
        if p > DENSE_UNKNOWNS:
            raise DataError(
                f"d={d} has {p} degrees of freedom, more than the {DENSE_UNKNOWNS} for which the exact number is "
                "computed; ask for the counting bound with exact=False"
            )
        while n <= len(sizes) and not _random_subspaces_span(d, sizes[:n]):
            n += 1
    if n > len(sizes):
        raise NotIdentifiedError(
            f"{len(sizes)} subspaces of the given ranks cannot determine the {p} degrees of freedom of a metric on "
            f"R^{d}; add subspaces or raise their dimensions"
        )
    return n


def _random_subspaces_span(d: int, ranks: Sequence[int]) -> bool:
    rng = np.random.default_rng(0)  # any draw attains the generic rank with probability one
    return spans_symmetric([np.linalg.qr(rng.standard_normal((d, r)))[0] for r in ranks])


def _map_values(operator: SubspaceMap) -> Array:
    return _singular_values((rows for _, rows in operator.blocks()), operator.shape[1])


def _singular_values(blocks: Iterable[Array], width: int) -> Array:
    """Return the singular values (width,) of stacked rows, zeros included; only a triangle of them is held."""
    R: Array = np.zeros((0, width))
    for rows in blocks:
        R = np.linalg.qr(np.concatenate([R, rows]), mode="r")
    values = np.linalg.svd(R, compute_uv=False)
    return np.concatenate([values, np.zeros(width - values.size)])


# --------------------------------------------------------------------------------------------------------- bounds


@dataclass(frozen=True)
class LinkConstants:
    """What the bounds need of a link function f on ``|z| ≤ 2(ζ_M + ζ_v)`` (`ass:probabilistic`).

    Attributes
    ----------
    lipschitz
        L, the largest slope of ``−log f``.
    slope
        c_f, the smallest slope of f.
    """

    lipschitz: float
    slope: float


def logistic_constants(beta: float, metric_bound: float, ideal_bound: float) -> LinkConstants:
    """Return L and c_f of the logistic link ``f(z) = σ(βz)``, whose extremes are at ``z = ∓2(ζ_M + ζ_v)``.

        t = 2β(ζ_M + ζ_v),   L = β σ(t),   c_f = β σ(t) σ(−t)

    Parameters
    ----------
    beta
        Steepness of the link.
    metric_bound, ideal_bound
        ζ_M ≥ ‖M‖_F and ζ_v ≥ ‖v_k‖. Items are in the unit ball.
    """
    _positive_number(beta, "beta")
    t = 2.0 * beta * (_positive_number(metric_bound, "metric_bound") + _positive_number(ideal_bound, "ideal_bound"))
    likely = 1.0 / (1.0 + exp(-t))
    return LinkConstants(lipschitz=beta * likely, slope=beta * likely * likely * exp(-t))


def subspace_recovery_bound(
    users: int,
    comparisons: int,
    *,
    strength: float,
    metric_bound: float,
    ideal_bound: float,
    beta: float = 1.0,
    p: float = 0.05,
) -> float:
    """Return the ε that bounds the error of a subspace metric learnt from binary answers (`prop:recovery_hat_Q`).

    With probability at least 1 − p, for K people with m answers each to designs drawn independently from P_m,

        ‖Q̂ − Q‖_F² ≤ ε² = 16 L / (c_f² σ²_min(P_m)) · √((ζ_M² + K ζ_v²) log(4/p) / (mK))

    if Q̂ is the maximum-likelihood estimate of Algorithm 5 with the true link and radii, and items are in the unit ball.
    Every constant is known. It shrinks with m but not with K alone, as K ζ_v² / (mK) does not, and c_f falls
    exponentially in β(ζ_M + ζ_v): a guarantee of what is possible, not a forecast of the error.
    (`rmk:recovery-subspace` sets ζ_M = r and ζ_v = 2√r for entries of M and ideal points of size at most one; the
    latter needs ‖M‖ ≤ √r: for M near the all-ones matrix ‖v‖ reaches 2r.)

    Parameters
    ----------
    users, comparisons
        K and m.
    strength
        ``σ²_min(P_m)``, see `design_strength`.
    metric_bound, ideal_bound
        ζ_M and ζ_v.
    beta
        Of the logistic link.
    p
        Probability that the bound may fail.
    """
    K, m = _positive(users, "users"), _positive(comparisons, "comparisons")
    link = logistic_constants(beta, metric_bound, ideal_bound)
    weakest = link.slope * link.slope * _positive_number(strength, "strength")
    spread = (metric_bound**2 + K * ideal_bound**2) * log(4.0 / _probability(p)) / (m * K)
    return sqrt(16.0 * link.lipschitz / weakest * sqrt(spread)) if weakest > 0 else inf


def reconstruction_bound(
    sigma_min: float, gamma: float, epsilon: float, n: int, d: int, p: float = 0.05, c: float = 1.0
) -> float:
    """Return the bound on ‖M̂ − M‖_F after subspace metrics are stitched (`thm:recovery_guarantee`).

    With probability at least 1 − p,

        ‖M̂ − M‖_F ≤ c / σ_min(Π) · (γ √n + ε d √log(2d/p))

    where ‖Q̂_λ − Q_λ‖_F ≤ ε and the bias ‖E Q̂_λ − Q_λ‖_F ≤ γ ≤ ε in each of n independent subspaces, and M̂ is the
    least-squares stitch projected on the cone. **The universal constant c is not known**: the paper takes it from a
    vector Hoeffding inequality that states none. With c = 1 the value shows how the bound scales; it is not a
    guarantee. (Without any constant, and surely, ‖M̂ − M‖_F ≤ ε √n / σ_min(Π): M̂ − M is no longer than Π⁺
    applied to all errors.)

    Parameters
    ----------
    sigma_min
        See `smallest_singular_value`.
    gamma, epsilon
        Bounds on the bias and the error of the subspace metrics; see `subspace_recovery_bound`.
    n, d
        Subspaces, and dimension of the items.
    p
        Probability that the bound may fail.
    c
        The constant.
    """
    if not 0 <= gamma <= epsilon:
        raise DataError(
            f"gamma={gamma!r} and epsilon={epsilon!r}, but a bias bound is from 0 to the error bound; "
            "give gamma=epsilon if the bias is not known"
        )
    noise = epsilon * _positive(d, "d") * sqrt(log(2.0 * d / _probability(p)))
    bias = gamma * sqrt(_positive(n, "n"))
    return _positive_number(c, "c") / _positive_number(sigma_min, "sigma_min") * (bias + noise)


# --------------------------------------------------------------------------------------------------------- designs


def design_matrix(items: ArrayLike, pairs: ArrayLike) -> Array:
    """Return the rows ``svec(Δ) ⊕ δ  (..., m, p + d)`` of pairs (..., m, 2) (`def:design`).

    ``D(A, w)_i = ⟨Δ_i, A⟩ + ⟨δ_i, w⟩``, so that ``D @ concatenate([svec(M), v])`` are a person's unquantized answers.

    Parameters
    ----------
    items
        (N, d) vectors.
    pairs
        Row numbers of left and right items.
    """
    X = _check_items(items)
    return _rows(X, _check_pairs(pairs, X.shape[0]))


def design_strength(items: ArrayLike, pairs: ArrayLike, basis: ArrayLike | None = None) -> float:
    """Return ``σ²_min(P_m) = σ_min(E[D*D]) / m`` of designs of m pairs (`def:design`).

    The expectation is the mean over the K designs given. For draws from a law it is an estimate, low on average (the
    smallest eigenvalue is concave). For the uniform draws of `random_design` from a pool of n pairs it is exact with
    the whole pool as one design: ``σ_min(D*D) / n`` whatever m is (`rmk:min-singular-Pm`, which leaves out the 1/n).

    Parameters
    ----------
    items
        (N, d) vectors.
    pairs
        (K, m, 2) row numbers, one design a person; or (m, 2) for one design.
    basis
        (d, r) orthonormal basis of the subspace the items lie in; None for R^d.
    """
    x = _coordinates(items, basis)
    chosen = _check_pairs(pairs, x.shape[0]).reshape(-1, 2)
    if not len(chosen):
        raise DataError("pairs is empty, but a design has at least one pair; give (K, m, 2) row numbers")
    values = _singular_values(_design_rows(x, chosen), degrees_of_freedom(x.shape[1]) + x.shape[1])
    return float(values[-1] ** 2) / len(chosen) if values[-1] > RANK_TOLERANCE * values[0] else 0.0


def constructive_design(items: ArrayLike, basis: ArrayLike | None = None) -> Indices:
    """Return the questions that prove `prop:quadsufficiency`: the metric on V from r + 1 answers a person.

    From pairs with ``Δ_i ⊕ δ_i`` a basis of ``Sym(V) ⊕ V`` and δ_1…δ_r a basis of V, every person is asked the
    first r and one more of the others. The combination of their answers in which the δ's cancel shows one degree
    of freedom of M, another one for each person. All pairs share one item; among those, pivoted QR takes the best
    conditioned.

    Parameters
    ----------
    items
        (N, d) vectors that quadratically span V.
    basis
        (d, r) orthonormal basis of V; None for R^d.

    Returns
    -------
    (K, m, 2) row numbers
        K = r(r+1)/2 people, m = r + 1 pairs each.

    Raises
    ------
    NotIdentifiedError
        If the items do not quadratically span V.
    """
    x = _coordinates(items, basis)
    r = x.shape[1]
    _require_span(_span_rank(x), r)
    z = _whitened(x)
    centre = int(np.argmin(np.sum(z * z, axis=1)))
    others = np.delete(np.arange(len(z)), centre)
    star = np.column_stack([others, np.full_like(others, centre)])
    D = _rows(z, star)
    shared = _pivots(D[:, -r:], r)
    Q = np.linalg.qr(D[shared].T)[0]
    own = _pivots(D - (D @ Q) @ Q.T, degrees_of_freedom(r))
    together = np.broadcast_to(star[shared], (len(own), r, 2))
    return np.concatenate([together, star[own][:, None, :]], axis=1)


def random_design(
    items: ArrayLike,
    users: int,
    comparisons: int,
    *,
    pairs: ArrayLike | None = None,
    basis: ArrayLike | None = None,
    seed: int = 0,
) -> Indices:
    """Return m pairs for each of K people, drawn uniformly with replacement from a pool (`rmk:min-singular-Pm`).

    If the pool's ``Δ ⊕ δ`` span ``Sym(V) ⊕ V`` then ``σ²_min(P_m) = σ_min(D*D) / n > 0`` does not depend on m, as
    `prop:recovery_hat_Q` needs; ``design_strength(items, pool)`` computes it.

    Parameters
    ----------
    items
        (N, d) vectors.
    users, comparisons
        K and m.
    pairs
        (n, 2) the pool, row numbers; None is all pairs of two items.
    basis
        (d, r) orthonormal basis of the subspace V the items lie in; None for R^d.
    seed
        Of the draws.

    Returns
    -------
    (K, m, 2) row numbers

    Raises
    ------
    NotIdentifiedError
        If the pool does not span.
    """
    x = _coordinates(items, basis)
    N, shape = len(x), (_positive(users, "users"), _positive(comparisons, "comparisons"))
    rng = np.random.default_rng(seed)
    if pairs is None:
        _require_span(_span_rank(x), x.shape[1])
        left, step = rng.integers(N, size=shape), rng.integers(1, N, size=shape)
        return np.stack([left, (left + step) % N], axis=-1)
    pool = _check_pairs(pairs, N).reshape(-1, 2)
    z = _whitened(x)
    width = degrees_of_freedom(z.shape[1]) + z.shape[1]
    values = _singular_values(_design_rows(z, pool), width) if width else np.zeros(1)
    _require_span(int(np.sum(values > RANK_TOLERANCE * values[0])), x.shape[1])
    return pool[rng.integers(len(pool), size=shape)]


def _require_span(rank: int, r: int) -> None:
    full = degrees_of_freedom(r) + r
    if rank < full:
        raise NotIdentifiedError(
            f"these pairs of items span {rank} of the {full} dimensions of Sym(V) ⊕ V (dim V = {r}), so the metric on "
            f"V cannot be learnt from them; give at least {full + 1} items that lie on no common quadric, or the basis "
            "of a smaller subspace that holds them"
        )


def _pivots(rows: Array, k: int) -> Indices:
    """Return the numbers of k well-conditioned rows."""
    order: Indices = qr(rows.T, mode="r", pivoting=True)[1].astype(np.intp)
    return order[:k]


def _rows(x: Array, pairs: Indices) -> Array:
    """Return ``svec(Δ) ⊕ δ  (..., p + r)`` of pairs (..., 2)."""
    left, right = x[pairs[..., 0]], x[pairs[..., 1]]
    return np.concatenate([outer_difference(left - right, left + right), left - right], axis=-1)


def _design_rows(x: Array, pairs: Indices) -> Iterator[Array]:
    """Yield ``svec(Δ) ⊕ δ`` of pairs (n, 2), a moderate number at a time."""
    size = max(1, CHUNK // max(1, degrees_of_freedom(x.shape[1])))
    for first in range(0, len(pairs), size):
        yield _rows(x, pairs[first : first + size])


# ------------------------------------------------------------------------------------------------------ what is given


def _check_items(items: ArrayLike) -> Array:
    X = np.asarray(items, dtype=np.float64)
    if X.ndim != 2 or 0 in X.shape:
        raise DataError(
            f"items has shape {X.shape}, expected (N, d) with at least one item and one feature; reshape it"
        )
    if not np.all(np.isfinite(X)):
        row, column = np.argwhere(~np.isfinite(X))[0]
        raise DataError(f"items[{row}, {column}] is {X[row, column]}, not a finite number; fill or drop that item")
    return X


def _coordinates(items: ArrayLike, basis: ArrayLike | None) -> Array:
    """Return items in the coordinates of the subspace that contains them, (N, r)."""
    X = _check_items(items)
    if basis is None:
        return X
    B = np.asarray(basis, dtype=np.float64)
    SubspaceMap([B])  # refuses what is not an orthonormal basis
    if B.shape[0] != X.shape[1]:
        raise DataError(
            f"basis has shape {B.shape}, but items have {X.shape[1]} features; give a ({X.shape[1]}, r) basis"
        )
    away = _distance(X, B)
    worst = int(np.argmax(away - INSIDE * np.linalg.norm(X, axis=1)))
    if away[worst] > INSIDE * np.linalg.norm(X[worst]):
        raise DataError(
            f"item {worst} is {away[worst]:.3g} away from the subspace, but all items must lie in it; "
            "leave it out, or project items with items @ B @ B.T"
        )
    return X @ B


def _distance(X: Array, B: Array) -> Array:
    distance: Array = np.linalg.norm(X - (X @ B) @ B.T, axis=1)
    return distance


def _check_labels(labels: ArrayLike, N: int, n: int) -> Indices:
    numbers = np.asarray(labels)
    if numbers.shape != (N,) or numbers.dtype.kind not in "iu":
        raise DataError(
            f"labels has shape {numbers.shape} and type {numbers.dtype}, expected {N} whole numbers; "
            "give each item the number of its subspace, or −1"
        )
    if numbers.min() < -1 or numbers.max() >= n:
        bad = numbers[(numbers < -1) | (numbers >= n)][0]
        raise DataError(f"labels names subspace {bad}, but there are {n} bases; use 0…{n - 1}, or −1 for none")
    return numbers.astype(np.intp)


def _check_pairs(pairs: ArrayLike, N: int) -> Indices:
    chosen = np.asarray(pairs)
    if chosen.ndim < 2 or chosen.shape[-1] != 2 or chosen.dtype.kind not in "iu":
        raise DataError(
            f"pairs has shape {chosen.shape} and type {chosen.dtype}, expected whole numbers (…, m, 2); "
            "give the row numbers of left and right items"
        )
    if chosen.size and (chosen.min() < 0 or chosen.max() >= N):
        bad = chosen[(chosen < 0) | (chosen >= N)][0]
        raise DataError(f"pairs names item {bad}, but there are {N} items, 0…{N - 1}; drop that pair")
    return chosen.astype(np.intp)


def _positive(value: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise DataError(f"{name}={value!r}, expected a whole number of at least 1; correct it")
    return int(value)


def _positive_number(value: float, name: str) -> float:
    if not (isfinite(value) and value > 0):
        raise DataError(f"{name}={value!r}, expected a positive finite number; correct it")
    return float(value)


def _probability(p: float) -> float:
    if not 0 < p <= 1:
        raise DataError(f"p={p!r}, expected a probability above 0 and at most 1; give 0.05 for 95 % confidence")
    return float(p)
