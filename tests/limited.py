"""The command line in a process of its own with little memory: a reader that expands first and counts later dies."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

from tests.invoke import ROOT, Ran

MEMORY_BYTES = 1 << 30
CPU_S = 20  # a guard against work without an end; the calls take about one


def limited(*arguments: str | Path) -> Ran:
    """How `simfrontier` with these arguments ends in 1 GiB of memory."""

    def hold() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))

    done = subprocess.run(
        [sys.executable, "-m", "simfrontier", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=hold,
        capture_output=True,
        text=True,
        check=False,
    )
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


def limited_refusal(*arguments: str | Path) -> str:
    """The one line with which a call is refused there (exit code 2)."""
    ran = limited(*arguments)
    assert ran.code == 2, ran
    assert ran.err.startswith("simfrontier: ") and ran.err.count("\n") == 1, ran.err
    return ran.err.removeprefix("simfrontier: ").removesuffix("\n")
