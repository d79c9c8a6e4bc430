"""What the complete reproduction costs, from a systematic sample of its jobs, beside the published code's cost."""

from __future__ import annotations

from collections.abc import Sequence
from time import process_time

from crowdmetric.experiments.cells import FIGURES, cells_of
from crowdmetric.experiments.learners import Job, run_cell
from crowdmetric.experiments.runner import jobs_for

RUNS = 30
EVERY = 17  # of all jobs, in order of experiment, rank, loss and cost
EVERY_OF_PANEL = 5
# Experiment 1 at β = 1 with the published code, as measured elsewhere.
PANEL = next(figure for figure in FIGURES if figure.name == "exp1-logistic-beta1")
PUBLISHED_HOURS = 44.0


def main() -> None:
    jobs = jobs_for(cells_of(FIGURES), RUNS)
    jobs.sort(key=lambda job: (job[0].experiment, job[0].r, job[0].loss))  # stable: by cost within
    panel = [(cell, ("oracle",), numbers) for cell, _, numbers in jobs_for(cells_of((PANEL,)), RUNS)]
    for kind in {(job[0].r, job[0].loss): job for job in jobs}.values():
        run_cell((*kind[:2], (0,)))  # compiles, or loads what was compiled
    minutes = _estimate(jobs, EVERY) / 60.0
    print(
        f"complete reproduction, {RUNS} runs, {len(jobs)} jobs: about {minutes:.1f} CPU minutes "
        f"(every {EVERY}th job was run), {minutes / 2.0:.1f} minutes on two cores"
    )
    published = _estimate(panel, EVERY_OF_PANEL)
    print(
        f"Experiment 1 at β = 1 with the oracle: about {published:.0f} CPU seconds, "
        f"{PUBLISHED_HOURS * 3600.0 / published:.0f} times less than the published code's {PUBLISHED_HOURS:.0f} hours"
    )


def _estimate(jobs: Sequence[Job], every: int) -> float:
    """Return the CPU seconds of all jobs, from every so many of them."""
    sample = jobs[every // 2 :: every]
    clock = process_time()
    for job in sample:
        run_cell(job)
    return (process_time() - clock) * len(jobs) / len(sample)
