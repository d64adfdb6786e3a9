"""`simfrontier import`, as people call it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.inputs.profiler.traces import annotated, call, kernel, written
from tests.invoke import TOY, invoke, refusal


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of ZeRO-3 on 8 devices of the toy machine."""
    folder = tmp_path_factory.mktemp("traces")
    ran = invoke("export", TOY, "--format", "kineto", "--plans", "zero3", "--devices", "8", "--out", folder)
    assert ran.code == 0
    return folder


def test_a_job_is_replayed_on_its_own_machine(traces: Path) -> None:
    ran = invoke("import", traces, "--machine", TOY)
    assert (ran.code, ran.err) == (0, "")
    assert "A job of 8 ranks (axis0 2 x axis1 4)" in ran.out and "+0.0%" in ran.out


def test_then_it_is_asked_otherwise(traces: Path, tmp_path: Path) -> None:
    asked = ("--ranks", "4x", "--hpz", "--kernel-factor", "2", "--out", tmp_path, "--json")
    ran = invoke("import", traces, "--machine", TOY, *asked)
    assert ran.code == 0, ran
    document = json.loads(ran.out)
    assert document["replay_error"] == pytest.approx(0.0, abs=1e-9)
    assert document["then"]["what"] == [
        "kernels take 2 times as long (as given)",
        "with hpZ: gathers of the backward within nodes",
        "on 32 ranks, each with as much work as before",
    ]
    assert document["then"]["step_s"] > document["replay"]["step_s"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trace-replay.json", "trace-then.json"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--machine", "frontier", "--ranks", "12"), "--ranks: got 12; allowed: multiples of the job's 8 ranks"),
        (("--machine", "frontier", "--hpz"), "--hpz: no gather of the backward over several nodes"),
        (("--machine", "perlmutter", "--ranks", "999999x"), "--ranks: got 7,999,992; allowed: up to the"),
    ],
)
def test_wrong_options_are_one_line(traces: Path, options: tuple[str, ...], said: str) -> None:
    assert said in refusal("import", traces, *options)


def imported(*words: object) -> tuple[str, dict[str, Any]]:
    """What is printed, for people and as JSON."""
    ran = invoke("import", *words)
    assert (ran.code, ran.err) == (0, "")
    return ran.out, json.loads(invoke("import", *words, "--json").out)


def test_the_parts_of_a_step_are_kernels_of_all_streams_and_sum_to_it(tmp_path: Path) -> None:
    """Of 1,000 us: kernels from 100 to 500 and 950 to 990 on one stream, on another from 400 to 900 one of NCCL that
    does not say what it moves: 840 together, as 100 overlap, and 160 of nothing."""
    events = [annotated(0, 0, 1000), *kernel("gemm", 7, 100, 500, 1), *kernel("gemm", 7, 950, 990, 3)]
    events += kernel("ncclKernel_AllReduce_RING_LL_Sum_float", 8, 400, 900, 2)
    text, document = imported(written(tmp_path / "0.json", events, ranks=1), "--machine", "perlmutter")
    assert document["measured_step_s"] == pytest.approx(1000e-6)
    replay = document["replay"]
    assert (replay["compute_s"], replay["idle_s"]) == pytest.approx((840e-6, 160e-6))
    assert replay["compute_s"] + replay["exposed_calls_s"] + replay["idle_s"] == pytest.approx(replay["step_s"])
    assert "kernels 840 µs, exposed communication 0 s, idle 160 µs" in text


def test_a_kernel_of_any_stream_hides_a_call(tmp_path: Path) -> None:
    """The gather takes longer than the 10 us for which stream 21 runs a kernel beside it."""
    events = [*kernel("gemm", 7, 0, 100, 1), *kernel("cast", 21, 100, 110, 3)]
    events += call("_allgather_base", 20, 100, 200, 2, 1 << 22, [0, 1])
    for rank in (0, 1):
        written(tmp_path / f"{rank}.json", events, rank)
    _, document = imported(tmp_path, "--machine", "perlmutter")
    replay, (gather,) = document["replay"], document["collectives"]
    assert replay["compute_s"] == pytest.approx(110e-6)
    assert replay["exposed_calls_s"] == pytest.approx(gather["simulated_s"] - 10e-6)


def test_a_trace_of_another_device_is_noted_on_terminal_in_json_and_in_the_traces(tmp_path: Path) -> None:
    devices = [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 84_929_347_584, "numSms": 132}]
    path = written(tmp_path / "0.json", kernel("gemm", 7, 0, 9, 1), ranks=1, deviceProperties=devices)
    text, document = imported(path, "--machine", "perlmutter", "--out", tmp_path / "out")
    note = "the traces are of another device than perlmutter has: NVIDIA H100 80GB HBM3, not A100"
    assert f"note: {note}" in text and note in document["notes"]
    assert note in (tmp_path / "out" / "trace-replay.json").read_text(encoding="utf-8")
    assert "another device" not in imported(path, "--machine", "h100-node")[0]
