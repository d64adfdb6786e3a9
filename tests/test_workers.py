"""Worker processes of `--jobs`: whoever ends the command, none of them is left; what one did that is killed is done by
another, and the result is the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from simfrontier.answers.search import rows, tune
from simfrontier.base.workers import Local
from simfrontier.inputs.scenario import load_scenario, scenario_of
from simfrontier.interfaces.api.comparison import num_simulations, view_of
from tests.invoke import ROOT, TOY
from tests.processes import are_gone, children, workers_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")

LIMIT_S = 120.0  # machines are noisy
MAIN = str(ROOT / "scenarios" / "frontier-20b.toml")
COMMAND = ["run", MAIN, "--no-sensitivity", "--no-page", "--jobs", "2"]


def until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@contextmanager
def working(out: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """The command with two workers that are at work, and all that it has started."""
    process = subprocess.Popen(
        [sys.executable, "-m", "simfrontier", *COMMAND, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    mine: list[int] = []
    try:

        def has_two() -> bool:
            assert process.poll() is None, process.communicate()
            return len(workers_of(process.pid)) == 2

        until(has_two, "no workers appear")
        mine = children(process.pid)
        yield process, mine
    finally:
        for pid in (process.pid, *mine):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()


def test_workers_end_with_the_command(tmp_path: Path) -> None:
    with working(tmp_path / "out") as (process, mine):
        process.terminate()
        until(lambda: are_gone(mine), f"left: {mine}")
        _, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 143 and err.splitlines()[-1].startswith("simfrontier: stopped"), err


class Killer:
    """Hears of progress, and kills a worker of this process as soon as there is one."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []
        self.killed = 0

    def __call__(self, *told: object) -> None:
        self.told.append(told)
        if not self.killed and (workers := workers_of(os.getpid())):
            self.killed = workers[0]
            os.kill(self.killed, signal.SIGKILL)


def told_of(work: Callable[[int, Callable[..., None]], Any]) -> tuple[list[tuple[object, ...]], ...]:
    """What is told and found by one process; two, of which one is killed, must find the same."""
    told: list[tuple[object, ...]] = []
    alone, killer = work(1, lambda *each: told.append(each)), Killer()
    assert work(2, killer) == alone
    assert killer.killed and are_gone([killer.killed])
    return told, killer.told


def test_a_run_whose_worker_is_killed_is_the_same() -> None:
    """Its rows, its variations and values that would be needed, its troubles, and what is told on the way."""
    document = tomllib.loads(TOY.read_text(encoding="utf-8"))
    trouble = {"label": "one slow device", "perturbation": {"slow": [{"device": 1, "factor": 0.5}]}}
    document |= {
        "sensitivity": {
            "devices": 8,
            "plans": ["zero3", "hsdp"],
            "vary": [{"key": "training.micro_batch", "label": "micro-batch", "values": [2, 4]}],
            "required": [{"key": "library.overrides.shares.nic", "label": "share"}],
        },
        "published": {"source": "made up", "ratios": {"zero3": 1.0, "hsdp": 1.1}},
        "slowdown": {"cases": [trouble], "device_factor": 1.0, "link_factor": 1.0},
    }
    scenario = scenario_of(document, "toy.toml", {}, ("zero3", "hsdp"), (8, 16))

    def run(jobs: int, progress: Callable[..., None]) -> tuple[object, ...]:
        view = view_of(scenario, vary=True, place=Local(jobs=jobs), progress=progress)
        assert view.slowdown is not None
        return [each.row for each in view.study.outcomes], view.sensitivity, view.slowdown.sentences

    alone, together = told_of(run)
    assert together == alone and len(alone) == num_simulations(scenario, True)


def test_a_search_whose_worker_is_killed_is_the_same() -> None:
    def search(jobs: int, progress: Callable[..., None]) -> object:
        scenario, place = load_scenario(TOY, plans=("zero3",), devices=(8,)), Local(jobs=jobs)
        found = tune(scenario, pins={"family": "zero", "checkpointing": "full"}, place=place, progress=progress)
        return rows(found), found.why

    alone, together = told_of(search)
    assert together[-1] == alone[-1] and len(together) == len(alone)
