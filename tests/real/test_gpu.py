"""`simfrontier-real gpu`: its steps and their limits, its folder, its one line without a GPU; all commands on CPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from simfrontier_real.measure.gpu import (
    LIMIT_S,
    SUMMARY,
    CheckStep,
    GpuRun,
    make_room,
    run_and_summarise,
    run_steps,
    steps_of,
)
from tests.real.ranks import ROOT

HAS_GPU = torch.cuda.is_available()
ON_CPUS = {"nccl": "gloo", "cuda": "cpu"}  # words of the commands that need a GPU, and what takes their place


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "simfrontier_real", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)


@pytest.mark.skipif(HAS_GPU, reason="this machine has a GPU")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("gpu",), 1, "this machine has no GPU that torch can use; nothing was run"),
        (("rates", "--device", "cuda"), 2, "--device cuda: this machine has no GPU that torch can use; allowed: cpu"),
        (
            ("train", "a.json", "--backend", "nccl"),
            2,
            "--backend nccl: this machine has no GPU that torch can use; allowed: gloo",
        ),
        (
            ("replay", "a.json", "--device", "cuda", "--ranks", "4"),
            2,
            "--device cuda: this machine has no GPU that torch can use; allowed: cpu",
        ),
    ],
)
def test_without_a_gpu_there_is_one_line(arguments: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    ended = run(*arguments, "--out", str(tmp_path / "out"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", f"simfrontier-real: {said}\n")
    assert not (tmp_path / "out").exists()


# ── the steps ──


def test_every_step_has_its_time_within_eight_minutes(tmp_path: Path) -> None:
    """The last step, the tests, has what the others leave. A step that does not end takes up to 6 s more."""
    steps = steps_of(GpuRun(out=tmp_path))
    *others, tests = steps
    assert tests.name == "tests" and sum(step.limit_s for step in others) <= LIMIT_S <= 480 - 6
    names = [step.name for step in steps]
    assert len(set(names)) == len(names)
    assert [name for name in names if name in ("nccl-train", "gloo-train", "rates")] == [
        "nccl-train",
        "gloo-train",
        "rates",
    ]
    for number, step in enumerate(steps):
        assert set(step.needs) <= set(names[:number]), step


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("device", "nccl-schedules", "nccl-train", "gloo-schedules", "gloo-grid"), id="first"),
        pytest.param((), id="all", marks=pytest.mark.long),
    ],
)
def test_the_commands_run_on_cpus(names: tuple[str, ...], tmp_path: Path) -> None:
    """With gloo for nccl, the host for the GPU, and a smaller model to replay; the tests, which are these, left out."""
    out, said = tmp_path / "out", list[str]()
    steps = [step for step in steps_of(GpuRun(out=out)) if step.name != "tests" and (not names or step.name in names)]
    on_cpus = [replace(step, command=tuple(ON_CPUS.get(word, word) for word in step.command)) for step in steps]
    smaller = {"gloo-simulate": ("--set", "model.hidden=128")}
    given = [replace(step, command=step.command + smaller.get(step.name, ()), limit_s=300.0) for step in on_cpus]
    make_room(out)
    run_and_summarise(given, out, said.append, limit_s=1200.0)
    summary = json.loads((out / SUMMARY).read_text(encoding="utf-8"))
    failed = {step["name"] for step in summary["steps"] if step["verdict"] != "passed"}
    assert failed <= {"crosscheck"}, said  # whose times are those of a box that is busy with other tests
    assert summary["device"]["torch"] == torch.__version__ and summary["num_steps"] == len(steps)
    for result in json.loads((out / "nccl-train.json").read_text(encoding="utf-8")):
        assert result["must_agree"] and result["is_good"]
    if not names:
        compared = " ".join((out / "logs" / "crosscheck.txt").read_text(encoding="utf-8").split())
        assert "ran in both: kind, name, axes, bytes of messages, and order on every lane" in compared
        assert (out / "crosscheck" / "index.html").is_file() and (out / "rates" / "products.csv").is_file()
    make_room(out)
    assert list(out.iterdir()) == []


# ── steps with time limits, and the summary ──


def step(name: str, text: str, *more: str, limit_s: float = 60.0, needs: tuple[str, ...] = ()) -> CheckStep:
    return CheckStep(
        name=name, shows="it works", command=(sys.executable, "-c", text, *more), limit_s=limit_s, needs=needs
    )


def test_a_step_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    after: list[list[str]] = []
    steps = [
        step("good", "print('fine')"),
        step("bad", "import sys; print('one', flush=True); print('what is wrong', file=sys.stderr); sys.exit(3)"),
        step("killed", "import os; os.kill(os.getpid(), 9)"),
        step("last", "import sys; print('also'); sys.exit(0)", needs=("good",)),
    ]
    results = run_steps(
        steps, tmp_path, os.environ, 600.0, lambda done: after.append([result.verdict for result in done])
    )
    assert [(result.verdict, result.code, result.why) for result in results] == [
        ("passed", 0, ""),
        ("failed", 3, "exit code 3: what is wrong"),
        ("failed", -9, "killed by signal 9"),
        ("passed", 0, ""),
    ]
    verdicts = ["passed", "failed", "failed", "passed"]
    assert after == [verdicts[:count] for count in range(1, 5)]
    log = (tmp_path / "bad.txt").read_text(encoding="utf-8")
    assert log.startswith(f"$ {sys.executable} -c 'import sys; ") and "one\nwhat is wrong\n" in log


def test_a_step_is_not_run_without_what_it_needs(tmp_path: Path) -> None:
    steps = [step("a", "raise SystemExit(1)"), step("b", "print()", needs=("a",)), step("c", "print()", needs=("b",))]
    first, second, third = run_steps(steps, tmp_path, os.environ, 600.0)
    assert (first.verdict, second.verdict, third.verdict) == ("failed", "not run", "not run")
    assert (second.why, third.why) == ("needs a", "needs b")
    assert not (tmp_path / "b.txt").exists()


def test_all_steps_together_have_a_limit(tmp_path: Path) -> None:
    """The first sleeps for as long as there is; no time is left for the second."""
    steps = [step("long", "import time; time.sleep(60)"), step("late", "print()")]
    first, second = run_steps(steps, tmp_path, os.environ, 2.0)
    assert first.verdict == "too long" and first.why == "ended at its limit of 2 s"
    assert (second.verdict, second.why) == ("not run", "no time is left of 2 s")


def test_the_summary_is_written_after_every_step(tmp_path: Path) -> None:
    """The second step copies what is written of the first; the exit code is 1, because the third fails."""
    copies = f"import shutil; shutil.copy({str(tmp_path / SUMMARY)!r}, {str(tmp_path / 'seen.json')!r})"
    texts = {"one": "print()", "two": copies, "three": "raise SystemExit('no room')"}
    steps = [
        CheckStep(name=name, shows=f"shows {name}", command=(sys.executable, "-c", text), limit_s=60)
        for name, text in texts.items()
    ]
    said: list[str] = []
    assert run_and_summarise(steps, tmp_path, said.append) == 1
    seen = json.loads((tmp_path / "seen.json").read_text(encoding="utf-8"))
    assert [step["name"] for step in seen["steps"]] == ["one"] and seen["num_steps"] == 3 and seen["device"] is None
    assert [line.split()[0] for line in said[:3]] == ["one", "two", "three"]
    assert said[2].endswith("failed     exit code 1: no room")
    assert said[3].startswith("2 of 3 steps passed in ")


# ── what is here ──


def test_what_runs_stand_on(tmp_path: Path) -> None:
    ended = run("device", "--out", str(tmp_path / "device.json"))
    assert ended.returncode == 0, ended.stderr
    facts = json.loads((tmp_path / "device.json").read_text(encoding="utf-8"))
    assert facts["torch"] == torch.__version__ and facts["missing_packages"] == []
    assert bool(facts["devices"]) == HAS_GPU
    assert f"torch {torch.__version__}" in ended.stdout
