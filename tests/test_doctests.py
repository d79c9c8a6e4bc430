"""Examples in docstrings run, and every public name that can have one has one."""

from __future__ import annotations

import doctest
import importlib
import re
import warnings
from pathlib import Path

import pytest

from crowdmetric.errors import CrowdmetricError, CrowdmetricWarning

REFERENCE = Path(__file__).parent.parent / "docs" / "reference" / "api.rst"
LISTED = re.findall(r"^   ([A-Za-z][\w.]*)$", REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE)
# Without an example of their own, each for a reason.
WITHOUT = {
    "datasets.load_jester": "needs a file that may not be handed on",
    "datasets.load_sushi": "needs a file that may not be handed on",
    "engines.contract.DeviceEngine": "a protocol; docs/how-to/add-an-engine.md writes one",
    "engines.contract.Engine": "a protocol; docs/how-to/add-an-engine.md writes one",
    "engines.torch_engine.TorchEngine": "needs PyTorch; docs/how-to/scaling.md uses it",
    "evaluate.Fitted": "a protocol that BradleyTerry follows",
    "evaluate.Model": "a protocol that BradleyTerry follows",
    "losses.Loss": "a protocol that Logistic follows",
    "stitch.stitch_prefixes": "for the paper's experiments alone",
    "tables.ComparisonScan": "made by Comparisons.scan_csv and scan_parquet",
    "evaluate.plan_evaluation": "needs a scan of files",
    "identifiability.plan_diagnosis": "needs a scan of files",
}
# Results that only a function makes, and variants: the example of another name shows how they are used.
RESULTS = {
    "agreement.OneMetric": "agreement.one_metric",
    "agreement.likelihood_ratio": "agreement.one_metric",
    "collect.Settings": "collect.check_study",
    "collect.Study": "collect.open_study",
    "design.Asked": "design.LiveDesign",
    "design.Forecast": "design.LiveDesign",
    "design.Stop": "design.LiveDesign",
    "evaluate.EstimatorModel": "evaluate.evaluate",
    "evaluate.Evaluation": "evaluate.evaluate",
    "evaluate.Result": "evaluate.evaluate",
    "evaluate.SimilarityEvaluation": "evaluate.evaluate_similarity",
    "export.item_coordinates": "export.linear_head",
    "export.write_coordinates": "export.write_head",
    "identifiability.Assignment": "identifiability.diagnose",
    "identifiability.Dependence": "identifiability.diagnose",
    "identifiability.ItemPair": "identifiability.diagnose",
    "locate.LocatedTastes": "locate.locate",
    "report.similarity_page": "report.report_page",
    "subspaces.Discovery": "subspaces.discover_subspaces",
}


def value_of(name: str) -> object:
    module, _, last = f"crowdmetric.{name}".rpartition(".")
    return getattr(importlib.import_module(module), last)


def has_example(name: str) -> bool:
    return ">>>" in (value_of(name).__doc__ or "")


def is_error(name: str) -> bool:
    value = value_of(name)
    return isinstance(value, type) and issubclass(value, CrowdmetricError | CrowdmetricWarning)


@pytest.mark.parametrize("name", [name for name in LISTED if not is_error(name)])
def test_public_names_have_an_example(name: str) -> None:
    if name in WITHOUT:
        assert not has_example(name), f"{name} has an example now; take it off the list"
    elif name in RESULTS:
        assert has_example(RESULTS[name])
    else:
        assert has_example(name), f"{name} has no example"


@pytest.mark.parametrize("name", [name for name in LISTED if has_example(name)])
def test_examples_run(name: str) -> None:
    if name.startswith("collect."):
        pytest.importorskip("starlette")
    runner = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CrowdmetricWarning)
        for test in doctest.DocTestFinder(recurse=False).find(value_of(name), name, globs={}):
            runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
