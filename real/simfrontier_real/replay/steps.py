"""Steps one after the other, each a process with a time limit; one that fails or hangs does not stop the others."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Verdict = Literal["passed", "failed", "too long", "not run"]
LEAST_S: Final = 1.0  # with less time left, a step is not begun
TAIL_BYTES: Final = 4096  # of a step's output, in which its last line is looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckStep:
    """A command with a time limit in seconds. `shows`: what its success proves. `needs`: names of the steps whose
    results it reads; it is skipped unless they have passed."""

    name: str
    shows: str
    command: tuple[str, ...]
    limit_s: float
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """How a step ended, after how long, and in words why, where it did not pass; `code` is the exit code (minus the
    signal's number; None: not run, or ended at its limit)."""

    name: str
    shows: str
    verdict: Verdict
    seconds: float
    code: int | None = None
    why: str = ""


def run_steps(
    steps: Sequence[CheckStep],
    logs: Path,
    environment: Mapping[str, str],
    limit_s: float,
    after: Callable[[Sequence[StepResult]], None] = lambda _: None,
) -> list[StepResult]:
    """Run all within `limit_s`, output to NAME.txt in `logs`; `after` is called after every step with all results so
    far. An exception that comes meanwhile (a signal to stop) ends the step that runs, and is raised."""
    logs.mkdir(parents=True, exist_ok=True)
    results: list[StepResult] = []
    end_s = time.monotonic() + limit_s
    for step in steps:
        passed = {result.name for result in results if result.verdict == "passed"}
        lacking = [name for name in step.needs if name not in passed]
        left_s = end_s - time.monotonic()
        if lacking or left_s < LEAST_S:
            why = f"needs {', '.join(lacking)}" if lacking else f"no time is left of {limit_s:g} s"
            result = StepResult(name=step.name, shows=step.shows, verdict="not run", seconds=0.0, why=why)
        else:
            result = _run(step, logs / f"{step.name}.txt", environment, min(step.limit_s, left_s))
        results.append(result)
        after(results)
    return results


def _run(step: CheckStep, log: Path, environment: Mapping[str, str], limit_s: float) -> StepResult:
    begin_s, code = time.monotonic(), None
    with log.open("w", encoding="utf-8") as out:
        print(f"$ {shlex.join(step.command)}", file=out, flush=True)
        with suppress(subprocess.TimeoutExpired):
            code = subprocess.run(
                step.command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                timeout=limit_s,
                check=False,
            ).returncode
    seconds = time.monotonic() - begin_s
    verdict: Verdict = "passed" if code == 0 else "too long" if code is None else "failed"
    why = _why(log, code, limit_s)
    return StepResult(name=step.name, shows=step.shows, verdict=verdict, seconds=seconds, code=code, why=why)


def _why(log: Path, code: int | None, limit_s: float) -> str:
    """Return why a step has not passed, with the last line of its output."""
    if code == 0:
        return ""
    if code is None:
        ended = f"ended at its limit of {limit_s:.3g} s"
    else:
        ended = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    lines = log.read_bytes()[-TAIL_BYTES:].decode("utf-8", errors="replace").strip().splitlines()
    return f"{ended}: {lines[-1]}" if len(lines) > 1 else ended
