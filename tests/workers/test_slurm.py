"""Workers in jobs of a stand-in for Slurm, which runs their scripts here."""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from simfrontier.errors import InputError
from simfrontier.workers import JobsLostError, SlurmJobs, Workers, load_slurm
from tests.invoke import ROOT
from tests.workers import standin_slurm, work

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="starts processes by bash and setsid")
SETTINGS = """
title = "stand-in"
source = "this test"
account = "abc123"
partition = "batch"
qos = "debug"
time_limit = "00:10:00"
wait_s = 120
processes = 2
cores = 2
memory = "2GB"
host = "127.0.0.1"
prologue = ["export MADE_READY=1"]
"""
PARTITION = "invalid partition specified: batch"
NONE_LEFT = "no job of Slurm is left, and sbatch refused another one"


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a stand-in that is found."""
    folder = tmp_path / "slurm"
    monkeypatch.setenv("PATH", f"{standin_slurm.installed(folder)}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # jobs begin where nothing is imported yet
    return folder


def place(tmp_path: Path, **keys: int) -> SlurmJobs:
    """Jobs of the stand-in; `keys` of the settings are others."""
    settings = tmp_path / "mine.toml"
    settings.write_text(f'{SETTINGS}scratch = "{tmp_path}"\n', encoding="utf-8")
    return SlurmJobs(settings=replace(load_slurm(str(settings)), **keys))


def test_calls_are_done_in_jobs_that_are_cancelled_at_the_end(tmp_path: Path, slurm: Path) -> None:
    said: list[str] = []
    with Workers(place(tmp_path), work.begin, ("ready",), said.append) as workers:
        assert workers.num_workers == 2
        assert list(workers.in_order(work.square, [(n,) for n in range(10)])) == [n * n for n in range(10)]
        assert workers.submit(work.begun).result()[1] == ["ready"]
        assert len(standin_slurm.running(slurm)) == 1
    assert said[0] == "waiting for the first worker of 1 job of Slurm (stand-in), up to 120 s"
    assert [line.partition("://")[0] for line in said[1:]] == ["Dask's pages of what the workers do: http"]
    assert standin_slurm.log(slurm) == ["sbatch 1001", "scancel 1001"]
    time.sleep(0.5)
    assert standin_slurm.running(slurm) == []
    script = (slurm / "1001.sh").read_text()
    for line in ("-p batch", "-A abc123", "-t 00:10:00", "--qos=debug", "--output=/dev/null"):
        assert f"#SBATCH {line}\n" in script


def test_an_account_has_to_be_given() -> None:
    with pytest.raises(InputError, match=r"^frontier\.toml: account: missing; allowed: the project to charge"):
        load_slurm("frontier")


@pytest.mark.parametrize("name", ["frontier", "lumi", "perlmutter"])
def test_every_file_of_the_catalog_is_the_base_of_ones_own(name: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(f'base = "{name}"\naccount = "abc123"\njobs = 3\n')
    assert load_slurm(str(mine)).num_workers == 3 * load_slurm(str(mine)).processes


def test_without_slurm_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"^--slurm: there is no sbatch here; allowed: on a machine with Slurm"):
        Workers(place(tmp_path)).__enter__()


def test_what_sbatch_says_is_told_at_once(tmp_path: Path, slurm: Path) -> None:
    standin_slurm.refuse(slurm, f"sbatch: error: {PARTITION}\nsbatch: error: Batch job submission failed\n")
    said: list[str] = []
    threads, began = set(threading.enumerate()), time.monotonic()
    with pytest.raises(InputError) as caught:
        Workers(place(tmp_path, wait_s=3600, jobs=3), say=said.append).__enter__()
    assert time.monotonic() - began < 30 and said == []
    assert str(caught.value) == (
        f"--slurm: sbatch refused the first job (stand-in): sbatch: error: {PARTITION}; sbatch: error: Batch job "
        "submission failed; allowed: settings that this Slurm takes"
    )
    assert not [each for each in set(threading.enumerate()) - threads if each.name == "IO loop"]


def test_sbatch_that_takes_fewer_jobs_is_told_and_the_work_goes_on(tmp_path: Path, slurm: Path) -> None:
    said: list[str] = []

    def say(text: str) -> None:
        """From the first wait on, no job is taken."""
        standin_slurm.refuse(slurm, "sbatch: error: QOSMaxSubmitJobPerUserLimit\n")
        said.append(text)

    with Workers(place(tmp_path, jobs=3, processes=1), say=say) as workers:
        assert list(workers.in_order(work.square, [(n,) for n in range(4)])) == [0, 1, 4, 9]
    assert "sbatch refused a job: sbatch: error: QOSMaxSubmitJobPerUserLimit; the work goes on in 1" in said
    assert standin_slurm.log(slurm) == ["sbatch 1001", "scancel 1001"]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_job_that_is_killed_is_asked_for_anew(
    processes: int, tmp_path: Path, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    until_seen = standin_slurm.impatient(monkeypatch)
    said: list[str] = []
    with Workers(place(tmp_path, processes=processes), work.begin, ("ready",), said.append) as workers:
        assert workers.submit(work.square, 3).result() == 9
        until_seen(1)
        standin_slurm.kill(slurm, 1001)
        assert workers.submit(work.begun).result(timeout=120)[1] == ["ready"]
        assert len(standin_slurm.running(slurm)) == 1
    assert said[-1] == "a job of Slurm has ended; another one is asked for"
    assert standin_slurm.log(slurm) == ["sbatch 1001", "scancel 1001", "sbatch 1002", "scancel 1002"]


def test_no_job_that_is_left_is_one_line_for_all_calls(
    tmp_path: Path, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    until_seen = standin_slurm.impatient(monkeypatch)
    with Workers(place(tmp_path), say=lambda _: None) as workers:
        assert workers.submit(work.square, 3).result() == 9
        waiting = [workers.submit(work.slow, 100.0) for _ in range(3)]
        until_seen(1)
        standin_slurm.refuse(slurm, "sbatch: error: this project has no hours left\n")
        standin_slurm.kill(slurm, 1001)
        for each in [*waiting, workers.submit(work.square, 3)]:
            with pytest.raises(JobsLostError, match=f"^{NONE_LEFT}: sbatch: error: this project has no hours left$"):
                each.result(timeout=60)
        with pytest.raises(JobsLostError, match=NONE_LEFT):  # and so is one that comes later
            workers.submit(work.square, 3).result(timeout=60)


@pytest.mark.long
def test_jobs_that_are_lost_and_do_not_start_again_are_waited_for_no_longer_than_for_the_first(
    tmp_path: Path, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    until_seen = standin_slurm.impatient(monkeypatch)
    with Workers(place(tmp_path, wait_s=30), say=lambda _: None) as workers:
        assert workers.submit(work.square, 3).result() == 9
        waiting = workers.submit(work.slow, 100.0)
        until_seen(1)
        standin_slurm.wait(slurm)
        standin_slurm.kill(slurm, 1001)
        with pytest.raises(JobsLostError, match=r"^no worker of 1 job of Slurm within 30 s; allowed: a larger wait_s"):
            waiting.result(timeout=90)
