"""A sweep whose workers, or whose scheduler, are killed, and one in jobs of Slurm: nothing is lost, nothing twice, and
its bytes are those of a run of one process that nothing disturbed."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from simfrontier.study import STORE
from simfrontier.sweep import read_rows
from tests.invoke import ROOT, Ran, invoke, refusal
from tests.processes import hearing_ctrl_c, leaves_ctrl_c, workers_of
from tests.sweep.studies import HOOK, document, write
from tests.workers import standin_slurm
from tests.workers.dask_processes import free_port, scheduler_at, until_there, worker_at

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
LIMIT_S = 240.0  # machines are noisy
KILLS = 10
SLURM = """
title = "stand-in"
source = "this test"
account = "abc123"
time_limit = "00:10:00"
wait_s = 120
processes = 2
cores = 2
memory = "2GB"
host = "127.0.0.1"
"""


def sweep(path: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "simfrontier", "sweep", str(path), "--out", str(out), *more]
    with hearing_ctrl_c():
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def study(folder: Path, count: int) -> Path:
    """A study of so many points, and in `whole` what one process makes of it."""
    path = write(folder, document({"key": HOOK, "range": {"from": 1e-6, "to": 1e-4, "count": count}}))
    assert invoke("sweep", path, "--out", folder / "whole", "--jobs", "1").code == 0
    return path


def same(folder: Path, out: Path, count: int) -> None:
    """The bytes of the data set are those of `whole`, and each row is there once."""
    for part in ("rows.parquet", "manifest.json", "study.toml", "index.html"):
        assert (out / part).read_bytes() == (folder / "whole" / part).read_bytes(), part
    table = read_rows(out)
    rows = list(zip(table["point"].to_pylist(), table["plan"].to_pylist(), strict=True))
    assert rows == [(number, plan) for number in range(count) for plan in ("ddp", "zero1")]


def until(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()
        time.sleep(0.02)


def kept_in(out: Path) -> int:
    """How many points are kept, read as another process sees the store."""
    try:
        with closing(sqlite3.connect(f"file:{out / STORE}?mode=ro&nolock=1", uri=True)) as store:
            return int(store.execute("SELECT count(*) FROM result").fetchone()[0])
    except sqlite3.Error:  # not there yet, or just being written
        return 0


def has_rows(out: Path) -> bool:
    """Whether some points are kept."""
    return kept_in(out) > 0


@contextmanager
def ended(*processes: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_workers_that_are_killed_ten_times_lose_nothing(tmp_path: Path) -> None:
    path, count = study(tmp_path, 120), 120
    process = sweep(path, tmp_path / "out", "--jobs", "2")
    killed: set[int] = set()

    def kill_one() -> bool:
        """A worker that is ready for calls, where there is one that was not killed."""
        for pid in workers_of(process.pid):
            if pid not in killed and leaves_ctrl_c(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
                    return True
        return False

    until(lambda: has_rows(tmp_path / "out"), process)
    for _ in range(KILLS):
        until(kill_one, process)
        time.sleep(0.1)
    assert process.poll() is None and len(killed) == KILLS
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0 and "simfrontier:" not in err, err
    same(tmp_path, tmp_path / "out", count)


def test_a_scheduler_that_is_killed_is_one_line_and_a_new_one_goes_on(tmp_path: Path) -> None:
    path, count = study(tmp_path, 120), 120
    out = tmp_path / "out"
    address = f"tcp://127.0.0.1:{free_port()}"
    scheduler = scheduler_at(address)
    with ended(scheduler, *(worker_at(address, tmp_path / f"first{number}") for number in range(2))):
        until_there(address, 2)
        process = sweep(path, out, "--scheduler", address)
        until(lambda: has_rows(out), process)
        scheduler.kill()
        _, err = process.communicate(timeout=LIMIT_S)
    said = [line for line in err.splitlines() if line.startswith("simfrontier:")]
    assert process.returncode == 1 and "Traceback" not in err, err
    assert said[0].startswith("simfrontier: Dask's pages of what the workers do: http://")
    assert said[1].startswith(f"simfrontier: the scheduler at {address} is gone; ") and len(said) == 2
    assert said[1].endswith(f" of {count} points are kept: the same command resumes")
    kept = int(said[1].partition("gone; ")[2].split()[0])
    assert 0 < kept < count
    address = f"tcp://127.0.0.1:{free_port()}"
    with ended(scheduler_at(address), *(worker_at(address, tmp_path / f"then{number}") for number in range(2))):
        until_there(address, 2)
        process = sweep(path, out, "--scheduler", address)
        printed, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    assert f"{count} points, {kept} of them reused." in printed
    same(tmp_path, out, count)


def in_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lose: Callable[[Path], object]) -> tuple[Ran, list[str]]:
    """A sweep of 120 points in two jobs of Slurm, with what `lose` does to Slurm when some of them are kept; and what
    Slurm was asked for."""
    slurm, settings, out = tmp_path / "slurm", tmp_path / "mine.toml", tmp_path / "out"
    path = study(tmp_path, 120)
    until_seen = standin_slurm.impatient(monkeypatch)
    monkeypatch.setenv("PATH", f"{standin_slurm.installed(slurm)}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    settings.write_text(f'{SLURM}jobs = 2\nscratch = "{tmp_path}"\n'.replace("processes = 2", "processes = 1"))
    lost: list[bool] = []

    def watch() -> None:
        until_seen(2)
        deadline = time.monotonic() + LIMIT_S
        while not has_rows(out) and time.monotonic() < deadline:
            time.sleep(0.02)
        lose(slurm)
        lost.append(True)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    ran = invoke("sweep", path, "--out", out, "--slurm", settings)
    thread.join(LIMIT_S)
    assert lost
    return ran, standin_slurm.log(slurm)


def test_an_sbatch_that_refuses_is_one_line_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, document({"key": HOOK, "values": [1e-6]}))
    slurm, settings, out = tmp_path / "slurm", tmp_path / "mine.toml", tmp_path / "out"
    monkeypatch.setenv("PATH", f"{standin_slurm.installed(slurm)}:{os.environ['PATH']}")
    settings.write_text(SLURM.replace("wait_s = 120", "wait_s = 3600"), encoding="utf-8")
    standin_slurm.refuse(slurm, "sbatch: error: Batch job submission failed: Invalid partition name specified\n")
    began = time.monotonic()
    message = refusal("sweep", path, "--out", out, "--slurm", settings)
    assert time.monotonic() - began < 60 and not out.exists() and standin_slurm.log(slurm) == []
    assert message.startswith("--slurm: sbatch refused the first job (stand-in): sbatch: error: Batch job submission ")


def test_ctrl_c_while_jobs_of_slurm_wait_cancels_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, document({"key": HOOK, "values": [1e-6]}))
    slurm, settings = tmp_path / "slurm", tmp_path / "mine.toml"
    monkeypatch.setenv("PATH", f"{standin_slurm.installed(slurm)}:{os.environ['PATH']}")
    settings.write_text(f"{SLURM}jobs = 2\n", encoding="utf-8")
    standin_slurm.wait(slurm)
    process = sweep(path, tmp_path / "out", "--slurm", str(settings))
    until(lambda: len(standin_slurm.log(slurm)) == 2, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130 and len(err.splitlines()) <= 2, err
    assert err.startswith("simfrontier: waiting for the first worker of 2 jobs of Slurm (stand-in), up to 120 s\n")
    assert standin_slurm.log(slurm)[:2] == ["sbatch 1001", "sbatch 1002"]
    assert sorted(standin_slurm.log(slurm)[2:]) == ["scancel 1001", "scancel 1002"]


def test_a_job_of_slurm_that_is_killed_loses_nothing_and_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, log = in_jobs(tmp_path, monkeypatch, lambda slurm: standin_slurm.kill(slurm, 1001))
    assert ran.code == 0 and "120 points." in ran.out.splitlines(), ran
    assert "simfrontier: a job of Slurm has ended; another one is asked for" in ran.err.splitlines()
    assert log[:4] == ["sbatch 1001", "sbatch 1002", "scancel 1001", "sbatch 1003"]
    assert sorted(log[4:]) == ["scancel 1002", "scancel 1003"]
    same(tmp_path, tmp_path / "out", 120)


def test_a_job_of_slurm_that_is_lost_leaves_its_work_to_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(slurm: Path) -> None:
        standin_slurm.refuse(slurm, "sbatch: error: no more\n")
        standin_slurm.kill(slurm, 1001)

    ran, log = in_jobs(tmp_path, monkeypatch, lose)
    assert ran.code == 0 and "120 points." in ran.out.splitlines(), ran
    assert "simfrontier: sbatch refused a job: sbatch: error: no more; the work goes on in 1" in ran.err.splitlines()
    assert log == ["sbatch 1001", "sbatch 1002", "scancel 1001", "scancel 1002"]
    same(tmp_path, tmp_path / "out", 120)


def test_all_jobs_of_slurm_being_lost_is_one_line_and_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(slurm: Path) -> None:
        standin_slurm.refuse(slurm, "sbatch: error: no more\n")
        for number in (1001, 1002):
            standin_slurm.kill(slurm, number)

    ran, _ = in_jobs(tmp_path, monkeypatch, lose)
    said = ran.err.splitlines()[-1]
    assert ran.code == 1 and said.startswith(
        "simfrontier: no job of Slurm is left, and sbatch refused another one: sbatch: error: no more; "
    )
    assert said.endswith(" of 120 points are kept: the same command resumes")
    kept = int(said.split(": the same")[0].split()[-6])
    assert 0 < kept < 120
    again = invoke("sweep", tmp_path / "study.toml", "--out", tmp_path / "out", "--jobs", "1")
    assert f"120 points, {kept} of them reused." in again.out.splitlines()
    same(tmp_path, tmp_path / "out", 120)


def test_a_sweep_in_jobs_of_slurm_has_the_same_bytes_and_cancels_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, count = study(tmp_path, 40), 40
    slurm, settings = tmp_path / "slurm", tmp_path / "mine.toml"
    monkeypatch.setenv("PATH", f"{standin_slurm.installed(slurm)}:{os.environ['PATH']}")
    settings.write_text(f'{SLURM}scratch = "{tmp_path}"\n', encoding="utf-8")
    planned = invoke("sweep", path, "--slurm", settings, "--dry-run")
    assert "on 2 processes" in planned.out and standin_slurm.log(slurm) == []
    process = sweep(path, tmp_path / "out", "--slurm", str(settings))
    printed, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    assert f"{count} points." in printed.splitlines()
    said = [line for line in err.splitlines() if line.startswith("simfrontier:")]
    assert said[0] == "simfrontier: waiting for the first worker of 1 job of Slurm (stand-in), up to 120 s"
    assert said[1].startswith("simfrontier: Dask's pages of what the workers do: http://") and len(said) == 2
    assert standin_slurm.log(slurm) == ["sbatch 1001", "scancel 1001"] and standin_slurm.running(slurm) == []
    same(tmp_path, tmp_path / "out", count)
