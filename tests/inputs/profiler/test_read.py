"""Traces that cannot be used: one line each that says what, where, and what is allowed."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from simfrontier.base.errors import InputError
from simfrontier.inputs.profiler import read_job
from simfrontier.inputs.profiler.read_rank import read_rank
from tests.inputs.profiler.traces import Event, annotated, call, kernel, written

WORLD = [0, 1]


def ranks(folder: Path, *events: Event, **head: Any) -> list[Path]:
    """Two ranks with the same events."""
    return [written(folder / f"rank{rank}.json", events, rank, **head) for rank in WORLD]


def refused(files: list[Path]) -> str:
    with pytest.raises(InputError) as error:
        read_job(files)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_two_ranks_that_gather_are_a_job(tmp_path: Path) -> None:
    """Rank 1 comes 3 us later to the gather that ends at 30: 17 us are what it took, of 20 and 17 the least."""
    events = [*call("_allgather_base", 20, 10, 30, 1, 64, WORLD), *kernel("gemm", 7, 0, 8, 2)]
    late = [*call("_allgather_base", 20, 13, 30, 1, 64, WORLD), *kernel("gemm", 7, 0, 8, 2)]
    files = [written(tmp_path / f"{r}.json", each, r) for r, each in enumerate((events, late))]
    job = read_job(files)
    assert job.schedule.mesh.axes == (("axis0", 2),)
    assert list(job.call_s[0].values()) == [pytest.approx(17e-6)]
    assert job.measured_s == pytest.approx(30e-6)


def test_kernels_take_the_mean_of_the_ranks_and_each_rank_its_own(tmp_path: Path) -> None:
    """8 and 12 us: 10 us on the mean, 0.8 and 1.2 times as long."""
    files = [
        written(tmp_path / f"{r}.json", [*kernel("gemm", 7, 0, end, 1), *call("allreduce", 7, end, 20, 2, 9, WORLD)], r)
        for r, end in enumerate((8, 12))
    ]
    job = read_job(files)
    assert [kernel.seconds for kernel in job.kernels.values()] == [pytest.approx(10e-6)]
    assert {rank: list(own.values()) for rank, own in job.times.items()} == {
        0: [pytest.approx(0.8)],
        1: [pytest.approx(1.2)],
    }


def test_calls_are_matched_by_their_numbers_where_they_have_them(tmp_path: Path) -> None:
    """The profiler of rank 1 began one call later: its first call is number 2, as the second of rank 0."""
    first = [*call("allreduce", 20, 0, 10, 1, 9, WORLD, Seq=1), *call("allreduce", 20, 10, 30, 2, 9, WORLD, Seq=2)]
    second = [*call("allreduce", 20, 25, 30, 1, 9, WORLD, Seq=2), *call("allreduce", 20, 30, 34, 2, 9, WORLD, Seq=3)]
    files = [written(tmp_path / f"{r}.json", events, r) for r, events in enumerate((first, second))]
    job = read_job(files)
    assert list(job.call_s[0].values()) == [pytest.approx(10e-6), pytest.approx(5e-6)]


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (call("allreduce", 20, 0, 9, 1, 4, WORLD, **{"Process Group Ranks": "[0, 1, ...]", "Group size": 40}),
         "PyTorch cuts long lists short"),
        (call("allreduce", 20, 0, 9, 1, 4, [0, 1, 5]), "rank 5 in a job of 2"),
        ([], "no event of a device"),
    ],
)  # fmt: skip
def test_an_event_that_cannot_be_used_is_one_line(tmp_path: Path, events: list[Event], said: str) -> None:
    line = refused(ranks(tmp_path, *events))
    assert said in line and line.startswith(str(tmp_path))


MM = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 100, "dur": 300, "args": {}}
GPU = {"id": 0, "name": "NVIDIA A100-SXM4-40GB"}
BOTH = "cpu:gloo,cuda:nccl"


@pytest.mark.parametrize(
    ("info", "devices", "events"),
    [
        ({"backend": "nccl"}, [], [MM]),
        ({"backend": BOTH}, [GPU], [MM]),
        ({"backend": "undefined", "pg_config": [{"pg_name": "0", "backend_config": "cuda:nccl"}]}, [], [MM]),
        ({}, [GPU], [MM]),
        ({}, [], [MM, MM | {"cat": "user_annotation", "name": "nccl:all_reduce", "ts": 500}]),
        ({}, [], [MM, MM | {"cat": "cuda_runtime", "name": "hipLaunchKernel", "ts": 500}]),
        ({"backend": "gloo"}, [], [MM, MM | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 500}]),
    ],
)
def test_a_job_on_devices_without_an_event_of_them_is_refused(
    tmp_path: Path, info: dict[str, Any], devices: list[Any], events: list[Event]
) -> None:
    """The host's events do not say how long kernels take."""
    path = written(tmp_path / "0.json", events, distributedInfo=info, deviceProperties=devices)
    assert "no event of a device in the trace of a job on devices" in refused([path])


