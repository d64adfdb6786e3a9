"""Traces of plain PyTorch over gloo: an op on the host makes a call, an event of gloo's thread carries it out; times in
microseconds."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from simfrontier.base.errors import InputError
from simfrontier.inputs.profiler import Job, read_job
from tests.inputs.profiler.traces import GLOO, HOST, Event, annotated, carried, issued, op, written

TWO = {"backend": "gloo", "world_size": 2, "pg_config": [{"pg_name": "0", "pg_size": 2, "ranks": [0, 1]}]}


def files(folder: Path, *ranks: list[Event], **info: Any) -> list[Path]:
    return [
        written(folder / f"{rank}.json", events, rank, distributedInfo={**TWO, "rank": rank, **info})
        for rank, events in enumerate(ranks)
    ]


def job_of(folder: Path, *ranks: list[Event]) -> Job:
    return read_job(files(folder, *(ranks * 2 if len(ranks) == 1 else ranks)))


def calls(job: Job) -> list[tuple[str, int]]:
    """Kind and bytes of the whole message of the calls, in order."""
    ops = [op.kernel.call for op in job.roles.programs[0][0].ops if op.kernel.call is not None]
    return [(call.meaning, call.num_bytes) for call in ops]


def test_a_reduce_scatter_is_told_from_the_all_reduce_that_gloo_makes_of_it(tmp_path: Path) -> None:
    """As FSDP2 has them: 100 of 4 bytes are gathered from two ranks, 200 are scattered to them; DDP reduces 300."""
    events = [
        *(issued("_allgather_base_", 0, [200], [100]), carried("all_gather", 2, 20, 100)),
        *(issued("_reduce_scatter_base_", 30, [100], [200]), carried("all_reduce", 32, 50, 200)),
        *(issued("allreduce_", 60, [[300]]), carried("all_reduce", 62, 80, 300)),
    ]
    job = job_of(tmp_path, events)
    assert calls(job) == [("all_gather", 800), ("reduce_scatter", 800), ("all_reduce", 1200)]
    assert job.schedule.mesh.axes == (("axis0", 2),)


def test_the_host_waits_for_a_call_beside_which_it_does_not_work(tmp_path: Path) -> None:
    """Rank 1 works 40 longer before its call: the call took 20 and not 60, the host waited, then worked 100 more."""
    ranks = []
    for late in (0, 40):
        made = 100 + late
        work = [op("aten::mm", 0, made), op("aten::add", 165, 265), annotated(0, 0, 265)]
        ranks.append([*work, issued("allreduce_", made, [[300]]), carried("all_reduce", made, 160, 300)])
    job = job_of(tmp_path, *ranks)
    assert list(job.call_s[0].values()) == [pytest.approx(20e-6)]
    mm, call, add = job.roles.programs[0][0].ops
    assert (mm.kernel.name, add.kernel.name, call.pause_s) == ("aten::mm", "aten::add", 0.0)
    assert add.waits == (1,) and add.pause_s == pytest.approx(5e-6)
    assert job.measured_s == pytest.approx(265e-6)


def test_two_threads_of_gloo_may_record_neighbours_in_either_order(tmp_path: Path) -> None:
    """Both buckets are under way at once; sizes tell which is which, and calls keep the order of the host."""
    small, large = carried("all_reduce", 21, 40, 100, GLOO[0]), carried("all_reduce", 20, 60, 300, GLOO[1])
    host = [issued("allreduce_", 0, [[100]]), issued("allreduce_", 10, [[300]])]
    swapped = [{**small, "ts": 20.0}, {**large, "ts": 21.0}]
    job = job_of(tmp_path, [*host, small, large], [*host, *swapped])
    assert calls(job) == [("all_reduce", 400), ("all_reduce", 1200)]


def test_neither_annotations_nor_waits_nor_work_of_gloos_threads_are_work(tmp_path: Path) -> None:
    """What of the host's time is kernels: the two ops, of 10 each."""
    inner = [op("aten::mm", 10, 20), op("aten::mm", 80, 90), op("_c10d_functional::wait_tensor", 30, 70)]
    outer = [op("forward", 5, 24, category="user_annotation"), op("autograd::engine", 25, 72)]
    of_gloo = [
        carried("all_reduce", 30, 70, 100),
        op("aten::copy_", 35, 50, GLOO[0]),
        op("aten::copy_", 71, 78, GLOO[0]),
    ]
    job = job_of(tmp_path, [*outer, *inner, issued("allreduce_", 25, [[100]]), *of_gloo])
    assert sum(kernel.seconds for name, kernel in job.kernels.items() if " pause " not in name) == pytest.approx(20e-6)
    assert len(job.call_s[0]) == 1


