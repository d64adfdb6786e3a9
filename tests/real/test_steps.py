"""Steps with time limits: one that passes, fails, hangs, cannot be started, lacks something, or is stopped."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from simfrontier_real.measure.gpu import CheckStep, StepResult, run_steps


def step(name: str, text: str, *more: str, limit_s: float = 60.0, needs: tuple[str, ...] = ()) -> CheckStep:
    return CheckStep(
        name=name, shows="it works", command=(sys.executable, "-c", text, *more), limit_s=limit_s, needs=needs
    )


def run(steps: Sequence[CheckStep], folder: Path, limit_s: float = 600.0) -> list[StepResult]:
    return run_steps(steps, folder / "logs", os.environ, limit_s)


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
