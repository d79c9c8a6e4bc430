"""Before a study: how many people, what to ask them, and whether the promise was kept.

python examples/plan_study.py
"""

from __future__ import annotations

import numpy as np

from crowdmetric import PopulationMetric
from crowdmetric.design import design, plan
from crowdmetric.simulate import answer, sample_metric
from crowdmetric.symmetric import relative_error

PEOPLE = 1_500


def main() -> dict[str, float]:
    rng = np.random.default_rng(0)
    items = rng.normal(size=(40, 3)) / np.sqrt(3)
    guess = np.eye(3)
    print(plan(items, target=0.2, answers=2, kinds=("random",), metric=guess).summary())
    ask = design(items, people=PEOPLE, answers=2, kind="random", metric=guess, seed=0)
    print(ask.summary())
    # ask.write("questionnaire.csv") is what people are then asked; here they are simulated
    truth = sample_metric(3, rng)
    ideal = rng.normal(size=(PEOPLE, 3)) / np.sqrt(3)
    y = answer(items, ask.pairs, ideal[ask.person], truth, seed=1)
    model = PopulationMetric(items).fit(ask.pairs, y, users=ask.person)
    errors = {"promised": ask.expected_error, "got": relative_error(model.metric_, truth)}
    print(f"promised an error of {errors['promised']:.2f} before anyone was asked, got {errors['got']:.2f}")
    return errors


if __name__ == "__main__":
    main()
