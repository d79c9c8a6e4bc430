"""The summary of a fitted model: the fit in numbers, then its table of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdmetric.coefficients import Coefficients, coefficients_of
from crowdmetric.importance import LearnedModel, is_cut
from crowdmetric.inputs import check_items
from crowdmetric.preprocess import ItemMap
from crowdmetric.solvers.solution import Solution
from crowdmetric.tastes import Tasteful, find_tastes

__all__ = ["InMemory", "counted", "fit_in_numbers", "fitted_attributes", "has_coefficients", "summary_of", "table_of"]

Array = NDArray[np.float64]

# Eigenvalues below this share of the largest count as zero: an optimum at the edge is reached up to a tolerance only.
AT_THE_EDGE = 1e-6
CROWD = "crowd: part of what moves choices that everybody likes alike."


@dataclass(frozen=True, eq=False)
class InMemory:
    """A fitted estimator that was not saved; see `LearnedModel` for the attributes."""

    description: Mapping[str, Any]
    fitted: Mapping[str, Any]
    metric: Array
    items: Array | None
    feature_names: list[str]
    preprocessing: ItemMap | None = None
    made_of: Any = None

    def estimator(self) -> Any:
        """Return the estimator itself."""
        return self.made_of

    @staticmethod
    def of(estimator: Any) -> InMemory:
        """Return what a fitted estimator has learned."""
        items = None if estimator.items is None else check_items(estimator.items)
        fitted = fitted_attributes(estimator)
        counts = {"people": len(estimator.users_)} if "users_" in fitted else {}
        description = {
            "estimator": type(estimator).__name__,
            "parameters": estimator.get_params(deep=False),
            "data": counts | ({} if items is None else {"items": len(items)}),
            "left_out": [],
        }
        names = getattr(estimator, "feature_names_in_", [f"f{j}" for j in range(len(estimator.metric_))])
        return InMemory(description, fitted, estimator.metric_, items, [str(name) for name in names], made_of=estimator)


def fitted_attributes(estimator: Any) -> dict[str, Any]:
    """Return the public attributes that a fit has set, by name."""
    return {name: value for name, value in vars(estimator).items() if name.endswith("_") and name[0] != "_"}


def summary_of(model: Tasteful) -> str:
    """Return what was learned, from what and how well, and the table of features where the answers carry one."""
    withheld = model.description.get("withheld")
    if withheld:
        reasons = (f"- {text}" for text in withheld)
        return "\n".join([fit_in_numbers(model), "", "These answers do not carry a claim yet:", *reasons])
    table = table_of(model)
    return fit_in_numbers(model) + ("" if table is None else f"\n\n{table.summary()}")


def table_of(model: Tasteful) -> Coefficients | None:
    """Return the table with a row per feature that everybody sees of a model.

    None without items, without errors, and where the answers carry no claim.
    """
    if not has_coefficients(model) or model.description.get("withheld"):
        return None
    if model.description["estimator"] != "TasteMetric":
        return coefficients_of(model)
    table = find_tastes(model).table()
    if is_cut(model):  # how much people differ is not known
        table = replace(table, columns={"crowd": table.columns["crowd"]}, explained=CROWD)
    return table


def has_coefficients(model: LearnedModel) -> bool:
    """Return whether a model has items, and errors of what moves choices: people differ in it."""
    return model.items is not None and model.description["parameters"].get("covariance") != "none"


def fit_in_numbers(model: LearnedModel) -> str:
    """Return what was learned, from what and how well, in a few lines."""
    fitted, data = model.fitted, model.description["data"]
    solution: Solution = fitted["solution_"]
    # a fit may begin where an earlier one, with fewer answers, has already converged
    steps = f"{solution.iterations} iterations, " if solution.iterations else ""
    given = model.description["parameters"]
    d, without = len(model.metric), given.get("constraint") == "zero" or given.get("covariance") == "none"
    title = f"{model.description['estimator']}: " + (
        f"utilities of items with {d} features, no metric" if without else f"a metric in {d} dimensions"
    )
    lines = {
        "learned from": counted(data),
        "dropped rows": _dropped(data.get("dropped")),
        "preprocessing": "" if model.preprocessing is None else model.preprocessing.summary(),
        "subspaces": _ranks(fitted.get("bases_")) + _stability(fitted.get("stability_")),
        "items": _item_effects(fitted) or _inducing(fitted),
        "kernel": _kernels(fitted),
        "metric bound": _bound(model, "metric_bound"),
        "ideal bound": _bound(model, "ideal_bound"),
        "status": solution.status,
        "mean loss": f"{solution.objective:.6f}, {_certificate(solution.gap)}",
        "effort": f"{steps}{solution.seconds:.2f} s",
        "eigenvalues": "" if without else _leading(model.metric),
    }
    width = 14 if model.preprocessing is None else 15
    return "\n".join([title, *(f"  {name:<{width}}{text}" for name, text in lines.items() if text)])


def counted(data: Mapping[str, Any]) -> str:
    """Return how many answers, people and items there were, if known; one person may be a table that names nobody."""
    singular = {"answers": "answer", "people": "person", "items": "item"}
    known = {name: one for name, one in singular.items() if name in data and (name, data[name]) != ("people", 1)}
    return ", ".join(f"{data[name]:,} {one if data[name] == 1 else name}" for name, one in known.items())


def _item_effects(fitted: Mapping[str, Any]) -> str:
    """Return a sentence on per-item effects; empty if there are none."""
    spread, known = (fitted.get(f"item_effect{name}_") for name in ("_spread", "s_determined"))
    if spread is None and "item_effects_" in fitted:
        return "are as popular as the answers about them say; features do not matter"
    if spread is None:
        return ""
    determined = "" if known is None else f", the answers determine {known:.1f} of {len(fitted['item_effects_'])}"
    return f"have effects beyond their features (spread {spread:.2g}{determined})"


def _kernels(fitted: Mapping[str, Any]) -> str:
    """Return the most probable kernel of smooth tastes, and how many others predictions are averaged with."""
    if "kernels_" not in fitted:
        return ""
    best, others = f"{fitted['structure_']} metric, {fitted['shape_']} tastes", len(fitted["kernels_"]) - 1
    if not others:
        return best
    share = f"{100.0 * float(fitted['kernel_weights_'][0]):.0f} %"
    return f"{best} ({share} likely; predictions are averaged with {others} other{'s' * (others > 1)})"


def _inducing(fitted: Mapping[str, Any]) -> str:
    """Return how many items people share the crowd's utilities through, and what that leaves out."""
    chosen, shown = fitted.get("inducing_", ()), fitted.get("shown_", ())
    if len(chosen) == len(shown):
        return ""
    left_out = f"{100 * fitted['not_shared_']:.1f} % of the crowd's variance is not shared"
    return f"{len(shown):,} were compared, too many to be exact: people share {len(chosen):,} of them, and {left_out}"


