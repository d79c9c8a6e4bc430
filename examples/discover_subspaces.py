"""Find the subspaces that items lie in, learn a metric from answers inside them, and see what discovering cost.

python examples/discover_subspaces.py
"""

from __future__ import annotations

import warnings

from sklearn.metrics import adjusted_rand_score

from crowdmetric import StitchedMetric
from crowdmetric.errors import DroppedRowsWarning
from crowdmetric.simulate import simulate_crowd
from crowdmetric.symmetric import shape_error


def main() -> dict[str, float]:
    crowd = simulate_crowd(dimension=4, subspaces=12, rank=2, users=20, comparisons=8, noise=0.02, seed=0)
    errors = {}
    for name, subspaces in {"labels given": crowd.labels, "discovered": "discover"}.items():
        model = StitchedMetric(crowd.items, subspaces=subspaces, rank=2, tol=1e-5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DroppedRowsWarning)  # a few items near two subspaces; counted in n_across_
            model.fit(crowd.pairs, crowd.y, users=crowd.users)
        errors[name] = shape_error(model.metric_, crowd.metric)
    print(model.discovery_.summary())
    errors["agreement"] = adjusted_rand_score(crowd.labels, model.labels_)
    print(f"adjusted Rand index with the truth: {errors['agreement']:.3f}")
    print(f"shape error of the metric: {errors['discovered']:.3f}, with labels given {errors['labels given']:.3f}")
    return errors


if __name__ == "__main__":
    main()
