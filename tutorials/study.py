"""
A study, from rehearsal to report
=================================

You want to ask people yourself. ``crowdmetric collect`` turns a table of items into a study that people take on a
phone. This lesson makes one, rehearses it with simulated people, and then reads the report that real answers would
give. All of it happens in a shell; this page runs the same commands.

**What is real here and what is not.** The server, the rehearsal and the report are real. The people are simulated.
"""

# %%
# 1. A table of items
# -------------------
#
# One row per item: its name, and features in numbers. Columns ``text``, ``image``, ``audio`` or ``video`` would be
# what people see; without them they see the names.

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
drinks = """
espresso 0 4 0, latte 1 1 0, cola 4 1 0, lemonade 4 0 0, green tea 0 2 0, milk 1 0 0, orange juice 3 0 0,
tonic water 2 3 0, stout 1 3 1, cider 3 0 1, red wine 0 2 2, whisky 0 2 4, port wine 4 1 3, negroni 2 4 3
"""
rows = [entry.strip().rsplit(" ", 3) for entry in drinks.split(",")]
with open(folder / "drinks.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["item_id", "sweet", "bitter", "strong"])
    table.writerows(rows)


def crowdmetric(*words):
    """Run a command as a shell would, and show what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "crowdmetric", *words, "--quiet"], cwd=folder, capture_output=True, text=True, check=True
    )
    print("$ crowdmetric", " ".join(words))
    print(done.stdout.rstrip())


# %%
# 2. How many people?
# -------------------
#
# Three features make a metric of six numbers. How many people does it take to know them to within 20 %?

crowdmetric("plan", "drinks.csv", "--answers", "8", "--error", "0.2", "--kind", "random")

# %%
# 3. Make the study
# -----------------
#
# The first command makes a folder ``study`` with a commented ``study.toml``. Change the wording, the consent and the
# number of people there; here, random questions instead of optimal ones, which take a minute to choose. ``--check``
# says what is wrong with it, without starting anything.

crowdmetric("collect", "drinks.csv", "--check")

settings = folder / "study" / "study.toml"
text = settings.read_text(encoding="utf-8")
settings.write_text(text.replace('kind = "optimal"', 'kind = "random"'), encoding="utf-8")
crowdmetric("collect", "study", "--check")

# %%
# 4. Rehearse
# -----------
#
# Simulated people with a known metric go through the real server, to a store of their own. If a rehearsal does not
# find its own metric, real people will not help: ask more of them, or ask other questions.

crowdmetric("collect", "study", "--rehearse", "30")

# %%
# 5. Ask real people
# ------------------
#
# Without ``--rehearse`` the same command serves the study and prints two links: one for participants, one for you,
# with a live verdict. When enough people have answered, ``crowdmetric collect export study --out answers.csv`` writes
# their answers. :doc:`/how-to/collect` has servers, panels, consent and erasure.
#
# Here we simulate what comes out: 150 people who care about strength most, and about bitterness least.

import numpy as np

from crowdmetric.simulate import answer
from crowdmetric.tables import read_items

items = read_items(folder / "drinks.csv")
rng = np.random.default_rng(0)
truth = np.diag([0.3, 0.1, 0.6])
person = np.repeat(np.arange(150), 8)
left = rng.integers(14, size=len(person))
pairs = np.column_stack([left, (left + rng.integers(1, 14, size=len(person))) % 14])
ideal = items.features.mean(axis=0) + 1.2 * rng.normal(size=(150, 3))
y = answer(items.features, pairs, ideal[person], truth, seed=1)
with open(folder / "answers.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["user", "left", "right", "choice"])
    names = [row[0] for row in rows]
    table.writerows(
        (f"p{who}", names[a], names[b], "left" if said < 0 else "right")
        for who, (a, b), said in zip(person, pairs, y, strict=True)
    )

# %%
# 6. Can these answers teach a metric?
# ------------------------------------

crowdmetric("diagnose", "drinks.csv", "answers.csv")

# %%
# 7. Fit, and read the report
# ---------------------------
#
# One command chooses a model by hidden answers, learns it and writes ``model/report.html``.

crowdmetric("fit", "drinks.csv", "answers.csv", "--out", "model")

# %%
# The report is one file that opens anywhere: what was learned with intervals, what it predicts, what to be careful
# about, and what changed for each item (:doc:`/reference/report`). The model itself is beside it:

import matplotlib.pyplot as plt

from crowdmetric.persist import load_model

saved = load_model(folder / "model")
shares = {
    "true": np.diag(truth) / np.trace(truth),
    "learned": np.diag(saved.original_metric) / np.trace(saved.original_metric),
}
figure, axes = plt.subplots(figsize=(6.4, 3), layout="constrained")
for shift, (name, share), color in zip((-0.2, 0.2), shares.items(), ("#E69F00", "#0072B2"), strict=True):
    axes.bar(np.arange(3) + shift, share, width=0.4, color=color, label=name)
axes.set_xticks(np.arange(3), items.feature_names)
axes.set(ylabel="share of the metric")
axes.legend(frameon=False)