@pytest.mark.parametrize(
    ("kind", "width"), [("c10::BFloat16", 2), ("float", 4), ("double", 8), ("long int", 8), ("unsigned char", 1)]
)
def test_a_message_has_the_bytes_of_its_type(tmp_path: Path, kind: str, width: int) -> None:
    job = job_of(tmp_path, [issued("allreduce_", 0, [[100]]), carried("all_reduce", 0, 9, 100, kind=kind)])
    assert calls(job) == [("all_reduce", 100 * width)]


def test_a_broadcast_is_an_all_gather_of_as_many_bytes(tmp_path: Path) -> None:
    job = job_of(tmp_path, [issued("broadcast_", 0, [[100]]), carried("broadcast", 0, 9, 100)])
    assert calls(job) == [("all_gather", 400)] and any("broadcast" in note for note in job.notes)


def test_a_barrier_has_no_operand(tmp_path: Path) -> None:
    job = job_of(tmp_path, [issued("barrier", 0, [1]), op("gloo:barrier", 2, 9, GLOO[0], "user_annotation")])
    assert [meaning for meaning, _ in calls(job)] == ["all_reduce"]
    assert any("barrier" in note for note in job.notes)


CALL = [issued("allreduce_", 0, [[300]]), carried("all_reduce", 2, 20, 300)]
BARE = [op("c10d::allreduce_", 0, 5), op("gloo:all_reduce", 2, 20, GLOO[0], "user_annotation")]
HALF = [{"pg_name": "0", "pg_size": 2}, {"pg_name": "1", "pg_size": 1, "ranks": [0]}]


@pytest.mark.parametrize(
    ("events", "info", "said"),
    [
        (BARE, {}, "gloo:all_reduce: no size of its message; allowed: traces of a profiler with record_shapes=True"),
        (CALL, {"pg_config": HALF}, "a group of 1 of 2 ranks, and gloo's events do not name theirs; allowed: gr"),
        (CALL, {"pg_config": None}, "distributedInfo: world_size or pg_config is missing"),
        (CALL, {"pg_config": [{"pg_name": "0"}]}, "a group of null of 2 ranks"),
        (CALL, {"world_size": "many"}, "distributedInfo.world_size: got \"many\""),
        (CALL, {"pg_config": [{"pg_size": 2, "ranks": "[[0]]"}]}, "a rank twice, or what is none"),
        ([CALL[0], carried("all_reduce", 2, 20, 299)], {}, "c10d::allreduce_: no event gloo:all_reduce of its size"),
        ([CALL[0], carried("all_reduce", 2, 20, -5)], {}, "no event gloo:all_reduce of its size"),
        ([CALL[0], {**CALL[1], "args": {"Input Dims": 7}}], {}, "Input Dims: got 7"),
        ([*CALL, carried("all_reduce", 30, 40, 300)], {}, "gloo:all_reduce: no call of its size"),
        ([issued("send", 0, [[3]]), carried("send", 0, 9, 3, HOST)], {}, "c10d::send over gloo: "),
        ([CALL[0], carried("all_reduce", 2, 20, 300, kind="quint8")], {}, 'Input type "quint8"'),
    ],
)  # fmt: skip
def test_what_is_not_known_of_a_call_is_one_line(
    tmp_path: Path, events: list[Event], info: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as error:
        read_job(files(tmp_path, events, events, **info))
    line = str(error.value)
    assert said in line and line.startswith(str(tmp_path)) and "\n" not in line


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lambda text: text[: len(text) // 2], "not a trace of PyTorch's profiler: not JSON"),
        (lambda text: gzip.compress(text)[:-30], "cannot unpack this trace: it is cut short or damaged"),
        (lambda text: json.dumps({"events": []}).encode(), "no list traceEvents; allowed: a trace of"),
        (lambda text: b"step,seconds\n1,2.0\n", "not a trace of PyTorch's profiler: not JSON"),
    ],
)  # fmt: skip
def test_a_cut_trace_or_another_format_is_one_line(tmp_path: Path, content: Any, said: str) -> None:
    first, second = files(tmp_path, CALL, CALL)
    second.write_bytes(content(second.read_bytes()))
    with pytest.raises(InputError) as error:
        read_job([first, second])
    assert said in str(error.value) and str(error.value).startswith(str(second)) and "\n" not in str(error.value)
