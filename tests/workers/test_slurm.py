"""Workers in jobs of a stand-in for Slurm, which runs their scripts here."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from simfrontier.errors import InputError
from simfrontier.workers import SlurmJobs, Workers, load_slurm
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


def test_calls_are_done_in_jobs_that_are_cancelled_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = tmp_path / "slurm"
    monkeypatch.setenv("PATH", f"{standin_slurm.installed(slurm)}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # jobs begin where nothing is imported yet
    settings = tmp_path / "mine.toml"
    settings.write_text(SETTINGS.replace('host = "127.0.0.1"', f'host = "127.0.0.1"\nscratch = "{tmp_path}"'))
    said: list[str] = []
    with Workers(SlurmJobs(settings=load_slurm(str(settings))), work.begin, ("ready",), said.append) as workers:
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
    settings = tmp_path / "mine.toml"
    settings.write_text(SETTINGS)
    place = SlurmJobs(settings=load_slurm(str(settings)))
    with pytest.raises(InputError, match=r"^--slurm: there is no sbatch here; allowed: on a machine with Slurm"):
        Workers(place).__enter__()
