"""Jobs of an emulated run on two ranks in a fabric."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simfrontier.errors import InputError
from simfrontier.schedule.mesh import Mesh
from simfrontier.schedule.store import digest, save
from simfrontier.schedule.sweep_calls import SweepCall, sweep
from simfrontier.trace import Span, Trace, load_links, read_perfetto, write_perfetto
from simfrontier_extras.emulation.real import probe
from simfrontier_extras.emulation.real.jobs import load_jobs
from simfrontier_extras.emulation.tests.wirings import wired
from simfrontier_extras.emulation.wiring import save_wiring

LACKING = probe.missing()
in_fabric = pytest.mark.skipif(bool(LACKING), reason=f"no emulated fabric here: {'; '.join(LACKING)}")


def written(folder: Path, *jobs: object, **more: object) -> Path:
    path = folder / "jobs.json"
    path.write_text(json.dumps({"wiring": "wiring.json", "jobs": jobs, **more}), encoding="utf-8")
    return path


# ── two ranks in a fabric ──

PAIR = wired(2, (0, 1), [(0, 1), (1, 0)], {(0, 1): [0, 1], (1, 0): [1, 0]})
NUM_BYTES = 400_000  # an all-gather of two: each sends half, 0.2 s at 1 MB/s
HALF_S = 0.2


def prepared(folder: Path) -> None:
    """A schedule of one all-gather, and a trace to wait by (it has no work of a rank by itself)."""
    mesh = Mesh((("gcd", 2),))
    schedule = sweep(mesh, [SweepCall(kind="all_gather", axes=("gcd",), num_bytes=NUM_BYTES)])
    save(schedule, folder / "schedule-x.json")
    gather = Span(
        op=0,
        lane="sweep",
        kind="all_gather",
        name="x",
        axes="gcd",
        level="package",
        call="sweep",
        layer=0,
        micro=0,
        num_bytes=NUM_BYTES / 2,
        message_bytes=NUM_BYTES,
        ready_s=0.0,
        start_s=0.0,
        end_s=1.0,
    )
    waits = Trace(digest=digest(schedule), title="x", ranks=("all",), members=((0, 1),), spans=((gather,),), notes={})
    write_perfetto(waits, folder / "trace-x.json")
    save_wiring(PAIR, folder / "wiring.json")


def job(out: str, rates: dict[str, float] | None = None) -> dict[str, Any]:
    return {
        "out": out,
        "schedules": ["schedule-x.json"],
        "waits": ".",
        "collectives": "native",
        "iterations": 1,
        "warmup": 1,
        "rates": rates or {},
    }


def run(folder: Path, *jobs: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "simfrontier_real", "emulate", str(written(folder, *jobs))]
    return subprocess.run(command, capture_output=True, text=True, timeout=120.0)


@in_fabric
def test_jobs_run_one_after_the_other_and_a_slowed_cable_is_slow_for_its_job_alone(tmp_path: Path) -> None:
    """0.2 s at the whole rate, 0.8 s at a quarter of it: far enough apart for a busy machine, and never faster than the
    cable."""
    pytest.importorskip("torch")
    prepared(tmp_path)
    done = run(tmp_path, job("first"), job("slow", {"0>1 0": 0.25}), job("last"))
    assert (done.returncode, done.stderr) == (0, "")
    took = {name: read_perfetto(tmp_path / name / "trace-x.json").step_s for name in ("first", "slow", "last")}
    assert took["first"] > 0.9 * HALF_S and took["slow"] > 0.9 * 4 * HALF_S
    assert max(took["first"], took["last"]) < took["slow"], took
    schedule_digest = read_perfetto(tmp_path / "trace-x.json").digest
    for name in took:
        table = load_links(tmp_path / name / "links-x.json")
        assert table.digest == schedule_digest
        for each in table.links:  # half of the message, headers, and acknowledgements of the other half
            assert NUM_BYTES / 2 < each.num_bytes < 1.1 * NUM_BYTES / 2


@in_fabric
def test_a_cable_that_is_not_there_ends_all_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    prepared(tmp_path)
    done = run(tmp_path, job("out", {"0>1": 0.5}))
    message, ended = done.stderr.splitlines()
    assert (done.returncode, message) == (
        1,
        "simfrontier-real: cable '0>1': did you mean \"0>1 0\"?",
    )
    assert ended.startswith("simfrontier-real: rank ") and ended.endswith("all 2 ranks are stopped")
    assert not (tmp_path / "out").exists()


def test_an_unknown_key_of_a_job_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, job("out") | {"iteration": 2})
    with pytest.raises(InputError, match=r'jobs\[0\]\.iteration: unknown key; did you mean "iterations"\?'):
        load_jobs(path)
