"""
Is this embedding aligned with people?
======================================

Two embeddings of the same pictures, one crowd that judged them: which embedding sees what people see, and how far is
it from the best that any linear map of it could do? The pictures are handwritten digits. The judgements are
simulated: people compare the shapes of the digits as an average over neighboring pixels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from crowdmetric.evaluate import evaluate_similarity
from crowdmetric.preprocess import ItemMap
from crowdmetric.simulate_judgements import simulate_judgements

rng = np.random.default_rng(0)
pictures = load_digits().images[:150] / 16.0
blurred = pictures.reshape(150, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(150, 16)
seen = ItemMap(components=5).fit_transform(blurred)
judgements = simulate_judgements(seen, None, 6_000, kind="triplet", metric=6 * np.eye(5), beta=1.0).judgements

embeddings = {
    "pixels": ItemMap(components=8).fit_transform(pictures.reshape(150, 64)),
    "random network": ItemMap(components=8).fit_transform(
        np.tanh(pictures.reshape(150, 64) @ rng.normal(size=(64, 64)))
    ),
}

# %%
# Judgements about items that no model has seen, predicted by each embedding as it comes and after a learned metric.

share = {}
for name, items in embeddings.items():
    found = evaluate_similarity(items, judgements, ["euclid", "chosen"], splits=["items"], folds=3)
    share[name] = [found.result("items", model).accuracy for model in ("euclid", "chosen")]
    print(f"{name}: {share[name][0]:.0%} of the judgements as it comes, {share[name][1]:.0%} after alignment")

figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
for shift, column, label, color in ((-0.2, 0, "as it comes", "#E69F00"), (0.2, 1, "aligned", "#0072B2")):
    axes.bar(np.arange(2) + shift, [share[name][column] for name in share], width=0.4, color=color, label=label)
axes.axhline(0.5, color="gray", linestyle=":")
axes.set_xticks(np.arange(2), share)
axes.set(ylabel="judgements predicted, new items", ylim=(0.4, 1))
axes.legend(frameon=False)
