"""Similarity judgements: real people, time, coverage, promised error, and a tenth of the answers.

Real judgements are looked for beside the project, in ``../shared/data``; without them that part is left out.
"""

from __future__ import annotations

from pathlib import Path
from time import process_time

import numpy as np

from crowdmetric import Judgements, SimilarityMetric
from crowdmetric.design.judgement_plan import plan_judgements
from crowdmetric.evaluate import evaluate_similarity
from crowdmetric.evaluate.similarity_evaluation import similarity_folds
from crowdmetric.intervals import distances, entries
from crowdmetric.simulate_judgements import simulate_judgements
from crowdmetric.tables import read_columns

DATA = Path(__file__).parents[2] / "shared" / "data"
MODELS = ["euclid", "diagonal", "full", "chosen", "embedding"]
# Features, answers, kind and number of simulated studies in which intervals are checked.
COVERED = [
    (4, 500, "triplet", 90), (5, 300, "triplet", 60), (5, 6_000, "quadruplet", 70), (10, 3_000, "triplet", 55),
    (10, 10_000, "odd_one_out", 48), (18, 3_000, "triplet", 45), (18, 25_000, "triplet", 24),
]  # fmt: skip


def load(name: str) -> tuple[np.ndarray, Judgements]:
    """Return standardized features of materials; design codes and identities of faces."""
    columns = read_columns(DATA / name / "items.csv")
    if name == "faces":
        codes = [columns[c] for c in ("black", "female", "expr_angry", "expr_fearful", "expr_happy")]
        identity = columns["identity"]
        X = np.column_stack([*codes, *((identity == one).astype(float) for one in sorted(set(identity.tolist())))])
    else:
        X = np.column_stack([column for key, column in columns.items() if key != "item"])
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, Judgements.read(DATA / name / "triplets.csv.gz", n_items=len(X))


def real(name: str) -> None:
    X, judgements = load(name)
    for link in ("squared", "distance"):
        print(f"\n{name}, link {link}")
        found = evaluate_similarity(X, judgements, MODELS, splits=["items", "questions"], link=link)
        print(found.summary(), flush=True)


def own() -> None:
    """Everybody's own metric on faces, new questions: log-loss, and for how many people it is better."""
    X, judgements = load("faces")
    found = evaluate_similarity(X, judgements, ["chosen", "own"], splits=["questions"])
    one, two = found.result("questions", "chosen"), found.result("questions", "own")
    better = int(np.sum(two.sums[0] > one.sums[0]))
    print(f"faces: one metric {one.log_loss:.4f}, own metrics {two.log_loss:.4f}; better for {better} of 39 people")
    print(found.summary(), flush=True)


def tenth() -> None:
    """All answers of the materials, and a tenth of them, to predict the same hidden questions."""
    X, judgements = load("materials")
    rng = np.random.default_rng(0)
    rows = []
    for learned, hidden in similarity_folds(judgements, "questions", 5, 0):
        some = learned & (rng.random(len(judgements)) < 0.1)
        asked = judgements.take(hidden)
        fits = [SimilarityMetric(X, uncertainty=False).fit(judgements.take(mask)) for mask in (learned, some)]
        rows.append([fit.score(asked) for fit in fits])
    every, few = np.mean(rows, axis=0)
    print(f"materials: accuracy {every:.4f} from all answers, {few:.4f} from a tenth of them", flush=True)


def speed() -> None:
    for kind in ("triplet", "odd_one_out"):
        study = simulate_judgements(100, 18, 25_000, kind=kind, seed=0)
        for structure in ("full", "auto"):
            clock = process_time()
            SimilarityMetric(study.items, structure=structure).fit(study.judgements)
            print(f"25,000 {kind}, d = 18, {structure}, standard errors: {process_time() - clock:.2f} s", flush=True)


def coverage() -> None:
    for d, questions, kind, runs in COVERED:
        inside = []
        for seed in range(runs):
            study = simulate_judgements(100, d, questions, kind=kind, seed=seed)
            model = SimilarityMetric(study.items, structure="full").fit(study.judgements)
            pairs = np.random.default_rng(seed).integers(0, 100, (100, 2))
            pairs = pairs[pairs[:, 0] != pairs[:, 1]]
            step = study.items[pairs[:, 0]] - study.items[pairs[:, 1]]
            truth = np.sqrt(np.einsum("pd,de,pe->p", step, study.metric, step))
            upper = np.triu_indices(d)
            inside.append(
                [entries(model).contains(study.metric)[upper].mean(), distances(model, pairs).contains(truth).mean()]
            )
        mean, error = np.mean(inside, axis=0), np.std(inside, axis=0, ddof=1) / np.sqrt(runs)
        print(
            f"90 % intervals, {questions:,} answers ({kind}), d = {d}, {runs} studies: entries {mean[0]:.3f} ± "
            f"{error[0]:.3f}, distances {mean[1]:.3f} ± {error[1]:.3f}",
            flush=True,
        )


def promise() -> None:
    for d, questions in ((4, 2_000), (8, 8_000)):
        errors, promised = [], []
        for seed in range(20):
            study = simulate_judgements(50, d, questions, seed=seed)
            model = SimilarityMetric(study.items, structure="full").fit(study.judgements)
            size = float(np.linalg.norm(study.metric))
            errors.append((float(np.linalg.norm(model.symmetric_metric_ - study.metric)) / size) ** 2)
            promised.append(plan_judgements(study.items, study.judgements, study.metric).error ** 2)
        print(
            f"d = {d}: promised error {np.mean(promised) ** 0.5:.3f}, measured {np.mean(errors) ** 0.5:.3f}", flush=True
        )


def main() -> None:
    speed()
    coverage()
    promise()
    if not (DATA / "materials").exists() or not (DATA / "faces").exists():
        print(f"no judgements of real people in {DATA}")
        return
    for name in ("materials", "faces"):
        real(name)
    tenth()
    own()
