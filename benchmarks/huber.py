"""The exact Huber minimizer against scikit-learn's HuberRegressor, on the same subspace metrics of the paper's data."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.linear_model import HuberRegressor

from crowdmetric.experiments.cells import Cell
from crowdmetric.experiments.learners import oracle_stage1
from crowdmetric.stitch import stitch
from crowdmetric.symmetric import project_psd, relative_error

RUNS = 16


def main() -> None:
    for K, m in ((10, 4), (40, 4), (80, 8)):
        cell = Cell(1, 10, 80, 1, K, m, 1.0, 0.0, (80,), "logistic")
        difference = []
        for bases, metrics, truth in oracle_stage1(cell, range(RUNS)):
            rows = np.einsum("nd,ne->nde", bases[:, :, 0], bases[:, :, 0]).reshape(len(bases), -1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = HuberRegressor(max_iter=10_000, fit_intercept=False).fit(rows, metrics[:, 0, 0])
            A = theirs.coef_.reshape(10, 10)
            error = relative_error(project_psd(A), truth)
            difference.append(error - relative_error(stitch(bases, metrics), truth))
        spread = np.std(difference, ddof=1) / np.sqrt(RUNS)
        print(
            f"K = {K}, m = {m}: scikit-learn's error less ours {np.mean(difference):+.4f} ± {spread:.4f} ({RUNS} runs)"
        )
