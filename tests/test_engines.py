"""Jobs on this machine: the same results however many processes, and a sentence when one is killed."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest

from crowdmetric.engines.local import LocalEngine
from crowdmetric.errors import DataError, SolverError


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_job_is_done_once(jobs: int) -> None:
    done = dict(LocalEngine(jobs).map(math.sqrt, [4.0, 9.0, 16.0]))
    assert done == {4.0: 2.0, 9.0: 3.0, 16.0: 4.0}


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_goes_wrong_in_a_job_is_raised(jobs: int) -> None:
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        list(LocalEngine(jobs).map(math.sqrt, [4.0, -1.0, 9.0]))


def test_a_killed_process_is_said() -> None:
    with pytest.raises(SolverError, match=r"killed before it finished.*fewer jobs"):
        list(LocalEngine(2).map(os._exit, [1, 1, 1]))


def test_no_jobs_is_no_work() -> None:
    assert list(LocalEngine(2).map(math.sqrt, [])) == []


def test_one_process_a_core_unless_told() -> None:
    assert LocalEngine().jobs >= 1
    assert LocalEngine(3).jobs == 3
    assert LocalEngine.xp is np
    with pytest.raises(DataError, match="jobs=0 is not a number of processes; give 1 or more"):
        LocalEngine(0)
