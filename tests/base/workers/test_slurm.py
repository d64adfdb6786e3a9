"""Workers in jobs of a stand-in for Slurm, which runs their scripts here."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from simfrontier.base.errors import InputError
from simfrontier.base.workers import LostError, SlurmJobs, Workers, load_slurm
from tests.base.workers import standin_slurm, work
from tests.invoke import ROOT

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
interface = "lo"
"""


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
    with Workers(place(tmp_path), said.append) as workers:
        assert workers.num_workers == 2
        assert list(workers.in_order(work.square, [(n,) for n in range(10)])) == [n * n for n in range(10)]
        assert len(standin_slurm.running(slurm)) == 1
    assert said[0] == "waiting for the first worker of 1 job of Slurm (stand-in), up to 120 s"
    assert [line.partition("://")[0] for line in said[1:]] == ["Dask's pages of what the workers do: http"]
    assert standin_slurm.log(slurm) == ["sbatch 1001", "scancel 1001"]
    script = (slurm / "1001.sh").read_text()
    for line in ("-p batch", "-A abc123", "-t 00:10:00", "--qos=debug", "--output=/dev/null"):
        assert f"#SBATCH {line}\n" in script


def test_an_account_has_to_be_given(tmp_path: Path) -> None:
    for name in ("frontier", "mine"):
        with pytest.raises(InputError, match=f'^--slurm: got "{name}", allowed: a TOML file with your account'):
            load_slurm(name)
    mine = tmp_path / "mine.toml"
    mine.write_text('base = "frontier"\n')
    with pytest.raises(InputError, match=r"mine\.toml: account: missing$"):
        load_slurm(str(mine))


@pytest.mark.parametrize("name", ["frontier", "lumi", "perlmutter"])
def test_every_file_of_the_catalog_is_the_base_of_ones_own(name: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(f'base = "{name}"\naccount = "abc123"\njobs = 3\n')
    assert load_slurm(str(mine)).num_workers == 3 * load_slurm(str(mine)).processes


def test_without_slurm_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"^--slurm: there is no sbatch here; allowed: on a machine with Slurm"):
        Workers(place(tmp_path)).__enter__()


def test_what_sbatch_says_is_reported_at_once(tmp_path: Path, slurm: Path) -> None:
    standin_slurm.refuse(slurm, "sbatch: error: invalid partition specified: batch\nsbatch: error: failed\n")
    with pytest.raises(InputError) as caught:
        Workers(place(tmp_path, wait_s=3600, jobs=3)).__enter__()
    said = "sbatch: error: invalid partition specified: batch; sbatch: error: failed"
    assert str(caught.value) == f"--slurm: sbatch refuses the job (stand-in): {said}"


def test_a_job_that_is_killed_is_asked_for_anew(tmp_path: Path, slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simfrontier.base.workers.slurm.LOOK_S", 0.2)
    monkeypatch.setattr("simfrontier.base.workers.slurm.LOST_S", 1.0)
    said: list[str] = []
    with Workers(place(tmp_path), said.append) as workers:
        assert list(workers.in_order(work.square, [(3,)])) == [9]
        time.sleep(1.0)
        standin_slurm.kill(slurm, 1001)
        assert list(workers.in_order(work.square, [(4,)])) == [16]
    assert said[-1] == "a job of Slurm has ended; another one is asked for"


def test_without_a_worker_in_time_the_command_ends(
    tmp_path: Path, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simfrontier.base.workers.slurm.LOOK_S", 0.2)
    (slurm / "waits").touch()
    with pytest.raises(LostError, match=r"^no worker of 1 job of Slurm within 1 s; allowed: a larger wait_s"):
        Workers(place(tmp_path, wait_s=1)).__enter__()
