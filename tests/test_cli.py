"""The command line: exit codes, one clear line for a mistake, nothing half-written; and `doctor`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import simfrontier
from simfrontier.errors import SimfrontierError
from tests.invoke import ROOT, TOY, invoke, refusal


def in_a_process(*arguments: str, code: str = "from simfrontier.cli import main; main()") -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a process of its own, in the repository's root."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


# ── end to end ──


def test_a_run_ends_with_0_and_writes_its_folder(tmp_path: Path) -> None:
    code, out, err = in_a_process(
        "run", "scenarios/toy.toml", "--plans", "zero3", "--devices", "2", "--out", str(tmp_path)
    )
    assert (code, err) == (0, "")
    assert "results.csv" in out and "0." in out
    files = ["findings.json", "index.html", "manifest.json", "results.csv", "trace-zero3-2.json"]
    assert sorted(os.listdir(tmp_path)) == files


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("simfrontier", "from simfrontier.cli import main; main()"),
        ("simfrontier-real", "from simfrontier_real.cli import app; app()"),
    ],
)
def test_both_programs_say_their_version(program: str, code: str) -> None:
    assert in_a_process("--version", code=code) == (0, f"{program} {simfrontier.__version__}\n", "")


def test_a_mistake_ends_with_2_and_one_line(tmp_path: Path) -> None:
    code, out, err = in_a_process("run", "scenarios/toy.toml", "--plans", "zero4", "--out", str(tmp_path / "out"))
    assert (code, out) == (2, "")
    assert err == 'simfrontier: scenarios/toy.toml: plans: got "zero4"; did you mean "zero3"?\n'
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments", [(), ("--help",), ("run", "--help")])
def test_help_imports_nothing_slow(arguments: tuple[str, ...]) -> None:
    code = (
        "import sys, atexit, simfrontier.cli\n"
        "slow = {'numpy', 'pandas', 'plotly', 'pydantic', 'scipy', 'simpy', 'dask', 'torch'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
        "atexit.register(lambda: sys.stderr.write(f'slow: {sorted(slow & set(sys.modules))}'))\n"
        "simfrontier.cli.main()"
    )
    _, out, err = in_a_process(*arguments, code=code)
    assert "Usage:" in out + err
    # typer itself needs pydantic for the parameters of a verb
    assert err.endswith("slow: []") or ("run" in arguments and err.endswith("slow: ['pydantic']"))


# ── mistakes on the command line ──


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--devices", "eight", "--devices: got 'eight'"),
        ("--devices", "8,-4", "--devices: got '8,-4'"),
        ("--devices", "8;16", "--devices: got '8;16'"),
        ("--devices", "1.5", "--devices: got '1.5'"),
        ("--devices", "0", "--devices: got '0'"),
        ("--devices", "", "--devices: got ''"),
        ("--devices", "9" * 5000, "--devices: got '999"),
    ],
)
def test_sizes_are_numbers(tmp_path: Path, option: str, value: str, message: str) -> None:
    got = refusal("run", TOY, option, value, "--out", tmp_path / "out")
    assert got.startswith(message)
    assert got.endswith("; allowed: numbers of devices separated by commas, e.g. 8,64,384")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--devices", "8,8"), f"{TOY}: run.devices: got 8 twice, allowed: every size once"),
        (
            ("--devices", "128"),
            f"{TOY}: run.devices: 128 devices do not fill whole nodes of toy-cluster (16 nodes of 4 devices), use 64",
        ),
        (("--fidelity", "flo"), "--fidelity: got 'flo'; did you mean \"flow\"?"),
        (("--fidelity", "fast"), "--fidelity: got 'fast'; allowed: analytic, chunk, flow"),
        (("--set", "training"), "--set 'training': write key=value, e.g. training.micro_batch=4"),
    ],
)
def test_each_bad_option_is_one_clear_line(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    assert refusal("run", TOY, "--out", tmp_path / "out", *options) == message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("run",),
        ("run", str(TOY), "--job", "2"),
        ("run", str(TOY), "--jobs", "0"),
        ("run", str(TOY), "--jobs", "-1"),
        ("run", str(TOY), "--jobs", "two"),
        ("show", str(TOY), "--devices", "many"),
        ("check", str(TOY), "--capacity", "64GB"),
        ("simulate",),
    ],
)
def test_what_the_parser_refuses_ends_with_2(arguments: tuple[str, ...]) -> None:
    assert refusal(*arguments)


@pytest.mark.parametrize(
    ("part", "reason"), [("file", "Not a directory"), ("file/below", "Not a directory"), ("/proc/new", "No such file")]
)
def test_an_output_folder_that_cannot_be_written(tmp_path: Path, part: str, reason: str) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    out = tmp_path / part
    message = refusal("run", TOY, "--out", out)
    assert message.startswith(f"--out {out}: cannot be written: {reason}")
    assert message.endswith("; allowed: a folder that you may write, or a name for a new one")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    message = refusal("run", TOY, "--out", tmp_path / "out")
    assert message.startswith(f"--out {tmp_path}/out: cannot be written: Permission denied; allowed: ")


def test_brackets_in_titles_mean_themselves(tmp_path: Path) -> None:
    ran = invoke("run", TOY, "--set", "title=a [/b] :cat:", "--plans", "zero3", "--devices", "2", "--out", tmp_path)
    assert (ran.code, ran.err) == (0, "")
    assert "[/b] :cat:" in " ".join(ran.out.split())


def test_an_error_of_ones_own_ends_with_1_and_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def stuck(*_: object) -> None:
        raise SimfrontierError("the step is stuck:\nrank class 0 waits")

    monkeypatch.setattr("simfrontier.api.views.run_study", stuck)
    ran = invoke("run", TOY, "--out", tmp_path / "out")
    assert (ran.code, ran.out, ran.err) == (1, "", "simfrontier: the step is stuck: rank class 0 waits\n")
    assert not (tmp_path / "out").exists()


# ── doctor ──


def test_doctor_finds_everything_that_is_needed() -> None:
    ran = invoke("doctor")
    assert (ran.code, ran.err) == (0, "")
    assert all(line.startswith("ok  ") for line in ran.out.splitlines())


def test_doctor_speaks_json_and_simulates_a_step() -> None:
    ran = invoke("doctor", "--json")
    known = {row["what"]: row for row in json.loads(ran.out)}
    assert ran.code == 0
    assert all(row["works"] for row in known.values())
    assert "frontier" in known["machines"]["found"] and "rccl" in known["libraries"]["found"]
    assert known["simulation"]["found"].startswith("one step of a tiny model on 2 devices takes ")


def test_doctor_ends_with_1_where_something_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> str:
        raise SimfrontierError("no luck")

    monkeypatch.setattr("simfrontier.cli.verbs.doctor._simulate", broken)
    ran = invoke("doctor")
    assert ran.code == 1
    assert [line.split() for line in ran.out.splitlines() if line.startswith("MISS")] == [
        ["MISS", "simulation", "no", "luck"]
    ]
