"""Files of jobs: read with places from their folder, and every fault named; and jobs run on two ranks in a fabric."""

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
from simfrontier_extras.emulation.real.jobs import ReplayJob, load_jobs
from simfrontier_extras.emulation.tests.wirings import wired
from simfrontier_extras.emulation.wiring import save_wiring

LACKING = probe.missing()
in_fabric = pytest.mark.skipif(bool(LACKING), reason=f"no emulated fabric here: {'; '.join(LACKING)}")

JOB = {
    "out": "a/real",
    "schedules": ["a/sim/schedule-x.json"],
    "waits": "a/sim",
    "collectives": "lowered",
    "iterations": 2,
    "warmup": 1,
    "rates": {"node 0 nic0>net": 0.5},
}


def written(folder: Path, *jobs: object, **more: object) -> Path:
    path = folder / "jobs.json"
    path.write_text(json.dumps({"wiring": "wiring.json", "jobs": jobs, **more}), encoding="utf-8")
    return path


def test_places_count_from_the_files_folder(tmp_path: Path) -> None:
    wiring, jobs = load_jobs(written(tmp_path, JOB, JOB | {"collectives": "native", "rates": {}}))
    first = ReplayJob(
        out=tmp_path / "a" / "real",
        schedules=(tmp_path / "a" / "sim" / "schedule-x.json",),
        waits=tmp_path / "a" / "sim",
        collectives="lowered",
        iterations=2,
        warmup=1,
        rates={"node 0 nic0>net": 0.5},
    )
    assert (wiring, jobs[0]) == (tmp_path / "wiring.json", first)
    assert (jobs[1].collectives, dict(jobs[1].rates), len(jobs)) == ("native", {}, 2)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "collectives",
            "lowerd",
            'jobs[0].collectives: got "lowerd", allowed: "lowered" or "native"; did you mean "lowered"?',
        ),
        ("collectives", None, 'jobs[0].collectives: got null, allowed: "lowered" or "native"'),
        ("iterations", 0, "jobs[0].iterations: got 0, allowed: at least 1"),
        ("warmup", -1, "jobs[0].warmup: got -1, allowed: at least 0"),
        ("iterations", True, "jobs[0].iterations: got true, allowed: a whole number"),
        ("iterations", 1.0, "jobs[0].iterations: got 1.0, allowed: a whole number"),
        ("schedules", "schedule-x.json", 'jobs[0].schedules: got "schedule-x.json", allowed: a list'),
        ("schedules", ["a", 3], "jobs[0].schedules[1]: got 3, allowed: a text"),
        ("out", "", 'jobs[0].out: got "", allowed: the name of a file or folder'),
        ("out", "../out", 'jobs[0].out: got "../out", allowed: a place below the folder of the file of jobs'),
        ("waits", "/etc", 'jobs[0].waits: got "/etc", allowed: a place below'),
        ("schedules", ["a/../../x.json"], 'jobs[0].schedules[0]: got "a/../../x.json", allowed: a place below'),
        ("rates", [], "jobs[0].rates: got [], allowed: a table"),
        ("rates", {"a": 0}, "jobs[0].rates.a: got 0, allowed: at least 1e-06 and at most 1"),
        ("rates", {"a": 2.0}, "jobs[0].rates.a: got 2.0, allowed: "),
        ("rates", {"a": 10**400}, "jobs[0].rates.a: "),
        ("rates", {"a": True}, "jobs[0].rates.a: got true, allowed: a number"),
        ("iteration", 2, 'jobs[0].iteration: unknown key; did you mean "iterations"?'),
    ],
)
def test_what_is_wrong_in_a_job_is_named_with_its_place(tmp_path: Path, key: str, value: Any, message: str) -> None:
    path = written(tmp_path, JOB | {key: value})
    with pytest.raises(InputError) as caught:
        load_jobs(path)
    assert str(caught.value).startswith(f"{path}: {message}") and "\n" not in str(caught.value)


def test_a_link_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "planted").symlink_to(tmp_path)
    with pytest.raises(InputError, match=r'jobs\[0\]\.out: got "planted/real", allowed: a place below'):
        load_jobs(written(inside, JOB | {"out": "planted/real"}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1 column 1: not JSON"),
        ("[" * 100_000, "not a file of jobs: nested too deeply"),
        ("9" * 5000, "not a file of jobs: "),
        ("[]", "got [], allowed: a table"),
        ('{"jobs": []}', "wiring: missing"),
        ('{"jobs": {}, "wiring": "w"}', "jobs: got {}, allowed: a list"),
        ('{"jobs": [], "wiring": 3}', "wiring: got 3, allowed: a text"),
        ('{"jobs": [3], "wiring": "w"}', "jobs[0]: got 3, allowed: a table"),
    ],
)
def test_what_is_no_file_of_jobs_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "jobs.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_jobs(path)
    assert str(caught.value).startswith(f"{path}: {message}")


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
        "simfrontier-real: the fabric cannot do that: cable '0>1': did you mean \"0>1 0\"?",
    )
    assert ended.startswith("simfrontier-real: rank ") and ended.endswith("all 2 ranks are stopped")
    assert not (tmp_path / "out").exists()
