"""Verbs whose work is done at a running scheduler, or in jobs of Slurm: what they print and write is, byte for byte,
what they print and write by one process."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.answers.accuracy.fitting.test_calibration import made_up
from tests.answers.search.toys import PINNED
from tests.base.workers import standin_slurm
from tests.base.workers.dask_processes import free_port, scheduler_at, until_there, worker_at
from tests.base.workers.test_slurm import SETTINGS
from tests.inputs.measured.tables import write_calls
from tests.invoke import TOY, Ran, invoke, refusal

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="starts processes by bash and setsid")
PAGES = "simfrontier: Dask's pages of what the workers do: http://"
VERBS = {
    "run": ["run", TOY, "--plans", "zero3,hsdp", "--devices", "8,16", "--out", "out"],
    "tune": ["tune", TOY, *PINNED, "--devices", "8", "--simulate", "3", "--out", "out"],
    "explain": ["explain", TOY, "--plan", "zero3", "--devices", "8", "--fidelity", "analytic", "--out", "out"],
    "calibrate": ["calibrate", "calls.csv", "--when", "today", "--out", "fit.toml"],
}


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with one worker."""
    address = f"tcp://127.0.0.1:{free_port()}"
    processes: list[subprocess.Popen[bytes]] = []
    try:
        processes += [scheduler_at(address), worker_at(address, tmp_path_factory.mktemp("worker"))]
        until_there(address, 1)
        yield address
    finally:
        for process in processes:
            process.kill()
            process.wait()


def done(verb: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *place: str | Path) -> tuple[Ran, dict[str, bytes]]:
    """How a verb ended in a folder, and what it has written there."""
    folder.mkdir()
    write_calls(folder / "calls.csv", made_up((8, 16, 32)))
    monkeypatch.chdir(folder)
    ran = invoke(*VERBS[verb], *place)
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return ran, files


def said(ran: Ran) -> list[str]:
    """Lines of standard error but for those of progress, which come where work takes some seconds."""
    return [line for line in ran.err.splitlines() if not re.search(r": \d+ of \d+ done, \d+ s$", line)]


@pytest.mark.parametrize("verb", VERBS)
def test_a_running_scheduler_gives_the_same_bytes(
    verb: str, scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, files = done(verb, tmp_path / "here", monkeypatch, "--jobs", "1")
    there, files_there = done(verb, tmp_path / "there", monkeypatch, "--scheduler", scheduler)
    assert here.code == there.code == 0 and len(files) > 1, here
    assert [line for line in said(there) if not line.startswith(PAGES)] == said(here) == []
    assert PAGES in there.err and there.out == here.out
    assert files_there == files


def test_jobs_of_slurm_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm, settings = tmp_path / "slurm", tmp_path / "mine.toml"
    monkeypatch.setenv("PATH", f"{standin_slurm.installed(slurm)}", prepend=":")
    settings.write_text(f'{SETTINGS}scratch = "{tmp_path}"\n', encoding="utf-8")
    here, files = done("tune", tmp_path / "here", monkeypatch, "--jobs", "1")
    there, files_there = done("tune", tmp_path / "there", monkeypatch, "--slurm", settings)
    assert here.code == there.code == 0 and (files_there, there.out) == (files, here.out), there.err
    assert standin_slurm.log(slurm) == ["sbatch 1001", "scancel 1001"]


def test_where_nothing_is_simulated_elsewhere_no_place_is_looked_for(tmp_path: Path) -> None:
    quick = ("--plan", "zero3", "--devices", "8", "--fidelity", "analytic", "--no-what-if")
    assert invoke("explain", TOY, *quick, "--scheduler", f"tcp://127.0.0.1:{free_port()}").code == 0


def test_tables_of_times_are_made_nowhere_else(tmp_path: Path) -> None:
    path = write_calls(tmp_path / "calls.csv", made_up((8,)))
    message = refusal("calibrate", path, "--tables", "--scheduler", "tcp://a:1", "--out", tmp_path / "out.toml")
    assert message == "--scheduler: got 'tcp://a:1' for tables of times; allowed: only with a fit (--fit)"
