"""crowdmetric: learn how a crowd sees similarity from a handful of "this one or that one?" answers per person.

Names are imported when they are first used: SciPy and scikit-learn take longer to load than a small fit, and
``crowdmetric --help`` needs neither.
"""

from importlib import import_module

from crowdmetric._version import __version__

# same meaning as typing.TYPE_CHECKING, but importing typing takes longer than everything else here
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from crowdmetric.choices import Choices
    from crowdmetric.comparisons import Comparisons
    from crowdmetric.estimators import (
        IdealPointMetric,
        MatchedMetric,
        PopulationMetric,
        SimilarityMetric,
        StitchedMetric,
        TasteMetric,
    )
    from crowdmetric.judgements import Judgements
    from crowdmetric.ratings import Ratings

__all__ = [
    "Choices",
    "Comparisons",
    "IdealPointMetric",
    "Judgements",
    "MatchedMetric",
    "PopulationMetric",
    "Ratings",
    "SimilarityMetric",
    "StitchedMetric",
    "TasteMetric",
    "__version__",
]

# The module of each name. Every other public name is looked up among the modules of the package.
_HOME = {name: name.lower() for name in ("Choices", "Comparisons", "Judgements", "Ratings")} | {
    name: "estimators" for name in __all__ if name.endswith("Metric")
}


def __getattr__(name: str) -> "Any":
    if name in _HOME:
        value = getattr(import_module(f"crowdmetric.{_HOME[name]}"), name)
        globals()[name] = value  # cached: the next access does not call __getattr__
        return value
    module = f"crowdmetric.{name}"
    if not name.startswith("_"):
        try:
            return import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
    raise AttributeError(f"module 'crowdmetric' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
