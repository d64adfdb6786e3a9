"""Ranks that run a kernel more than the others, as one that logs does; times in microseconds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from simfrontier.answers.profiled_job import replayed
from simfrontier.inputs.profiler import Job, platform_of, read_job
from tests.inputs.profiler.traces import Event, call, kernel, written

WORLD = [0, 1]
NAMES = [f"gemm {random.Random(seed).randrange(5)}" for seed in range(30)]  # many of the same name


def rank(*extra: int, call_ends: float, count: int = 0) -> list[Event]:
    """Thirty kernels of 10 each, the next after the other, then a reduction; before those with the numbers `extra`
    stands a copy of 40."""
    events, now = list[Event](), 0.0
    for number, name in enumerate([*NAMES, None]):
        copies = extra.count(number)
        for _ in range(copies):
            count += 1
            events += kernel("copy", 7, now, now + 40, count)
            now += 40
        count += 1
        if name is not None:
            events += kernel(name, 7, now, now + 10, count)
            now += 10
    return [*events, *call("allreduce", 7, now, call_ends, count, 1 << 10, WORLD)]


def job_of(folder: Path, *ranks: list[Event]) -> Job:
    return read_job([written(folder / f"{number}.json", events, number) for number, events in enumerate(ranks)])


@pytest.mark.parametrize("extra", [(0,), (7,), (30,), (3, 3), (0, 30)])
@pytest.mark.parametrize("slow", WORLD)
def test_what_one_rank_alone_runs_is_a_pause_of_the_same_length(
    tmp_path: Path, extra: tuple[int, ...], slow: int
) -> None:
    """The reduction waits for the rank that copies: 300 and 40 for each copy, then 20."""
    end = 300 + 40 * len(extra) + 20
    own, other = rank(*extra, call_ends=end), rank(call_ends=end)
    job = job_of(tmp_path, *((own, other) if slow == 0 else (other, own)))
    assert len(job.roles.programs[0]) == 2 and not any("copy" in name for name in job.kernels)
    assert sum(name.startswith("rank gemm") for name in job.kernels) == 30
    assert f"{len(extra)} kernel" in next(note for note in job.notes if "not all ranks run" in note)
    step = replayed(job, platform_of("perlmutter", {}, "--machine"))
    call_s = job.call_s[0][next(iter(job.call_s[0]))]
    assert call_s == pytest.approx(20e-6) and job.measured_s == pytest.approx(end * 1e-6)
    assert step.step_s == pytest.approx((end - 20) * 1e-6, abs=20e-6) and step.compute_s == pytest.approx(300e-6)


def test_ranks_of_too_different_kernels_are_left_out(tmp_path: Path) -> None:
    job = job_of(tmp_path, rank(call_ends=800), rank(*range(0, 30, 5), call_ends=800))
    assert any("1 ranks run other kernels" in note for note in job.notes)


def test_an_extra_kernel_may_have_the_name_of_others(tmp_path: Path) -> None:
    """`a b a b c ...` beside `b a b c ...`: all of the second are in common, not only those behind its first `a`."""
    ranks = []
    for names in ("ababcccccccc", "babcccccccc"):
        events = [each for at, name in enumerate(names) for each in kernel(name, 7, 10 * at, 10 * at + 10, at + 1)]
        ranks.append([*events, *call("allreduce", 7, 10 * len(names), 150, 20, 9, WORLD)])
    job = job_of(tmp_path, *ranks)
    assert sum(" pause " not in name for name in job.kernels) == 11


def test_as_many_kernels_are_matched_by_number_whatever_their_names(tmp_path: Path) -> None:
    """8 and 12 long: 10 on the mean. On another stream one rank has a copy more."""
    files = []
    for number, end in enumerate((8, 12)):
        copies = [each for at in range(12 + number) for each in kernel("copy", 9, at, at + 1, 10 + at)]
        products = [
            each for at in range(14) for each in kernel(f"gemm of {number}", 7, end * at, end * at + end, 30 + at)
        ]
        files.append([*copies, *products, *call("allreduce", 7, 180, 200, 50, 9, WORLD)])
    job = job_of(tmp_path, *files)
    products_s = [each.seconds for name, each in job.kernels.items() if "gemm" in name]
    assert products_s == [pytest.approx(10e-6)] * 14
    assert sum("copy" in name for name in job.kernels) == 12
