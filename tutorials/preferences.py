"""From embeddings to an aligned metric in ten minutes
===================================================

You have items with embeddings, and people who answer "this one or that one?". You want distances that mean what
*they* mean by similar. This page goes the whole way on a small catalogue whose truth is known, so every step can
be checked: plan, ask, diagnose, learn, doubt, evaluate, use.

**What is real here and what is not.** The 48 drinks and their tastes were made up by hand, the embedding is made of
them, and the crowd is simulated. Only that way can we compare what was learned with what is true. For real people see
the data sets at the end.
"""

# %%
# 1. Items: embeddings that know more than taste
# ----------------------------------------------

import numpy as np

CATALOGUE = """
espresso 04000, black coffee 03000, cappuccino 12003, latte 11004, mocha 32003, iced coffee 22002,
irish coffee 22203, black tea 02000, green tea 02000, chai latte 31003, herbal tea 01000,
iced tea 31000, hot chocolate 41003, milk 10003, milkshake 40004, oat drink 10003, lassi 20004,
kefir 00014, orange juice 30000, apple juice 30000, grapefruit juice 12000, tomato juice 10001,
lemonade 40020, cola 41040, ginger ale 31040, tonic water 23040, sparkling water 00040,
still water 00000, kombucha 11030, root beer 40041, energy drink 41030, pilsner 03130,
pale ale 04130, stout 13123, wheat beer 11131, cider 30130, dry white wine 01200,
sweet white wine 30200, red wine 02200, champagne 11240, port wine 41300, gin and tonic 13240,
negroni 24300, whisky 02400, vodka 01400, rum 11400, irish cream 40204, eggnog 40104
"""
entries = [entry.strip().rsplit(" ", 1) for entry in CATALOGUE.split(",")]
names = np.array([name for name, _ in entries])
taste = np.array([[int(digit) for digit in scores] for _, scores in entries])  # 0 … 4
number = {name: row for row, name in enumerate(names)}
print(f"{len(names)} drinks, how sweet, bitter, strong, fizzy and creamy; espresso: {taste[0]}")

# %%
# A real embedding mixes what people care about with much that they do not. Ours has 32 numbers: five tastes, and two
# things that vary even more and that nobody tastes (say, the style of the label and the shelf in the shop), turned in
# a random direction, with a little noise.

generator = np.random.default_rng(7)
unseen = 1.6 * generator.normal(size=(len(names), 2))  # label and shelf
qualities = np.hstack([taste / 2 - 1, unseen])
turn = np.linalg.qr(generator.normal(size=(32, 7))).Q
embeddings = qualities @ turn.T + 0.02 * generator.normal(size=(len(names), 32))


def nearest(coordinates, name, count=5):
    """Return the items nearest to one, nearest first."""
    distance = np.linalg.norm(coordinates - coordinates[number[name]], axis=1)
    return ", ".join(names[np.argsort(distance, kind="stable")[1 : count + 1]])


for name in ("espresso", "cola", "milk"):
    print(f"{name}: {nearest(embeddings, name)}")

# %%
# Red wine and pale ale beside espresso, herbal tea beside milk: plain distance takes labels and shelves as seriously
# as taste.
#
# A metric of 32 features has 528 unknowns. PCA keeps what the items vary in, and the way back is kept with it
# (:doc:`more on that </how-to/embeddings>`):

from crowdmetric.preprocess import ItemMap

reduce = ItemMap(components=0.99)
items = reduce.fit_transform(embeddings)
print(reduce.summary())

# %%
# 2. Plan: how many people?
# -------------------------
#
# Before anybody is asked: with two random questions each, how many people does a relative error of 20 % (up to scale)
# take, if the metric is about the identity?

from crowdmetric.design import plan

guess = np.eye(items.shape[1])
needed = plan(items, target=0.2, answers=2, kinds=("random",), shape=True, metric=guess)
print(needed.summary())

