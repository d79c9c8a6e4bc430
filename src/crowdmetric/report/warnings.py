"""What a reader should be careful about, and in plain words whether the metric is worth using.

Rules, for a population or a matched fit (S its symmetric fit, C the covariance of svec S):

no ideal points
    Let W (d, k) span the directions in which S is negative, x = svec(WᵀSW). A crowd with ideal points has x = 0 at most
    by chance: ``xᵀ Cov(x)⁻¹ x`` is compared with χ² of k(k+1)/2 + k(d − k) degrees of freedom, which accounts for the
    choice of W (a symmetric matrix of rank k has that many parameters). Said below a p-value of 0.01. Where hidden
    answers were predicted with and without the constraint, they decide how grave it is.
another shape than the identity
    With e the part of S/c, c = tr S/d, that is no multiple of the identity: ``eᵀ Cov(e)⁻¹ e`` against χ² of p − 1
    degrees of freedom. The scale, known less surely, drops out. It says that the metric has a shape of its own, and
    not that it predicts anything.
shape not determined
    The metric is close to zero (`NO_METRIC`), or the answers determine less than 95 % of the shape's parameters. The
    cause is looked for: fewer than 5 answers per parameter of the metric and the mean, or few items: where people
    scatter freely or items have effects, a metric shows only in how much each item is liked by all, so 5 items
    per parameter are wanted, else one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq
from scipy.stats import chi2

from crowdmetric.comparisons import Comparisons
from crowdmetric.evaluate import Evaluation
from crowdmetric.evaluate.verdict import has_no_ideal_points, tests_ideal_points
from crowdmetric.fits.doubts import AGREEMENT, APPROXIMATE, BIASED, LOOSE_SCALE, MEASURED_FEATURES, many_features
from crowdmetric.fits.units import Units
from crowdmetric.identifiability import Diagnosis
from crowdmetric.identifiability.relations import Relation
from crowdmetric.importance import is_cut
from crowdmetric.persist import SavedModel
from crowdmetric.report.directions import symmetric_fit
from crowdmetric.report.page_parts import as_sentence
from crowdmetric.solvers.law_fit import NO_METRIC
from crowdmetric.symmetric import degrees_of_freedom, svec
from crowdmetric.tables import cut_sentence

__all__ = ["not_ideal_points", "shape_test", "warnings_of", "worth_using"]

Array = NDArray[np.float64]

UNLIKELY = 0.01
# Share of the shape's parameters that the answers should determine.
DETERMINED = 0.95
# Answers per parameter of the metric, and items per parameter of metric and mean, below which there are too few.
FEW_ANSWERS = FEW_ITEMS = 5
# Said of answers that follow from each other, where some were hidden.
LEAKED = (
    "New questions to known people are partly answered by their other answers, which follow from the same choice or "
    "order, whatever the metric is. Look at new people and new items."
)


def not_ideal_points(S: Array, C: Array) -> float:
    """Return the p-value of the hypothesis that S differs from a metric by chance; 1 if it is one."""
    values, vectors = np.linalg.eigh(S)
    W = vectors[:, values < -1e-12 * max(abs(values[0]), abs(values[-1]), 1e-300)]
    d, k = W.shape
    if k == 0:
        return 1.0
    rows, columns = np.triu_indices(k)
    both = [np.outer(W[:, i], W[:, j]) for i, j in zip(rows, columns, strict=True)]
    a = svec(np.stack([0.5 * (A + A.T) for A in both]))
    x = a @ svec(S)
    return float(chi2.sf(_squared_length(x, a @ C @ a.T), k * (k + 1) // 2 + k * (d - k)))


def shape_test(S: Array, C: Array) -> float:
    """Return the p-value of the hypothesis that S differs from a multiple of the identity by chance.

    NaN if the scale is so uncertain (`LOOSE_SCALE`) that nothing linear can be said of S/c.
    """
    d = len(S)
    size = float(np.trace(S)) / d
    identity = svec(np.eye(d))
    if d == 1 or size <= 0 or np.sqrt(identity @ C @ identity) / d > LOOSE_SCALE * size:
        return float("nan")
    # the reflection that maps the identity to the first axis; the other axes are orthogonal to the identity
    mirror = identity / np.sqrt(d)
    mirror[0] += 1.0
    mirror /= np.linalg.norm(mirror)
    e = _reflected(svec(S), mirror)[1:] / size
    slope = np.eye(len(identity)) - np.outer(svec(S), identity) / (d * size)
    slope = _reflected(slope, mirror)[1:] / size
    return float(chi2.sf(_squared_length(e, slope @ C @ slope.T), e.size))


def _reflected(A: Array, mirror: Array) -> Array:
    return np.asarray(A - 2.0 * np.multiply.outer(mirror, mirror @ A))


def _squared_length(x: Array, covariance: Array) -> float:
    """Return xᵀ Cov⁻¹ x."""
    return float(x @ lstsq(covariance, x, cond=1e-12, lapack_driver="gelsy")[0])


def warnings_of(
    model: SavedModel,
    diagnosis: Diagnosis | None,
    evaluation: Evaluation | None = None,
    comparisons: Comparisons | None = None,
    relations: Sequence[Relation] = (),
) -> list[str]:
    """Return sentences, the gravest first.

    `comparisons` are the answers that the model was fitted to, and `relations` what features follow from others: those
    explain better what is out of reach than degrees of freedom do.
    """
    cut = is_cut(model)
    texts = (
        [cut_sentence(model.fitted["made_of_"], declared=comparisons is not None and bool(comparisons.made_of))]
        if cut
        else []
    )
    near = [as_sentence(relation.sentence) for relation in relations if not relation.says_what_is_open]
    texts += [f"{text} Answers can hardly tell which of them matters." for text in near]
    if model.description.get("withheld"):  # nothing is said of what the metric looks like, not even against it
        unknown = [] if _is_near_zero(model, comparisons) else _undetermined(model, comparisons)
        return texts + unknown + _of_the_fit(model)
    if evaluation is not None:
        texts += [text.removeprefix("Warning: ") for text in evaluation.findings() if text.startswith("Warning: ")]
        texts = [text[:1].upper() + text[1:] for text in texts]
    if cut and evaluation is not None and "pairs" in evaluation.splits:
        texts.append(LEAKED)
    texts += _no_ideal_points(model, evaluation)
    texts += [] if cut else _chosen_questions(model, diagnosis)
    texts += [] if any(relation.says_what_is_open for relation in relations) else _out_of_reach(model, diagnosis)
    texts += _undetermined(model, comparisons)
    if not cut and model.fitted.get("scale_error_", 0.0) > LOOSE_SCALE and not _is_near_zero(model, comparisons):
        texts.append(_unknown_scale(model))
    elif not cut and "metric_draws_" in model.fitted and _is_population(model):
        by_scoring = "factor_" not in model.fitted  # the other fits find a rank
        texts += [many_features(len(model.metric))] if len(model.metric) > MEASURED_FEATURES and by_scoring else []
    return texts + _of_the_fit(model)


def _chosen_questions(model: SavedModel, diagnosis: Diagnosis | None) -> list[str]:
    bias = model.fitted.get("question_bias_", 0.0)
    if abs(bias) > BIASED:
        return [
            f"Questions look chosen for the people who answered them (z = {bias:.1f}), which biases the metric. Ask at "
            "random, or ask parallel questions and use --estimator matched."
        ]
    if diagnosis is not None and diagnosis.assignment.suspicious and _is_population(model):
        return [
            "Questions depend on who was asked. That is harmless if chance decided who got which, and misleading if "
            "people were shown what they like."
        ]
    return []


def _out_of_reach(model: SavedModel, diagnosis: Diagnosis | None) -> list[str]:
    # of ideal points under a learned metric: tastes have another law, and a metric that was given has no unknowns
    parameters = model.description["parameters"]
    given = parameters.get("constraint", "psd") in ("identity", "zero") or parameters.get("covariance") == "none"
    if diagnosis is None or given or not _is_population(model):
        return []
    missing = diagnosis.dimensions - diagnosis.population_bounds[0]
    if missing <= 0:
        return []
    out = f", such as {diagnosis.population_out_of_reach}" if diagnosis.population_out_of_reach else ""
    return [
        f"Under this law of people these answers say nothing about {missing:,} of the {diagnosis.dimensions:,} degrees "
        f"of freedom of the metric{out}; what is shown there is a convention."
    ]


def _unknown_scale(model: SavedModel) -> str:
    most = degrees_of_freedom(len(model.metric)) - 1
    known_shape = float(model.fitted.get("determined_", most)) >= 0.5 * most
    advice = " Compare distances with each other, and do not rely on how large they are." if known_shape else ""
    return f"The scale of the metric is hardly known: answers look free of noise, or say too little about it.{advice}"


def _of_the_fit(model: SavedModel) -> list[str]:
    """Return what the fit itself could not do."""
    fitted, texts = model.fitted, []
    if fitted.get("approximation_error_", 0.0) > APPROXIMATE:
        texts.append(
            "People were integrated out approximately, and exact integrals may move results by "
            f"{fitted['approximation_error_']:.2g} standard errors: intervals are too narrow by about as much."
        )
    if len(fitted.get("alternatives_", ())):
        sure = "Intervals of what moves choices include it; the metric and its intervals are those of the best law. "
        texts.append(
            "From another start the fit ended at a different law of people, which explains these answers about as "
            f"well. {'' if is_cut(model) else sure}More people would tell them apart."
        )
    elif np.ptp(fitted.get("starts_", np.zeros(1))) > AGREEMENT:
        texts.append("The fit ended elsewhere from another start; the best end is shown. Raise --starts.")
    active = fitted.get("bound_is_active_")
    if active is not None and np.any(active):
        texts.append(
            f"In {np.sum(active)} of {np.size(active)} subspaces a bound, not the answers, decided the metric's size."
        )
    if not fitted["solution_"].converged:
        texts.append("The fit stopped before it had converged; raise --max-iter.")
    return texts


def _is_population(model: SavedModel) -> bool:
    return "pseudo_ideal_mean_" in model.fitted


def _negative_by_more_than_chance(model: SavedModel) -> bool:
    known = symmetric_fit(model)
    return known is not None and not_ideal_points(*known) < UNLIKELY


def _no_ideal_points(model: SavedModel, evaluation: Evaluation | None) -> list[str]:
    """Return what the fit says about ideal points, where hidden answers do not say it already."""
    if not _negative_by_more_than_chance(model) or (evaluation is not None and has_no_ideal_points(evaluation)):
        return []
    least = np.linalg.eigvalsh(model.fitted["symmetric_metric_"])[0]
    found = (
        "without the constraint to be a distance, the fit has negative eigenvalues "
        f"(down to {least:.3g}) that chance does not explain"
    )
    if evaluation is not None and tests_ideal_points(evaluation):
        return [
            f"Some people may prefer extremes to anything in between: {found}. But hidden answers are not clearly "
            "better predicted without the constraint, so this matters little for predictions."
        ]
    return [
        f"Do not read the metric as a distance: this crowd does not seem to have ideal points. For {found}. In "
        "those directions people prefer extremes to anything in between, and a distance describes them badly."
    ]


def _undetermined(model: SavedModel, comparisons: Comparisons | None) -> list[str]:
    """Return what the answers leave open of the metric, and why; nothing of a baseline that has none."""
    if model.description["parameters"].get("covariance") == "none":
        return []
    d = len(model.metric)
    p = degrees_of_freedom(d)
    determined, answers = model.fitted.get("determined_"), model.description["data"].get("answers")
    judged = "link_" in model.fitted  # similarity judgements have no mean to learn
    causes = _causes(model, comparisons, answers, p if judged else p + d, "metric" if judged else "metric and a mean")
    if _is_near_zero(model, comparisons):
        why = f" One reason may be that {' and that '.join(causes)}." if causes else ""
        return [
            "These answers support hardly any metric: it is close to zero, so its shape means little. Choices "
            f"follow tastes for more or less of a feature, not distances.{why}"
        ]
    rank = model.description["parameters"].get("rank")
    if rank is None and determined is not None and determined < DETERMINED * (p - 1):
        why = f" One reason is that {' and that '.join(causes)}." if causes else ""
        return [
            f"The metric's shape is only partly known: the answers determine about {determined:.1f} of its {p - 1:,} "
            f"parameters. The rest is shrunk toward plain Euclidean distance.{why}"
        ]
    if rank is not None and _is_population(model):  # in other estimators `rank` is the rank of subspaces
        p = rank * d - rank * (rank - 1) // 2
    if determined is None and answers is not None and answers < FEW_ANSWERS * p:
        return [f"Too few answers: {answers:,} for a metric of {p:,} parameters."]
    return []


def _shown(model: SavedModel, comparisons: Comparisons | None) -> NDArray[np.int64]:
    """Return the rows of the items that were compared; all, where the answers are not at hand."""
    return np.arange(0 if model.items is None else len(model.items)) if comparisons is None else comparisons.pairs


def _is_near_zero(model: SavedModel, comparisons: Comparisons | None) -> bool:
    """Return whether a metric of a population counts as none, in units in which items have size one."""
    if model.items is None or not _is_population(model):
        return False
    size = Units.of(model.items, _shown(model, comparisons)).size
    return bool(np.trace(model.metric) * size**2 < NO_METRIC * len(model.metric))


def _causes(
    model: SavedModel, comparisons: Comparisons | None, answers: int | None, parameters: int, unknown: str
) -> list[str]:
    """Return clauses on why little is known, for the parameters of what is unknown; none where no cause is known."""
    causes = []
    if answers is not None and answers < FEW_ANSWERS * parameters:
        causes.append(f"{answers:,} answers are few for the {parameters:,} parameters of a {unknown}")
    shown = np.unique(_shown(model, comparisons)).size
    freely = model.description["parameters"].get("covariance") == "free" or "item_effects_" in model.fitted
    if 0 < shown < (FEW_ITEMS if freely else 1) * parameters:
        causes.append(
            f"{shown:,} items are few for the {parameters:,} parameters of a {unknown} (more answers about the "
            "same items will hardly help; more items or fewer features will)"
        )
    return causes


def worth_using(model: SavedModel, evaluation: Evaluation | None = None) -> list[str]:
    """Return what is known about whether a learned metric is worth using here, the plainest sentence first."""
    if evaluation is not None:
        unlike = has_no_ideal_points(evaluation)
        if not tests_ideal_points(evaluation):
            unlike = _negative_by_more_than_chance(model)
        texts = evaluation.findings(no_distance=unlike)
        found = [text for text in texts if not text.startswith(("Warning:", "Note:"))]
        if found:
            return found
    return [
        "Whether this metric predicts answers better than simpler models was not measured: crowdmetric evaluate does.",
        _shape(model),
    ]


def _shape(model: SavedModel) -> str:
    """Return whether the metric's shape is another than that of plain Euclidean distance."""
    known = symmetric_fit(model)
    if known is None and "metric_draws_" in model.fitted:
        return "Intervals below say how sure the metric is, not that it is of use."
    if known is None:
        return f"{model.description['estimator']} gives no standard errors of the metric."
    if len(model.metric) == 1:
        return "With one feature every metric has the same shape: there is nothing to choose but its scale."
    chance = shape_test(*known)
    if np.isnan(chance):
        return "Too little is known about the metric's scale to judge its shape."
    sure = "p < 0.0001" if chance < 1e-4 else f"p = {chance:.2g}"
    if chance < UNLIKELY:
        return (
            f"The answers tell the metric's shape apart from that of plain Euclidean distance ({sure}). That says what "
            "the metric looks like, not that it is of use."
        )
    return f"The answers do not tell the metric's shape apart from that of plain Euclidean distance ({sure})."
