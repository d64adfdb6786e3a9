"""`simfrontier import`, as people call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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


def test_on_another_machine_kernels_follow_the_rates_of_products(traces: Path) -> None:
    document = json.loads(invoke("import", traces, "--machine", "frontier", "--on", "perlmutter", "--json").out)
    assert "Perlmutter" in document["then"]["what"][0] and "rates of matrix products" in document["then"]["what"][1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--machine", "frontir"), 'did you mean "frontier"?'),
        (("--machine", "frontier", "--on", "perlmuter"), 'did you mean "perlmutter"?'),
        (("--machine", "frontier", "--ranks", "many"), '--ranks: got "many"; allowed: a number of ranks'),
        (("--machine", "frontier", "--ranks", "12"), "--ranks: got 12; allowed: multiples of the job's 8 ranks"),
        (("--machine", "frontier", "--hpz"), "--hpz: no gather of the backward over several nodes"),
        (("--machine", "frontier", "--kernel-factor", "0"), "--kernel-factor: got 0.0; allowed: 1e-06 to 1e+06"),
        (("--machine", "perlmutter", "--ranks", "999999x"), "--ranks: got 7,999,992; allowed: up to the"),
        (("--machine", "frontier", "--set", "training.micro_batch=4"), "--set: "),
        (("--machine", "frontier", "--step", "4"), 'step "ProfilerStep#4"'),
        (("--machine", "frontier", "--fidelity", "exact"), "--fidelity"),
    ],
)
def test_wrong_options_are_one_line(traces: Path, options: tuple[str, ...], said: str) -> None:
    assert said in refusal("import", traces, *options)


def test_a_folder_without_traces_and_a_file_that_is_missing_are_one_line(tmp_path: Path) -> None:
    assert "no traces in this folder" in refusal("import", tmp_path, "--machine", "frontier")
    assert "cannot read this trace" in refusal("import", tmp_path / "no.json", "--machine", "frontier")


def test_what_is_written_is_not_put_among_the_traces(traces: Path) -> None:
    assert "where the traces are" in refusal("import", traces, "--machine", TOY, "--out", traces)
