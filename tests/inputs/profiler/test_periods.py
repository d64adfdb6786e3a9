"""How long a step was measured to take where neighbouring steps overlap; all worked by hand, in microseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.answers.profiled_job import replayed
from simfrontier.answers.step import KERNELS_FIRST, exposure
from simfrontier.base.errors import InputError
from simfrontier.inputs.profiler import Job, platform_of, read_job
from tests.inputs.profiler.traces import PERIOD, Event, annotated, call, kernel, prefetching, written

WORLD = [0, 1]


def job_of(tmp_path: Path, events: list[Event], step: int | None = None) -> Job:
    return read_job([written(tmp_path / "0.json", events, ranks=1)], step)


def parts_us(job: Job) -> tuple[float, float, float]:
    """(step, kernels, nothing) of the replay."""
    step = replayed(job, platform_of("perlmutter", {}, "--machine"))
    spent = exposure(step, KERNELS_FIRST)
    return step.step_s * 1e6, (spent.compute + spent.codec) * 1e6, spent.idle * 1e6


@pytest.mark.parametrize("step", [None, 0, 1, 4])
def test_a_step_takes_the_time_between_the_last_kernels_of_two_steps(tmp_path: Path, step: int | None) -> None:
    """1,000, not the 1,450 from the copy to the end of the product; so does the replay: 50 idle, 950 the product, and
    the copy hidden by it."""
    job = job_of(tmp_path, [event for number in range(5) for event in prefetching(number)], step)
    assert job.measured_s == pytest.approx(1000e-6)
    assert parts_us(job) == pytest.approx((1000, 950, 50))
    assert any("no step before ProfilerStep#0" in note for note in job.notes) == (step == 0)


@pytest.mark.parametrize(("numbers", "measured_us"), [((4,), 1450), ((2, 4), 1450), ((3, 4), 1000)])
def test_a_step_without_a_neighbour_is_the_span_of_its_kernels(
    tmp_path: Path, numbers: tuple[int, ...], measured_us: float
) -> None:
    """A number that is missing is no neighbour: two periods lie between the ends of steps 2 and 4."""
    job = job_of(tmp_path, [event for number in numbers for event in prefetching(number)], 4)
    assert job.measured_s == pytest.approx(measured_us * 1e-6)
    assert any("no step beside ProfilerStep#4" in note for note in job.notes) == (measured_us != 1000)


def test_kernels_that_run_into_the_next_step_are_counted_once(tmp_path: Path) -> None:
    """Stream 7 is never idle: products of 300 and 700. The last copy ends 500 behind them, so that a step goes from 500
    to 1,500: 500 of its own second product, then the first of the next step beside the copy."""
    events: list[Event] = []
    for number in range(3):
        at = number * PERIOD
        events += [
            annotated(number, at, at + 990),
            *kernel("a", 7, at, at + 300, 10 * number + 1, launched=at + 1),
            *kernel("b", 7, at + 300, at + 1000, 10 * number + 2, launched=at + 2),
            *kernel("Memcpy DtoH", 20, at + 1000, at + 1500, 10 * number + 3, launched=at + 3),
        ]
    job = job_of(tmp_path, events)
    assert job.measured_s == pytest.approx(1000e-6)
    assert parts_us(job) == pytest.approx((1000, 1000, 0))


@pytest.mark.parametrize(("begin", "took"), [(100, [100e-6]), (500, [75e-6, 25e-6])])
def test_ranks_that_copy_ahead_or_not_have_the_same_kernels(tmp_path: Path, begin: float, took: list[float]) -> None:
    """Rank 0 copies in before the previous step ends (550), or until 600; rank 1 behind its end: 100 on both, and 40 to
    copy out. Where 50 of rank 0 lie before the end and 50 behind it, the mean behind it is 75, before it 25. Products
    follow the copy and end at 1,550: 950 and 890, 920 on the mean."""
    files = []
    for rank in WORLD:
        events: list[Event] = []
        for number in range(2):
            at, first = number * PERIOD, number * PERIOD + (begin, 560)[rank]
            ready = max(at + 600, first + 100)
            events += [
                annotated(number, at, at + 990),
                *kernel("in", 20, first, first + 100, 10 * number + 1, launched=at + 1),
                *kernel("gemm", 7, ready, at + 1550, 10 * number + 2, launched=at + 2),
                *kernel("out", 20, at + 1400, at + 1440, 10 * number + 3, launched=at + 3),
            ]
        files.append(written(tmp_path / f"{rank}.json", events, rank))
    job = read_job(files)
    measured: dict[str, list[float]] = {"in": [], "gemm": [], "out": []}
    for name, each in job.kernels.items():
        if "pause" not in name:
            measured[name.split()[1]].append(each.seconds)
    assert measured == {"in": pytest.approx(took), "gemm": pytest.approx([920e-6]), "out": pytest.approx([40e-6])}
    assert parts_us(job)[0] == pytest.approx(1000)


def test_calls_keep_their_order_where_one_runs_ahead(tmp_path: Path) -> None:
    """A gather of rank 0 ends before the previous step does, on rank 1 behind it: both gather first, then reduce."""
    files = []
    for rank in WORLD:
        events: list[Event] = []
        for number in range(2):
            at, shift = number * PERIOD, 600 * rank
            calls = [
                *call("_allgather_base", 20, at + 10 + shift, at + 60 + shift, 10 * number + 1, 64, WORLD),
                *call("allreduce", 20, at + 1400, at + 1500, 10 * number + 3, 9, WORLD),
            ]
            calls[0]["ts"] = calls[2]["ts"] = at + 5
            product = kernel("gemm", 7, at + 600, at + 1550, 10 * number + 2, launched=at + 5)
            events += [annotated(number, at, at + 990), *product, *calls]
        files.append(written(tmp_path / f"{rank}.json", events, rank))
    job = read_job(files)
    assert job.measured_s == pytest.approx(1000e-6)
    assert [op.kind for op in job.schedule.ops if op.kind.startswith("all_")] == ["all_gather", "all_reduce"]


# ── which step ──


def stub(number: int, at: float, kernels: int = 0) -> list[Event]:
    """What stopping the profiler leaves of a step."""
    several = (kernel("fill", 7, at + 1, at + 2, 900 + i, launched=at + 1) for i in range(kernels))
    return [annotated(number, at, at + 50), *(event for each in several for event in each)]


def full(number: int, at: float) -> list[Event]:
    several = (kernel("gemm", 7, at + 10 * i, at + 10 * i + 9, 100 * number + i, launched=at + 1) for i in range(1, 9))
    return [annotated(number, at, at + 100), *(event for each in several for event in each)]


@pytest.mark.parametrize("kernels", [0, 1, 7])
def test_the_step_that_stopping_the_profiler_leaves_is_not_taken(tmp_path: Path, kernels: int) -> None:
    two = [*full(1, 0), *full(2, 100)]
    assert job_of(tmp_path, [*two, *stub(3, 200, kernels)]).step_name == "ProfilerStep#2"
    assert job_of(tmp_path, [*full(1, 0), *stub(2, 100, kernels)]).step_name == "ProfilerStep#1"


def test_a_step_without_kernels_is_refused_with_those_that_have_some(tmp_path: Path) -> None:
    events = [*full(1, 0), *full(2, 100), *stub(3, 200)]
    with pytest.raises(
        InputError, match=r'"ProfilerStep#3": no kernel was launched in it; .* kernels, here ProfilerStep#1-2$'
    ):
        job_of(tmp_path, events, 3)
    with pytest.raises(InputError, match="no kernel was launched in any step"):
        job_of(tmp_path, [*stub(3, 200), *kernel("gemm", 7, 0, 9, 1, launched=1)])
