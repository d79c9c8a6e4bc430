"""Run the benchmarks: ``python -m benchmarks [name …]``; without a name, all of them.

Every figure is measured in this run, on one thread, beside what it is compared with; only the ratios carry over to
other machines.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before NumPy is loaded

import argparse
import importlib
import sys

NAMES = {
    "stitched": "stages 1 and 2 on the paper's data, against CVXPY with Clarabel and with SCS",
    "people": "cost and memory as the number of people grows to a million",
    "joint": "a joint fit in twenty dimensions with 20,000 people",
    "huber": "the exact Huber minimizer against scikit-learn's, on the same subspace metrics",
    "population": "people integrated out: error beside its bound, fall with people, time against people",
    "packages": "the same likelihood in PyTorch, JAX, NumPyro and xlogit, where they are installed",
    "diagnosis": "the verdict on a million people with four answers each, against a loop over people",
    "coverage": "how often 90 % intervals of the report hold the truth, with few answers and many (an hour)",
    "matched": "matched questions: error by kind of people, bias by mismatch, search among 100,000 items",
    "reproduction": "what all figures of the paper cost, from a sample of the jobs (three minutes)",
    "discovery": "subspaces found among the items: how well, up to which noise, how fast, and what it costs the metric",
    "gpu": "ten million people and 384 features on a GPU (needs PyTorch), against two cores",
    "design": "designed questionnaires against random pairs: promised and measured error at equal cost",
    "commands": "CPU seconds of whole commands, evaluation and report included (some minutes)",
    "live": "questions that get better with every answer: people needed for an error, by arm (some minutes)",
    "collect": "a study under load, killed and exported (larger with python -m benchmarks.collect)",
    "streaming": "a population fit from Parquet under a memory limit, 1 and 2 million people (some minutes)",
    "real": "which model predicts real people, on eight sets of answers (takes options: real --help)",
    "middle": "five to hundreds of features: time, size and coverage, all defaults (half an hour)",
    "scaling": "a pass over people as people, answers and features grow, on one thread and on two",
    "cluster": "a population fit on a Dask cluster of one and of two workers (needs dask.distributed)",
    "similarity": "similarity judgements: real people, time, coverage, promised error (some minutes)",
    "pairwise_gp": "smooth tastes beside BoTorch's PairwiseGP, where it is installed (some minutes)",
    "smooth": "smooth tastes: time and error as people grow (real people: python -m benchmarks.smooth FOLDER)",
    "saved": "the model that fit saves, judged on hidden answers (real people: python -m benchmarks.saved FOLDER)",
    "small_problems": "random small problems through every estimator: what is impossible, unordered or slow is listed",
    "stitching": "stage 2 alone in 200 dimensions with 25,000 lines",
}


def main() -> None:
    """Run the benchmarks named on the command line."""
    if sys.argv[1:2] == ["real"]:  # the only one with arguments
        importlib.import_module("benchmarks.real").main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    known = "; ".join(f"{name}: {what}" for name, what in NAMES.items())
    parser.add_argument("names", nargs="*", metavar="name", help=known)
    names = parser.parse_args().names
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        parser.error(f"unknown benchmark {', '.join(unknown)}; choose from {', '.join(NAMES)}")
    for name in names or NAMES:
        print(f"\n== {name}: {NAMES[name]}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
