"""`simfrontier sweep`: what it prints and writes, and every line with which it refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from simfrontier.errors import StoppedError
from simfrontier.study import STORE
from simfrontier.sweep import Progress, is_of_plan, load_study, read_rows, run_sweep
from simfrontier.workers import Local
from tests.invoke import ROOT, invoke, refusal
from tests.processes import hearing_ctrl_c
from tests.sweep.studies import ACCUM, HOOK, MICRO, SET, document, scenario, write
from tests.sweep.test_workers_lost import kept_in

LIMIT_S = 240.0  # machines are noisy
BILLION = [{"key": key, "log_range": {"from": 1e-3, "to": 1.0, "count": 1000}} for key in (HOOK,)]
BILLION += [{"key": "library.overrides.shares.nic", "range": {"from": 0.1, "to": 1.0, "count": 1000}}]
BILLION += [{"key": "uncertainty.seed", "range": {"from": 1, "to": 1000, "step": 1}}]


def said(folder: Path, *axes: Any, **more: Any) -> str:
    """What is said of a study that is refused, without the name of its file."""
    path = write(folder, document(*axes, **more))
    message = refusal("sweep", path, "--out", folder / "out", "--jobs", "1")
    assert not (folder / "out").exists()
    return message.removeprefix(f"{path}: ")


def test_it_says_the_best_of_each_plan_and_where_the_rows_are(tmp_path: Path) -> None:
    path = write(tmp_path, document({"key": MICRO, "values": [1, 2]}))
    ran = invoke("sweep", path, "--out", tmp_path / "out", "--jobs", "1")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].strip() == "Tried: the best of each plan"
    assert [line.split()[0] for line in lines[4:6]] == ["ddp", "zero1"]
    assert f"Point 1: {MICRO} = 2." in lines
    assert "2 points." in lines
    assert (
        lines[-1]
        == f"Written: {tmp_path / 'out' / 'rows.parquet'} (4 rows), manifest.json, index.html (open it in a browser)"
    )
    again = invoke("sweep", path, "--out", tmp_path / "out", "--jobs", "1", "--json")
    found = json.loads(again.out)
    assert (found["points"], found["rows"], found["known"], found["refused"]) == (2, 4, 2, 0)
    assert [best["plan"] for best in found["best"]] == ["ddp", "zero1"]


def test_refused_points_are_counted_and_all_of_them_are_exit_code_1(tmp_path: Path) -> None:
    path = write(tmp_path, document({"key": "training.batch", "values": [4, 5]}))
    ran = invoke("sweep", path, "--out", tmp_path / "out", "--jobs", "1")
    assert ran.code == 0
    assert "1 point was refused, 1 of them at every plan and size; the column error says why." in ran.out
    path = write(tmp_path, document({"key": "training.batch", "values": [3, 5]}))
    ran = invoke("sweep", path, "--out", tmp_path / "out", "--jobs", "1")
    assert ran.code == 1 and "Every point was refused; the column error says why." in ran.out


def test_a_dry_run_counts_and_runs_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, document({"key": MICRO, "values": [1, 2, 4]}, filters=[f"{MICRO} < 4"]))
    ran = invoke("sweep", path, "--out", tmp_path / "out", "--dry-run", "--jobs", "2")
    assert (ran.code, ran.err) == (0, "") and not (tmp_path / "out").exists()
    lines = ran.out.splitlines()
    assert lines[:3] == [
        "Tried: 2 points, of 3 before its filters",
        "  scenarios: small",
        f"  3 × {MICRO}",
    ]
    assert lines[3].startswith("about ") and "on 2 processes" in lines[3]
    found = json.loads(invoke("sweep", path, "--dry-run", "--json").out)
    assert (found["points"], found["before_filters"]) == (2, 3) and found["cpu_s"] > 0


@pytest.mark.parametrize(
    ("key", "is_mine"),
    [
        ("training.micro_batch", True),
        ("plans.zero3.publish", True),
        ("plans.*.micro_batch", True),
        ("plans.zero1.publish", False),
        ("at.16.plans.zero1.publish", False),
        ("at.16.plans.zero3.publish", True),
    ],
)
def test_settings_of_another_plan_are_none_of_a_plan(key: str, is_mine: bool) -> None:
    assert is_of_plan(key, "zero3") is is_mine


def test_the_time_of_a_study_is_that_of_all_its_sizes(tmp_path: Path) -> None:
    """A size that takes long is counted wherever it stands on its axis."""
    times = []
    for sizes in ([1, 64], [64, 1]):
        path = write(tmp_path, document({"key": "training.grad_accum", "values": sizes}))
        times.append(json.loads(invoke("sweep", path, "--dry-run", "--json").out)["cpu_s"])
    path = write(tmp_path, document({"key": "training.grad_accum", "values": [1, 2]}))
    assert times[0] == times[1] > 2 * json.loads(invoke("sweep", path, "--dry-run", "--json").out)["cpu_s"]


def test_a_billion_points_are_told_at_once(tmp_path: Path) -> None:
    path, began = write(tmp_path, document(*BILLION)), time.monotonic()
    ran = invoke("sweep", path, "--dry-run", "--jobs", "1")
    assert ran.out.startswith("Tried: 1,000,000,000 points\n") and "years of CPU time" in ran.out
    assert "More than are run: 1,000,000,000 points; allowed: up to 1,000,000" in ran.out
    message = refusal("sweep", path, "--out", tmp_path / "out", "--jobs", "1")
    assert message.startswith(f"{path}: 1,000,000,000 points; allowed: up to 1,000,000; it would take about ")
    assert message.endswith(" years of CPU time")
    assert time.monotonic() - began < 60  # no point is made: that would take hours


# ── what is refused ──


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        (
            {"key": "machine.overrides.host.hok_s", "values": [1e-6]},
            'host.hok_s" is not a number of this machine; did you mean "host.hook_s"?',
        ),
        ({"key": "trainin.micro_batch", "values": [1]}, 'unknown key; did you mean "training.micro_batch"?'),
        ({"key": "plans.zero1.reducton", "values": ["flat"]}, 'unknown key; did you mean "reduction"?'),
        ({"key": "plans.zero9.micro_batch", "values": [1]}, "plans.zero9.family: got "),
        ({"key": MICRO, "values": [1, 2, -4]}, f"value 3, {MICRO} = -4, in "),
        ({"key": MICRO, "values": [1, 2.5]}, f"value 2, {MICRO} = 2.5, in "),
        ({"key": "engine.overlap", "values": ["yes"]}, 'got "yes", allowed: true or false'),
        ({"key": MICRO}, "got none of values, range, log_range, samples, between, among, rows; allowed: one of these"),
        ({"values": [1]}, "allowed: key, or keys with rows"),
        ({"key": MICRO, "values": [1], "scale": "log"}, "scale: got scale without between; allowed: with between"),
        ({"key": MICRO, "vals": [1]}, 'vals: unknown key; did you mean "values"?'),
        ({"key": MICRO, "values": []}, "allowed: a list of at least 1"),
        ({"key": MICRO, "values": [1], "between": [1, 2]}, "got values and between of values, range"),
        ({"key": MICRO, "range": {"from": 1, "to": 4}}, "range: allowed: step, or count"),
        ({"key": MICRO, "range": {"from": 4, "to": 1, "step": 1}}, "got 1, allowed: at least from, which is 4"),
        ({"key": MICRO, "range": {"form": 1, "to": 4, "step": 1}}, 'form: unknown key; did you mean "from"?'),
        ({"key": MICRO, "log_range": {"from": 0, "to": 4, "count": 2}}, "got 0, allowed: more than 0"),
        ({"key": MICRO, "between": [1, 2]}, "is sampled, and nothing says how often"),
        ({"keys": [MICRO, ACCUM], "rows": [[1, 2], [1]]}, "rows[1]: got a list of 1, allowed: of 2, as many as keys"),
        ({"keys": [MICRO, ACCUM]}, "got none of values"),
        ({"keys": [MICRO, MICRO], "rows": [[1, 2]]}, "stands twice; allowed: every key on one axis"),
        (
            {"key": HOOK, "samples": {"distribution": "norml", "count": 2}},
            'distribution: got "norml", allowed: "uniform"',
        ),
        (
            {"key": HOOK, "samples": {"distribution": "normal", "mean": 1, "count": 2}},
            "samples.sd: missing; a normal distribution needs mean, sd",
        ),
        (
            {"key": HOOK, "samples": {"distribution": "uniform", "low": 0, "high": 1, "mode": 1, "count": 2}},
            "samples.mode: a uniform distribution has none; allowed: low, high",
        ),
        (
            {"key": HOOK, "samples": {"distribution": "log-uniform", "low": 0, "high": 1, "count": 2}},
            "samples.low: got 0, allowed: above 0, as its logarithm is taken",
        ),
        (
            {"key": HOOK, "samples": {"distribution": "triangular", "low": 0, "high": 1, "mode": 2, "count": 2}},
            "samples.mode: got 2, allowed: 0 to 1",
        ),
        (
            {"key": HOOK, "samples": {"distribution": "normal", "mean": 0, "sd": 1, "count": 9}},
            "got -",  # below zero: which value, and what is allowed
        ),
    ],
)
def test_a_wrong_axis_is_one_line(tmp_path: Path, axis: dict[str, Any], message: str) -> None:
    found = said(tmp_path, axis)
    assert found.startswith("axes[0]") and message in found, found


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sampling": {"count": 3}}, "sampling: no axis is sampled; allowed: with axes that have between"),
        ({"set": {"training.micro_bach": 2}}, "scenarios[0]"),
        ({"fidelity": "flw"}, 'fidelity: got "flw", allowed: "analytic", "flow" or "chunk"; did you mean "flow"?'),
        ({"scenarios": []}, "scenarios: got [], allowed: a list of at least 1"),
        ({"scenarios": ["small.toml", "small.toml"]}, 'got the name "small" twice, also of small.toml; allowed: diff'),
        ({"scenarios": ["smal.toml"]}, "cannot read this scenario: No such file or directory"),
        ({"name": "a/b"}, 'name: got "a/b", allowed: a text of the pattern'),
        ({"filter": ["1 > 0"]}, 'filter: unknown key; did you mean "filters"?'),
        ({"filters": ["training.micro_bach > 1"]}, 'filters[0]: got "training.micro_bach"; did you mean "training.'),
        ({"filters": ["training.micro_batch"]}, 'filters[0]: "training.micro_batch" gives 1; allowed: a condition'),
        ({"filters": ["1 > 0", "import os"]}, 'filters[1]: "import os" cannot be read'),
        ({"filters": [f"{MICRO} > 1"]}, "no points are left by its filters; allowed: a study with a point"),
    ],
)
def test_a_wrong_study_is_one_line(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    assert message in said(tmp_path, **more)


def test_a_key_stands_once(tmp_path: Path) -> None:
    axis = {"key": MICRO, "values": [1]}
    assert "axes[1]" in said(tmp_path, axis, axis) and "stands twice" in said(tmp_path, axis, axis)
    message = said(tmp_path, axis, set={**SET, MICRO: 2})
    assert message == f"set.{MICRO}: is the key of an axis, too; allowed: one of the two"


def test_a_dry_run_of_a_search_says_its_points(tmp_path: Path) -> None:
    axes = ({"key": MICRO, "between": [1, 4]}, {"key": HOOK, "between": [1e-6, 1e-2], "scale": "log"})
    path = write(tmp_path, document(*axes, goal={"column": "mfu"}, search={"points": 40}))
    ran = invoke("sweep", path, "--dry-run")
    assert ran.out.splitlines()[0] == "Tried: 40 points"
    assert {f"  searched over: {MICRO}", f"  searched over: {HOOK}"} <= set(ran.out.splitlines())
    assert invoke("sweep", path, "--dry-run", "--until", "12").out.startswith("Tried: at most 12 points")
    assert refusal("sweep", path, "--dry-run", "--until", "abc").startswith('--until: got "abc"; allowed: a number of')


def test_scenarios_of_one_name_are_refused(tmp_path: Path) -> None:
    scenario(tmp_path)
    other = scenario(tmp_path, "other")
    other.write_text(other.read_text(encoding="utf-8").replace('name = "other"', 'name = "small"'), encoding="utf-8")
    message = said(tmp_path, scenarios=["small.toml", "other.toml"])
    assert 'got the name "small" twice, also of small.toml; allowed: different names' in message


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    path, out = write(tmp_path, document()), tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    message = refusal("sweep", path, "--out", out, "--jobs", "1")
    assert message == f"--out {out}: holds other files; allowed: an empty folder, or a name for a new one"
    assert [each.name for each in out.iterdir()] == ["notes.txt"]
    message = refusal("sweep", path, "--out", path, "--jobs", "1")
    assert message == f"--out {path}: is a file; allowed: a folder, or a name for a new one"


def test_a_folder_of_another_study_says_which(tmp_path: Path) -> None:
    out = tmp_path / "out"
    invoke("sweep", write(tmp_path, document()), "--out", out, "--jobs", "1")
    path = write(tmp_path, document(name="second"), "second.toml")
    message = refusal("sweep", path, "--out", out, "--jobs", "1")
    assert message == f'--out {out}: is of the study "tried", not "second"; allowed: another --out'


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    path, out = write(tmp_path, document()), tmp_path / "locked"
    out.mkdir(mode=0o500)
    assert "cannot be written" in refusal("sweep", path, "--out", out / "new", "--jobs", "1")


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, document())
    assert "cannot be written: Not a directory" in refusal("sweep", path, "--out", path / "new", "--jobs", "1")


def test_a_store_that_is_none_is_refused_and_forgotten_when_asked(tmp_path: Path) -> None:
    path, out = write(tmp_path, document()), tmp_path / "out"
    out.mkdir()
    (out / STORE).write_bytes(b"x" * 5000)
    message = refusal("sweep", path, "--out", out, "--jobs", "1")
    assert message.startswith(f"{out / STORE}: is no store of results, or damaged; allowed: --fresh")
    assert invoke("sweep", path, "--out", out, "--jobs", "1", "--fresh").code == 0


# ── stopped from outside ──


def _started(path: Path, out: Path, jobs: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "simfrontier", "sweep", str(path), "--out", str(out), "--jobs", str(jobs)]
    with hearing_ctrl_c():
        return subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )


def _until_kept(process: subprocess.Popen[str], out: Path, more_than: int = 0) -> None:
    deadline = time.monotonic() + LIMIT_S
    while kept_in(out) <= more_than:
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()
        time.sleep(0.02)


def test_ctrl_c_at_a_batch_is_told_with_what_is_kept(tmp_path: Path) -> None:
    made = load_study(write(tmp_path, document({"key": HOOK, "values": [1e-6, 2e-6, 3e-6]})))
    seen: list[Progress] = []

    def stop(at: Progress) -> None:
        seen.append(at)
        if at.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(StoppedError, match="stopped; 2 of 3 points are kept: the same command resumes") as stopped:
        run_sweep(made, tmp_path / "out", Local(jobs=1), stop)
    assert [at.done for at in seen] == [0, 1, 2] and stopped.value.exit_code == 130
    assert run_sweep(made, tmp_path / "out", Local(jobs=1)).known == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_signal_to_stop_keeps_what_is_done_and_says_so(
    number: signal.Signals, code: int, jobs: int, tmp_path: Path
) -> None:
    path = write(tmp_path, document({"key": HOOK, "range": {"from": 1e-6, "to": 1e-4, "count": 400}}))
    process = _started(path, tmp_path / "out", jobs)
    _until_kept(process, tmp_path / "out")
    process.send_signal(number)
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == code
    *_, line = err.splitlines()  # progress before it, where it took long
    assert line.startswith("simfrontier: stopped; ") and line.endswith("kept: the same command resumes")
    assert " of 400 points are " in line and not line.startswith("simfrontier: stopped; 0 of")


def test_a_main_process_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, document({"key": HOOK, "range": {"from": 1e-6, "to": 1e-4, "count": 40}}))
    invoke("sweep", path, "--out", tmp_path / "whole", "--jobs", "1")
    known = 0
    for _ in range(3):
        process = _started(path, tmp_path / "out", 1)
        _until_kept(process, tmp_path / "out", known)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=LIMIT_S)
        known = kept_in(tmp_path / "out")
    found = json.loads(invoke("sweep", path, "--out", tmp_path / "out", "--jobs", "1", "--json").out)
    assert found["known"] >= 3
    assert read_rows(tmp_path / "out").equals(read_rows(tmp_path / "whole"))
    part = "rows.parquet"
    assert (tmp_path / "out" / part).read_bytes() == (tmp_path / "whole" / part).read_bytes()
    names = {each.name for each in (tmp_path / "out").iterdir()}
    assert names == {"index.html", "manifest.json", STORE, "rows.parquet", "study.toml"}