# %%
# Answers of one person explain each other: 6,000 of them teach more from 1,500 people with four each than from 3,000
# with two (in a trial, an error of 0.11 instead of 0.16). So we ask 1,500 people four questions. (``design`` would
# choose :doc:`better questions </how-to/design>` than random ones; it takes a minute here.)
#
# 3. Ask
# ------
#
# Our crowd is simulated. Everybody has an ideal drink in mind; strength and sweetness matter most to them, label and
# shelf next to nothing. They answer with noise. **The estimator sees none of what is in this cell but ``pairs``,
# ``answers`` and ``people``.**

from crowdmetric.simulate import answer

back = turn.T @ reduce.matrix_.T  # from reduced items to qualities
care = np.diag([1.5, 0.9, 2.4, 0.75, 1.2, 0.03, 0.03])  # sweet, bitter, strong, fizzy, creamy, label, shelf
truth = back.T @ care @ back
ideal = (np.hstack([generator.normal(size=(1500, 5)), np.zeros((1500, 2))]) - turn.T @ reduce.mean_) @ back

people = np.repeat(np.arange(1500), 4)
left = generator.integers(len(names), size=len(people))
right = (left + generator.integers(1, len(names), size=len(people))) % len(names)
pairs = np.column_stack([left, right])
answers = answer(items, pairs, ideal[people], truth, seed=1)  # −1: the left one, +1: the right one

# %%
# Your own answers come from a file or a data frame in the same way, ``Comparisons.read("answers.csv",
# items="items.csv")``. Ids may be text.

from crowdmetric import Comparisons

comparisons = Comparisons.from_arrays(people, names[pairs], answers, item_ids=names)
print(comparisons.summary())

# %%
# 4. Diagnose: can these answers teach a metric at all?
# -----------------------------------------------------

from crowdmetric.identifiability import diagnose

print(diagnose(items, comparisons, item_ids=names).summary().split("\n\n")[0])

# %%
# Four answers cannot even locate the person who gave them, so without any assumption they teach nothing: that is
# the theorem at the heart of the paper. Taken as *one population*, the same people teach everything (:doc:`why
# </explanation/can-i-learn>`).
#
# 5. Learn
# --------

from crowdmetric import PopulationMetric

model = PopulationMetric(items).fit(comparisons)
print(model.solution_.status)

# %%
from crowdmetric.symmetric import shape_error

print(f"error of the metric up to scale: {shape_error(model.metric_, truth):.2f}")
print(f"of plain distance:               {shape_error(np.eye(len(truth)), truth):.2f}")
for name in ("espresso", "cola", "milk"):
    print(f"{name}: {nearest(model.transform(items), name)}")

# %%
# Espresso is among coffee and tea, milk among things with milk. What does the crowd care about? In our made-up world
# we can look, because we know which direction is which taste:

import matplotlib.pyplot as plt

qualities_of = np.linalg.pinv(back)  # from qualities to reduced items
learned = qualities_of.T @ model.metric_ @ qualities_of
labels = ["sweet", "bitter", "strong", "fizzy", "creamy", "label", "shelf"]
place = np.arange(7)
figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
axes.bar(place - 0.2, np.diag(care) / np.trace(care), width=0.4, label="true", color="#0072B2")
axes.bar(place + 0.2, np.diag(learned) / np.trace(learned), width=0.4, label="learned", color="#E69F00")
axes.set_xticks(place, labels)
axes.set_ylabel("share of the metric")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)

# %%
# 6. Doubt: how sure is it?
# -------------------------
#
# Every statement about distances comes with an interval (:doc:`what they promise </explanation/uncertainty>`).

from crowdmetric.intervals import closer, distance_ratios

cola, whisky, lemonade = number["cola"], number["whisky"], number["lemonade"]
ratio = distance_ratios(model, [[cola, whisky]], [[cola, lemonade]])
print(
    f"whisky is {ratio.estimate[0]:.1f} times as far from cola as lemonade is "
    f"({ratio.low[0]:.1f} to {ratio.high[0]:.1f} with 90 % confidence)"
)
for a, b, c in (("espresso", "black tea", "whisky"), ("cider", "champagne", "lemonade")):
    verdict = closer(model, number[a], number[b], number[c])
    print(f"a = {a}, b = {b}, c = {c}: {verdict.summary()}")

