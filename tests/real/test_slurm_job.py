"""The Slurm scripts as jobs, from sbatch to the pages, with stand-ins for Slurm's programs: 48 nodes of 8 ranks, steps
that fail, and results that a later job reads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.real.slurm_stand_ins import install_environment, install_slurm

ROOT = Path(__file__).resolve().parents[2]
SLURM = ROOT / "real" / "slurm"
INPUTS = {"ACCOUNT": "abc123", "NODES": "48", "PLANS": "zero3,zero-topo"}


@dataclass(frozen=True)
class Job:
    """How a job ended, its last line, the calls of the stand-ins, and the folder of its results."""

    code: int
    said: str
    err: str
    calls: list[dict[str, Any]]
    out: Path

    def of(self, program: str) -> list[dict[str, Any]]:
        return [call for call in self.calls if call["program"] == program]

    def launches(self) -> dict[str, dict[str, Any]]:
        """The calls of srun for ranks, by step."""
        ranks = [call for call in self.of("srun") if call["options"]["ntasks-per-node"] != "1"]
        return {"where" if "where.py" in call["command"][1] else call["command"][1]: call for call in ranks}

    @property
    def summary(self) -> str:
        return self.said.splitlines()[-1]

    def has_page(self, name: str) -> bool:
        return (self.out / name / "index.html").exists()


def run_job(folder: Path, site: str = "frontier", **inputs: str) -> Job:
    """Submit a site's script from a folder; everything it needs is made there."""
    install_slurm(folder / "slurm")
    install_environment(folder / "env")
    (folder / "nvme").mkdir(exist_ok=True)
    log = folder / "calls"
    log.unlink(missing_ok=True)
    out = folder / "root" / "reports" / f"{site}-{inputs.get('STAND_IN_JOB', '1991')}"
    # a root of its own, for the results, with the scripts of this tree
    (folder / "root" / "real").mkdir(parents=True, exist_ok=True)
    for name, target in (("real/slurm", SLURM), ("scenarios", ROOT / "scenarios")):
        if not (folder / "root" / name).exists():
            (folder / "root" / name).symlink_to(target)
    places = {"ROOT": folder / "root", "PYTHON_ENV": folder / "env", "LOCAL_DISK": folder / "nvme", "STAND_IN_LOG": log}
    known = {"PATH": f"{folder / 'slurm'}:{os.environ['PATH']}"}
    ran = subprocess.run(
        ["bash", str(SLURM / f"{site}.sbatch")],
        env={**known, **{key: str(value) for key, value in places.items()}, **INPUTS, **inputs},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    calls = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
    return Job(ran.returncode, ran.stdout, ran.stderr, calls, Path(inputs.get("OUT", out)))


def pack(folder: Path) -> None:
    """The archive of an environment, as conda-pack would make it."""
    install_environment(folder / "env")
    with tarfile.open(folder / "env.tar.gz", "w:gz") as archive:
        archive.add(folder / "env" / "bin", "bin")


def test_a_job_of_48_nodes_launches_384_ranks(tmp_path: Path) -> None:
    pack(tmp_path)
    job = run_job(tmp_path, BROADCAST="1", QOS="debug")
    assert job.code == 0, job.said + job.err
    steps = ("broadcast", "predict", "where", "measure", "calibrate", "replay", "train", "compare")
    assert "; ".join(f"{step} done" for step in (*steps, "compare-calibrated")) in job.summary
    assert job.summary.endswith("exit code 0")
    assert job.has_page("page-predicted") and job.has_page("page-calibrated")
    (submitted,) = job.of("sbatch")
    expected = {"nodes": "48", "account": "abc123", "qos": "debug", "partition": "batch", "constraint": "nvme"}
    assert expected.items() <= submitted["options"].items()
    launches = job.launches()
    assert list(launches) == ["where", "measure", "replay", "train"]
    for step, call in launches.items():
        nodes = 2 if step == "train" else 48  # TRAIN_NODES
        assert call["options"]["nodes"] == str(nodes) and call["options"]["ntasks"] == str(8 * nodes)
        assert call["environment"]["MASTER_ADDR"] == "10.128.0.1" and call["environment"]["NCCL_NET"] == "OFI"
        assert call["command"][0].startswith(str(tmp_path / "nvme" / "simfrontier-env" / "bin"))
    assert (tmp_path / "nvme" / "simfrontier-env" / "bin" / "unpacked").exists()
    assert [call["command"][1] for call in job.of("module")][-1] == "rccl-net-plugin"


def test_a_dry_run_that_misses_nothing_ends_with_0(tmp_path: Path) -> None:
    install_environment(tmp_path / "env")
    job = run_job(tmp_path, DRY_RUN="1", NODES="2")
    assert (job.code, job.err) == (0, "") and "missing: " not in job.said


def test_a_job_of_several_networks_runs_its_steps_by_each(tmp_path: Path) -> None:
    """ZeRO-topo's headline (real/slurm/README.md): a page for each network, one launch each, each with its own port."""
    job = run_job(
        tmp_path,
        NETWORK="plugin no-gdr sockets",
        STEPS="predict replay compare",
        ITERATIONS="2",
        STAND_IN_FAILS="replay:9",
    )
    assert job.code == 9 and job.said.count("predict done; replay failed (9); compare skipped") == 3
    job = run_job(tmp_path, NETWORK="plugin no-gdr sockets", STEPS="predict replay compare", ITERATIONS="2", WARMUP="1")
    assert job.code == 0, job.said + job.err
    ranks = [call for call in job.of("srun") if call["options"]["ntasks-per-node"] != "1"]
    assert [call["environment"]["NCCL_NET"] for call in ranks] == ["OFI", "OFI", "Socket"]
    for call, network in zip(ranks, ("plugin", "no-gdr", "sockets"), strict=True):
        words = " ".join(call["command"])
        assert f"--out {job.out / network / 'real'} " in words and "--iterations 2 --warmup 1 " in words
        assert job.has_page(f"{network}/page-predicted")


@pytest.mark.parametrize(
    ("fails", "code", "outcomes", "pages"),
    [
        ("train:1", 1, ["train failed (1)", "compare done", "compare-calibrated done"], "pc"),
        ("measure:7", 7, ["measure failed (7)", "calibrate skipped (measure failed)", "train done"], "p"),
        ("sim:2", 2, ["predict failed (2)", "calibrate done", "replay skipped (predict failed)", "train done"], ""),
        ("replay:9", 9, ["train done", "compare skipped (replay failed)"], ""),
        ("sim-calibrated:2", 2, ["calibrate failed (2)", "compare-calibrated skipped (calibrate failed)"], "p"),
        ("page-predicted:1", 0, ["compare done (they differ)", "compare-calibrated done"], "pc"),
        ("page-calibrated:1", 1, ["compare done", "compare-calibrated done (they differ)"], "pc"),
    ],
)
def test_a_step_that_fails_takes_along_only_what_needs_it(
    fails: str, code: int, outcomes: list[str], pages: str, tmp_path: Path
) -> None:
    job = run_job(tmp_path, STAND_IN_FAILS=fails)
    assert job.code == code and job.summary.endswith(f"exit code {code}"), job.said + job.err
    said = job.summary.partition("steps: ")[2].partition("; results in")[0].split("; ")
    assert set(outcomes) <= set(said), said
    there = "".join(name[5] for name in ("page-predicted", "page-calibrated") if job.has_page(name))
    assert there == pages


def test_ranks_start_from_the_file_system_where_the_broadcast_fails(tmp_path: Path) -> None:
    pack(tmp_path)
    job = run_job(tmp_path, STAND_IN_FAILS="sbcast:1")
    assert job.code == 1 and "broadcast failed (1)" in job.summary and job.has_page("page-calibrated")
    assert all(call["command"][0].startswith(str(tmp_path / "env")) for call in job.launches().values())


def test_a_later_job_reads_what_an_earlier_one_left(tmp_path: Path) -> None:
    out = str(tmp_path / "mine")
    first = run_job(tmp_path, OUT=out, STEPS="predict replay")
    assert first.code == 0 and not first.has_page("page-predicted")
    second = run_job(tmp_path, OUT=out, STEPS="compare", STAND_IN_JOB="1992")
    assert second.code == 0 and second.has_page("page-predicted") and not second.has_page("page-calibrated")
    assert "compare-calibrated skipped (no calibration was asked for)" in second.summary


def test_a_container_starts_every_program(tmp_path: Path) -> None:
    (tmp_path / "image.sif").touch()
    program = tmp_path / "slurm" / "apptainer"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nshift 3\nexec "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    path = f"{tmp_path / 'slurm'}:{tmp_path / 'env' / 'bin'}:{os.environ['PATH']}"
    words = f"apptainer exec --rocm {tmp_path / 'image.sif'}"
    job = run_job(tmp_path, CONTAINER=words, PATH=path)
    assert job.code == 0 and job.has_page("page-calibrated"), job.said + job.err
    started = [call["command"] for call in job.of("srun") if call["command"][0] != "hostname"]
    assert len(started) == 4 and all(command[:4] == words.split() for command in started)
    assert re.search(r"^apptainer exec --rocm \S+/image.sif simfrontier crosscheck", job.said, re.MULTILINE)