@pytest.mark.parametrize(
    ("info", "devices"), [({"backend": "gloo"}, []), ({"backend": "gloo"}, [GPU]), ({"backend": BOTH}, []), ({}, [])]
)
def test_a_job_of_the_host_is_read_from_its_events(tmp_path: Path, info: dict[str, Any], devices: list[Any]) -> None:
    path = written(tmp_path / "0.json", [MM], distributedInfo=info, deviceProperties=devices)
    assert read_job([path]).measured_s == pytest.approx(300e-6)


def test_a_list_that_is_cut_short_is_taken_from_the_groups_of_the_trace(tmp_path: Path) -> None:
    events = call("allreduce", 20, 0, 9, 1, 4, WORLD, **{"Process Group Ranks": "[0, ...]"})
    info = {"rank": 0, "world_size": 2, "pg_config": [{"pg_name": "0", "ranks": [0, 1]}]}
    path = written(tmp_path / "trace.json", events, distributedInfo=info)
    assert read_job([path], stand_in=True).schedule.mesh.num_ranks == 2


def test_ranks_that_make_other_calls_are_refused_with_the_first_that_differs(tmp_path: Path) -> None:
    same = call("allreduce", 20, 0, 9, 1, 4, WORLD)
    files = [
        written(tmp_path / f"{r}.json", [*same, *call("allreduce", 20, 9, 20, 2, size, WORLD)], r)
        for r, size in enumerate((8, 16))
    ]
    line = "call 2 over axis0 of all: all_reduce of 32 bytes, but all_reduce of 16 bytes on other ranks"
    assert line in refused(files)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["rank0.json"], "traces of 1 of 2 ranks; allowed: of all, or --stand-in"),
        (["rank0.json", "rank0.json"], "of rank 0, as"),
        (["rank0.json", "other.json"], "of a job of 3 ranks"),
    ],
)
def test_ranks_that_are_missing_or_twice_are_refused(tmp_path: Path, names: list[str], said: str) -> None:
    ranks(tmp_path, *call("allreduce", 20, 0, 9, 1, 4, WORLD))
    written(tmp_path / "other.json", call("allreduce", 20, 0, 9, 1, 4, WORLD), 1, 3)
    assert said in refused([tmp_path / name for name in names])


def test_the_last_step_is_taken_and_others_by_number(tmp_path: Path) -> None:
    events: list[Event] = []
    for number, (begin, end) in enumerate(((0, 30), (30, 40), (40, 60))):
        events += [annotated(number, begin, end), *kernel(f"k{number}", 7, begin, end, number + 1, launched=begin + 1)]
    path = written(tmp_path / "trace.json", events, ranks=1)
    assert read_rank(path).step_name == "ProfilerStep#2"
    assert [each.name for each in read_rank(path, "ProfilerStep#1").kernels] == ["k1"]
    with pytest.raises(InputError, match='step "ProfilerStep#7": did you mean "ProfilerStep#2"'):
        read_rank(path, "ProfilerStep#7")


def test_messages_between_stages_are_one_exchange_of_both(tmp_path: Path) -> None:
    """As PyTorch writes them: rank 0 sends to 1, which receives."""
    sent = call("send", 20, 0, 9, 1, 4, WORLD, **{"Dst Rank": 1})
    got = call("recv", 20, 0, 9, 1, 4, WORLD, **{"Src Rank": 0})
    job = read_job([written(tmp_path / "0.json", sent, 0), written(tmp_path / "1.json", got, 1)])
    assert [role.at for role in job.schedule.roles] == [("axis0", 0), ("axis0", 1)]
    assert len(job.schedule.ops) == 1 and job.schedule.ops[0].kind == "exchange"


def test_a_message_that_nobody_receives_is_refused(tmp_path: Path) -> None:
    sent = [
        *call("send", 20, 0, 9, 1, 4, WORLD, **{"Dst Rank": 1}),
        *call("send", 20, 9, 12, 2, 4, WORLD, **{"Dst Rank": 1}),
    ]
    got = call("recv", 20, 0, 9, 1, 4, WORLD, **{"Src Rank": 0})
    line = refused([written(tmp_path / "0.json", sent, 0), written(tmp_path / "1.json", got, 1)])
    assert "the ranks' calls do not fit together" in line


# ── files ──


def test_packed_traces_are_read(tmp_path: Path) -> None:
    plain = written(tmp_path / "plain.json", call("allreduce", 20, 0, 9, 1, 4, WORLD))
    packed = tmp_path / "packed.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_rank(packed).kernels == read_rank(plain).kernels
    packed.write_bytes(packed.read_bytes()[:-20])
    assert "cut short or damaged" in refused([packed])