# %%
# 7. Evaluate: is it worth using?
# -------------------------------
#
# A metric is worth using if it predicts what it has not seen better than models that need no metric. Two hard tests:
# people never asked, and drinks never shown (:doc:`all three, and the models </how-to/evaluation>`).

from crowdmetric.evaluate import evaluate

models = ["bradley-terry", "linear", "identity", "population"]
print(evaluate(items, comparisons, models, splits=("people", "items"), repeats=1, jobs=1).summary())

# %%
# Of somebody of whom nothing is known, little can be predicted by anyone: 50 % is a coin. What the metric adds is
# plain on new items, where popularity has nothing to say.
#
# 8. Use it
# ---------
#
# **scikit-learn.** A fitted model is a transformer. Is a drink alcoholic? Ask its nearest neighbor, leaving the
# drink itself out:

from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import LeaveOneOut, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

alcoholic = taste[:, 2] > 0
neighbor = KNeighborsClassifier(n_neighbors=1)
learned_neighbor = make_pipeline(FrozenEstimator(model), neighbor)
for name, classifier in {"plain": neighbor, "learned": learned_neighbor}.items():
    right_ones = cross_val_score(classifier, items, alcoholic, cv=LeaveOneOut())
    print(f"{name} distance: {right_ones.mean():.0%} right")

# %%
# **A vector index.** One matrix takes the *original* embeddings to coordinates in which Euclidean distance is the
# learned distance. FAISS, hnswlib and pgvector need to know nothing else.

import faiss

from crowdmetric.export import linear_head

head = linear_head(model, reduce)  # 32 numbers in
vectors = head(embeddings)  # float32
index = faiss.IndexFlatL2(vectors.shape[1])
index.add(vectors)
_, found = index.search(head(embeddings[[number["negroni"]]]), 6)
print(f"negroni: {', '.join(names[found[0, 1:]])}")

# %%
# **Somebody new.** Five answers place a person; the model says what they would like, and which question would tell
# most about them (:doc:`people </how-to/people>`).

from crowdmetric.locate import locate

chosen = ["espresso", "red wine", "black tea", "negroni", "rum"]
refused = ["cola", "milk", "latte", "lemonade", "cider"]
rows = [[number[better], number[worse]] for better, worse in zip(chosen, refused, strict=True)]
ann = locate(model, rows, [-1] * len(rows), users=["ann"] * len(rows))
print(f"Ann would like: {', '.join(names[ann.rank_items(top=5)[0]])}")
question = ann.next_question()
print(f"ask her next: {' or '.join(names[question.pairs[0]])}?")
print(f"which would tell {question.information[0]:.2f} of at most 0.69 nats")

# %%
# **Save it.** A folder with the metric, the preprocessing and a checksum; a damaged file, or one of a newer version,
# says so.

import tempfile
from pathlib import Path

from crowdmetric.persist import load_model, save_model

with tempfile.TemporaryDirectory() as folder:
    save_model(Path(folder) / "drinks", model, item_ids=names, preprocessing=reduce)
    saved = load_model(Path(folder) / "drinks")
print("a metric of the embeddings:", saved.original_metric.shape)

# %%
# Now with your own
# -----------------
#
# Two tables are enough, ``items.csv`` (``item_id`` and numbers) and ``answers.csv`` (``user``, ``left``, ``right``,
# ``choice``):
#
# .. code-block:: sh
#
#     crowdmetric diagnose items.csv answers.csv
#     crowdmetric fit items.csv answers.csv --pca 0.95 --out model    # and model/report.html to read
#     crowdmetric export model --out head.npz
#
# No answers yet? :doc:`Plan a questionnaire </how-to/design>`. No people? Try :doc:`Sushi, MovieLens or Jester
# </how-to/datasets>`, whose people are real, and who are not all as well-behaved as ours.