def _bound(model: LearnedModel, name: str) -> str:
    """Return a radius in words: its size, who chose it, and where it is active."""
    bounds = np.unique(model.fitted.get(f"{name}_", np.nan))
    if np.all(np.isnan(bounds)):
        return ""
    size = f"{bounds[0]:.4g}" if len(bounds) == 1 else f"{bounds[0]:.4g} … {bounds[-1]:.4g}"
    given = model.description["parameters"].get(name) is not None or name in model.description["left_out"]
    active = model.fitted.get("bound_is_active_") if name == "metric_bound" else None
    where = "" if active is None else f"; active in {np.sum(active)} of {np.size(active)} subspaces"
    return f"{size} ({'given' if given else 'chosen from the data'}{where})"


def _dropped(dropped: Mapping[str, int] | None) -> str:
    if not dropped:
        return "" if dropped is None else "none"
    return f"{sum(dropped.values()):,} (" + ", ".join(f"{n:,} × {why}" for why, n in dropped.items()) + ")"


def _certificate(gap: float) -> str:
    return "without a certificate" if np.isnan(gap) else f"certified within {gap:.1e} of the optimum"


def _leading(metric: Array, most: int = 5) -> str:
    """Return the largest eigenvalues and the rank."""
    eigenvalues = np.linalg.eigvalsh(metric)[::-1]
    positive = eigenvalues > AT_THE_EDGE * eigenvalues[0]
    shown = [f"{value:.3g}" for value in np.where(positive, eigenvalues, 0.0)[:most]]
    more = ["…"] if len(eigenvalues) > most else []
    return f"{', '.join(shown + more)} (rank {positive.sum()} of {len(eigenvalues)})"


def _ranks(bases: Sequence[Array] | None) -> str:
    if not bases:
        return ""
    ranks = sorted({B.shape[1] for B in bases})
    return f"{len(bases)} of dimension {' and '.join(map(str, ranks))}"


def _stability(stability: float | None) -> str:
    """Return how sure the subspaces are, where they were discovered."""
    return "" if stability is None or np.isnan(stability) else f", discovered (stability {stability:.2f})"
