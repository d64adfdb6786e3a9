"""What a step is when ranks differ, clocks are others, and traces lack something; times in microseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.answers.profiled_job import replayed
from simfrontier.core.engine import Fidelity
from simfrontier.inputs.profiler import Job, platform_of, read_job
from simfrontier.inputs.profiler.programs import placed
from simfrontier.inputs.profiler.read_rank import read_rank
from tests.inputs.profiler.traces import Event, annotated, call, kernel, written

WORLD = [0, 1]


def job_of(tmp_path: Path, *ranks: list[Event], backend: str = "nccl") -> Job:
    each = enumerate(ranks)
    return read_job([written(tmp_path / f"{rank}.json", events, rank, len(ranks), backend) for rank, events in each])


@pytest.mark.parametrize("fidelity", ["flow", "analytic", "chunk"])
@pytest.mark.parametrize("slow", [0, 1])
def test_a_rank_whose_host_stalls_holds_up_the_others(tmp_path: Path, slow: int, fidelity: Fidelity) -> None:
    """One rank launches its second kernel 100 ms late; both reduce then. Whichever of the two it is."""
    ranks = []
    for rank in WORLD:
        late = 100_000 if rank == slow else 0
        events = [*kernel("a", 7, 0, 100, 1), *kernel("b", 7, 100 + late, 200 + late, 2)]
        ranks.append([*events, *call("allreduce", 7, 200 + late, 100_300, 3, 1 << 20, WORLD)])
    job = job_of(tmp_path, *ranks)
    step_s = replayed(job, platform_of("perlmutter", {}, "--machine"), fidelity).step_s
    assert step_s == pytest.approx(100_200e-6, rel=0.01)
    assert sorted(job.times) == WORLD


def test_a_step_lasts_as_long_as_the_host_takes_for_it(tmp_path: Path) -> None:
    """The host's step is 1,000 long; kernels run from 300 to 500: pauses of 300 before and 500 behind."""
    job = job_of(tmp_path, [annotated(0, 0, 1000), *kernel("a", 7, 300, 500, 1)])
    assert job.measured_s == pytest.approx(1000e-6)
    step = replayed(job, platform_of("perlmutter", {}, "--machine"))
    assert step.step_s == pytest.approx(1000e-6) and step.compute_s == pytest.approx(200e-6)


def test_kernels_that_lag_behind_the_host_are_a_step_of_their_own_length(tmp_path: Path) -> None:
    """Launched from 0 to 400, run from 900 to 1,400: 500, as the device is what takes long. Without a neighbour that is
    all that is known, and said."""
    job = job_of(tmp_path, [annotated(0, 0, 400), *kernel("a", 7, 900, 1400, 1)])
    assert job.measured_s == pytest.approx(500e-6)
    assert any("no step beside ProfilerStep#0" in note for note in job.notes)


@pytest.mark.parametrize("since", [0.0, 5e12, 1.7e15])
def test_clocks_may_count_from_anywhere(tmp_path: Path, since: float) -> None:
    """Microseconds since 1970 are floats of quarters: what is below one is no pause."""
    events = [*kernel("a", 7, since, since + 8, 1), *kernel("b", 7, since + 8.25, since + 20, 2)]
    events[0]["ts"] = events[2]["ts"] = since
    path = written(tmp_path / "trace.json", events, ranks=1)
    pauses = [each.pause_s for each in placed(read_rank(path))]
    assert pauses == [0.0, 0.0 if since > 1e15 else pytest.approx(0.25e-6, rel=1e-2)]


def test_calls_within_an_annotation_of_the_host_are_found(tmp_path: Path) -> None:
    args = call("allreduce", 20, 0, 9, 1, 4, WORLD)[1]["args"]
    outer = {"ph": "X", "cat": "user_annotation", "name": "train", "pid": 1, "tid": 1, "ts": 0, "dur": 100}
    inner = {"ph": "X", "cat": "cpu_op", "name": "c10d", "pid": 1, "tid": 1, "ts": 10, "dur": 20, "args": args}
    job = job_of(tmp_path, [outer, inner], [outer, inner], backend="gloo")
    assert len(job.call_s[0]) == 1


def test_calls_of_one_number_are_told_apart(tmp_path: Path) -> None:
    """Two that were made together: 4 and 40 long on both ranks."""
    pair = [*call("allreduce", 20, 0, 4, 1, 9, WORLD, Seq=1), *call("allreduce", 20, 4, 44, 2, 999, WORLD, Seq=1)]
    assert list(job_of(tmp_path, pair, pair).call_s[0].values()) == [pytest.approx(4e-6), pytest.approx(40e-6)]
