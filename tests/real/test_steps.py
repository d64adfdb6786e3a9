"""Steps with time limits: one that passes, fails, hangs, cannot be started, lacks something, or is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from simfrontier_real.steps import CheckStep, StepResult, run_steps
from tests.real.ranks import ROOT

# A child that ignores SIGTERM, in the group of its parent, which ignores it as well; the child's id goes to a file.
HANGS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    with open(sys.argv[1], "w") as file:
        file.write(str(child))
    print("working", flush=True)
time.sleep(600)
"""
LEAVES_A_CHILD = """
import os, sys, time
child = os.fork()
if not child:
    time.sleep(600)
with open(sys.argv[1], "w") as file:
    file.write(str(child))
"""


def step(name: str, text: str, *more: str, limit_s: float = 60.0, needs: tuple[str, ...] = ()) -> CheckStep:
    return CheckStep(
        name=name, shows="it works", command=(sys.executable, "-c", text, *more), limit_s=limit_s, needs=needs
    )


def run(steps: Sequence[CheckStep], folder: Path, limit_s: float = 600.0) -> list[StepResult]:
    return run_steps(steps, folder / "logs", os.environ, limit_s)


def has_ended(number: int) -> bool:
    """Whether a process is gone, or a zombie that nobody has asked about; within some seconds."""
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


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


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at in /proc")
def test_a_step_that_hangs_is_ended_at_its_limit_with_its_group(tmp_path: Path) -> None:
    begin_s = time.monotonic()
    hanging, other = run(
        [step("hangs", HANGS, str(tmp_path / "child"), limit_s=2.0), step("other", "print('on')")], tmp_path
    )
    assert (hanging.verdict, hanging.code) == ("too long", None)
    assert hanging.why == "ended at its limit of 2 s: working"
    assert 2.0 <= hanging.seconds < 30.0 and time.monotonic() - begin_s < 60.0
    assert other.verdict == "passed"
    assert has_ended(int((tmp_path / "child").read_text(encoding="utf-8")))


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at in /proc")
def test_what_a_step_leaves_behind_is_ended(tmp_path: Path) -> None:
    (result,) = run([step("leaves", LEAVES_A_CHILD, str(tmp_path / "child"))], tmp_path)
    assert result.verdict == "passed" and result.seconds < 30.0
    assert has_ended(int((tmp_path / "child").read_text(encoding="utf-8")))


def test_a_step_is_not_run_without_what_it_needs(tmp_path: Path) -> None:
    first, second, third = run(
        [step("a", "raise SystemExit(1)"), step("b", "print()", needs=("a",)), step("c", "print()", needs=("b",))],
        tmp_path,
    )
    assert (first.verdict, second.verdict, third.verdict) == ("failed", "not run", "not run")
    assert (second.why, third.why) == ("needs a", "needs b")
    assert not (tmp_path / "logs" / "b.txt").exists()


def test_all_steps_together_have_a_limit(tmp_path: Path) -> None:
    """The first sleeps for as long as there is; no time is left for the second."""
    first, second = run([step("long", "import time; time.sleep(60)"), step("late", "print()")], tmp_path, limit_s=2.0)
    assert first.verdict == "too long" and first.why == "ended at its limit of 2 s"
    assert (second.verdict, second.why) == ("not run", "no time is left of 2 s")


def test_a_command_that_is_not_there_is_a_step_that_fails(tmp_path: Path) -> None:
    missing = CheckStep(name="none", shows="", command=("/no/such/program",), limit_s=5.0)
    (result,) = run([missing], tmp_path)
    assert (result.verdict, result.why) == ("failed", "cannot be started: No such file or directory")


STOPPED = """
import sys
from pathlib import Path
from simfrontier_real.gpu import run_and_summarise
from simfrontier_real.steps import CheckStep

hangs = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
out = Path(sys.argv[1])
steps = [
    CheckStep(name="good", shows="", command=(sys.executable, "-c", "print()"), limit_s=60),
    CheckStep(name="hangs", shows="", command=(sys.executable, "-c", hangs, str(out / "id")), limit_s=600),
    CheckStep(name="never", shows="", command=(sys.executable, "-c", "print()"), limit_s=60),
]
sys.exit(run_and_summarise(steps, out, lambda line: print(line, flush=True)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at in /proc")
def test_a_signal_ends_the_step_that_runs_and_keeps_the_results_so_far(tmp_path: Path) -> None:
    runner = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    deadline = time.monotonic() + 60.0
    begun = tmp_path / "id"
    while not (begun.exists() and begun.read_text(encoding="utf-8")) and time.monotonic() < deadline:
        time.sleep(0.05)
    runner.send_signal(signal.SIGTERM)
    said, _ = runner.communicate(timeout=60.0)
    assert runner.returncode == 128 + signal.SIGTERM
    assert said.splitlines()[-1] == f"stopped by signal 15 in step hangs; results so far: {tmp_path}"
    assert has_ended(int(begun.read_text(encoding="utf-8")))
    assert '"name": "good"' in (tmp_path / "summary.json").read_text(encoding="utf-8")
