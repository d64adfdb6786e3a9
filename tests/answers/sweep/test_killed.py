"""A sweep that is killed goes on, and one in jobs of Slurm has the bytes of one process."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from simfrontier.answers.study import STORE
from simfrontier.answers.sweep import read_rows
from tests.answers.sweep.studies import HOOK, document, write
from tests.base.workers import standin_slurm
from tests.invoke import ROOT, invoke
from tests.processes import hearing_ctrl_c

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
LIMIT_S = 240.0  # machines are noisy
SLURM = """
title = "stand-in"
source = "this test"
account = "abc123"
time_limit = "00:10:00"
wait_s = 120
processes = 2
cores = 2
memory = "2GB"
interface = "lo"
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


def kept_in(out: Path) -> int:
    """How many points are kept, read as another process sees the store."""
    try:
        with closing(sqlite3.connect(f"file:{out / STORE}?mode=ro&nolock=1", uri=True)) as store:
            return int(store.execute("SELECT count(*) FROM result").fetchone()[0])
    except sqlite3.Error:  # not there yet, or just being written
        return 0


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


def test_a_sweep_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    path, count, known = study(tmp_path, 40), 40, 0
    for _ in range(3):
        process = sweep(path, tmp_path / "out", "--jobs", "1")
        deadline = time.monotonic() + LIMIT_S
        while kept_in(tmp_path / "out") <= known:
            assert time.monotonic() < deadline and process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.kill()
        process.communicate(timeout=LIMIT_S)
        known = kept_in(tmp_path / "out")
    found = json.loads(invoke("sweep", path, "--out", tmp_path / "out", "--jobs", "1", "--json").out)
    assert found["known"] >= 3
    same(tmp_path, tmp_path / "out", count)
