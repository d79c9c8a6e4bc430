"""Smooth tastes beside BoTorch's PairwiseGP: one person, 500 items of 20 features, 1,000 comparisons.

``python -m benchmarks pairwise_gp`` prints CPU seconds on one thread, compilation apart, and log-loss and accuracy on
1,000 other answers of the same person about the same items. PairwiseGP knows one person only, so that there is one. It
is fitted as its documentation has it: one length per feature, the marginal likelihood by Laplace's method, L-BFGS.
Where BoTorch is not installed, `TasteMetric` stands alone.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.smooth import simulate
from crowdmetric.errors import CrowdmetricWarning
from crowdmetric.estimators.smooth import TasteMetric

Array = NDArray[Any]

ITEMS, ANSWERS = 500, 1_000
# How fast the twenty features of simulated items stop to matter.
WEIGHTS = np.geomspace(0.3, 0.001, 20)

# Probabilities that the right item is preferred, given items, pairs and answers, and other pairs.
Predict = Callable[[Array, Array, Array, Array], Array]


def _ours(**options: Any) -> Predict:
    def predict(items: Array, pairs: Array, y: Array, asked: Array) -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrowdmetricWarning)
            model = TasteMetric(items, **options).fit(pairs, y, users=np.zeros(len(y), dtype=int))
        return np.asarray(model.predict_proba(asked, np.zeros(len(asked), dtype=int))[:, 1])

    return predict


def _botorch(items: Array, pairs: Array, y: Array, asked: Array) -> Array:
    import torch  # noqa: PLC0415
    from botorch.fit import fit_gpytorch_mll  # noqa: PLC0415
    from botorch.models.likelihoods.pairwise import PairwiseLogitLikelihood  # noqa: PLC0415
    from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood  # noqa: PLC0415
    from botorch.models.transforms.input import Normalize  # noqa: PLC0415

    torch.set_num_threads(1)
    X = torch.as_tensor(items, dtype=torch.float64)
    better = np.where(y[:, None] > 0, pairs[:, ::-1], pairs)  # the preferred item first
    model = PairwiseGP(
        X,
        torch.as_tensor(better.copy()),
        likelihood=PairwiseLogitLikelihood(),
        input_transform=Normalize(d=items.shape[1]),
    )
    fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
    with torch.no_grad():
        found = model.posterior(X)
        mean, S = found.mean[:, 0].numpy(), found.distribution.covariance_matrix.numpy()
    left, right = asked.T
    variance = np.maximum(S[left, left] + S[right, right] - 2.0 * S[left, right], 0.0)
    # E σ(ψ) of a Gaussian ψ, by the usual probit approximation
    return np.asarray(1.0 / (1.0 + np.exp(-(mean[right] - mean[left]) / np.sqrt(1.0 + np.pi * variance / 8.0))))


def main(n_items: int = ITEMS, answers: int = ANSWERS) -> None:
    """Print CPU seconds and what each is worth on answers that were held out."""
    crowd = simulate(1, 2 * answers, n_items, WEIGHTS, 0)
    known, asked = slice(0, answers), slice(answers, None)
    methods: dict[str, Predict] = {
        "TasteMetric": _ours(),
        "TasteMetric, isotropic": _ours(structure="isotropic", shape="squared-exponential", uncertainty=False),
    }
    if find_spec("botorch") is None:
        print("  botorch is not installed: TasteMetric stands alone")
    else:
        methods["PairwiseGP"] = _botorch
    few = simulate(1, 40, 12, WEIGHTS, 1)
    methods["TasteMetric"](few.items, few.pairs, few.y, few.pairs)  # compiles
    print(f"one person, {n_items} items of {WEIGHTS.size} features, {answers} comparisons")
    for name, predict in methods.items():
        clock = process_time()
        right = predict(crowd.items, crowd.pairs[known], crowd.y[known], crowd.pairs[asked])
        took = process_time() - clock
        given = np.where(crowd.y[asked] > 0, right, 1.0 - right)
        print(f"  {name:26}{took:8.1f} s   log-loss {-np.mean(np.log(given)):.4f}   right {np.mean(given > 0.5):.3f}")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
