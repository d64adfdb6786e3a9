"""The command line: exit codes, versions, lists, schedules shown and checked, a full disk, and `doctor`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

import simfrontier
from simfrontier.inputs.scenario import Kind
from tests.invoke import ROOT, TOY, Change, changed_json, invoke


def in_a_process(
    *arguments: str, code: str = "from simfrontier.interfaces.cli import main; main()"
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a process of its own, in the repository's root."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("simfrontier", "from simfrontier.interfaces.cli import main; main()"),
        ("simfrontier-real", "from simfrontier_real.cli import app; app()"),
    ],
)
def test_both_programs_say_their_version(program: str, code: str) -> None:
    assert in_a_process("--version", code=code) == (0, f"{program} {simfrontier.__version__}\n", "")


@pytest.mark.parametrize("args", ["--help", "compare --model gpt2-xl --nodes 1 --plans zero3;ddp"])
def test_help_and_a_comparison_import_no_heavy_library(args: str) -> None:
    code = (
        "import sys, atexit, simfrontier.interfaces.cli\n"
        "heavy = {'pandas', 'plotly', 'scipy', 'dask', 'torch'}\n"
        "atexit.register(lambda: sys.stderr.write(f'heavy: {sorted(heavy & set(sys.modules))}'))\n"
        "simfrontier.interfaces.cli.main()"
    )
    done, _, err = in_a_process(*args.split(), code=code)
    assert done == 0 and err.endswith("heavy: []")


def test_a_full_disk_leaves_a_run_as_it_was(tmp_path: Path) -> None:
    """A limit of the size of files stands for a full disk: the system refuses to write further."""
    out = tmp_path / "out"
    assert invoke("run", TOY, "--plans", "zero3", "--devices", "2", "--no-page", "--out", out).code == 0
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"
    code = f"{limit}; from simfrontier.interfaces.cli import main; main()"
    command = [sys.executable, "-c", code, "run", str(TOY), "--plans", "ddp", "--devices", "4", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"simfrontier: {out}/") and "cannot be written: File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before


def test_doctor_finds_everything_that_is_needed_and_simulates_a_step() -> None:
    ran = invoke("doctor", "--json")
    known = {row["what"]: row for row in json.loads(ran.out)}
    assert (ran.code, ran.err) == (0, "") and all(row["works"] for row in known.values())
    assert "frontier" in known["machines"]["found"] and "rccl" in known["libraries"]["found"]
    assert known["simulation"]["found"].startswith("one step of a tiny model on 2 devices takes ")


KINDS = get_args(Kind)


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_has_a_sentence(kind: str) -> None:
    listed = json.loads(invoke("list", kind, "--json").out)
    assert len(listed) >= 10 and all(one["name"] and one["description"] for one in listed)
    words = invoke("list", kind).out.splitlines()
    assert [line.split()[0] for line in words] == [one["name"] for one in listed]
    assert len({one["name"] for one in listed}) == len(listed)


def saved(folder: Path, *options: str) -> Path:
    """A good schedule file."""
    path = folder / "schedule.json"
    ran = invoke("show", TOY, "--save", path, *options)
    assert (ran.code, ran.err) == (0, "")
    return path


def changed(folder: Path, change: Change, *options: str) -> Path:
    """A schedule file of which somebody has changed something."""
    path = saved(folder, *options)
    return changed_json(path, path, change)


def test_show_lists_links_by_the_names_that_perturbations_take() -> None:
    ran = invoke("show", TOY, "--links")
    assert ran.code == 0
    assert "xgmi 0>1" in ran.out


def test_show_lists_volumes() -> None:
    ran = invoke("show", TOY, "--volumes", "--plan", "zero3", "--devices", "8")
    assert (ran.code, ran.err) == (0, "")
    assert "weight_gather" in ran.out


def test_check_ends_with_0_for_a_sound_schedule(tmp_path: Path) -> None:
    path = saved(tmp_path)
    ran = invoke("check", path)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{path}: passed (digest ")


def test_check_of_a_scenario_is_of_every_plan_at_every_size() -> None:
    ran = invoke("check", TOY, "--devices", "2,8", "--json")
    assert ran.code == 0
    rows = json.loads(ran.out)
    assert len(rows) == 16 and not any(row["findings"] for row in rows)
    assert [row["schedule"] for row in rows[:3]] == ["zero3 on 2", "zero3 on 8", "ddp on 2"]


def test_check_says_what_does_not_fit(tmp_path: Path) -> None:
    path = saved(tmp_path)
    assert invoke("check", path, "--capacity", "16e9").code == 0
    ran = invoke("check", path, "--capacity", "1000")
    assert ran.code == 1
    assert f"{path}: 1 findings" in ran.out and "memory: " in ran.out and "at most 1000 bytes" in ran.out


def _twice(form: dict[str, Any]) -> None:
    block = next(b for b in form["blocks"] if any(form["ops"][i]["kind"] == "accumulate" for i in b))
    number = next(i for i in block if form["ops"][i]["kind"] == "accumulate")
    block.insert(block.index(number), number)


MUTATIONS: list[tuple[str, Change, str, str]] = [
    ("unknown tensor", lambda form: form["ops"][0].update(reads=["nothing"]), "references: ", "nothing"),
    ("summed twice", _twice, "sums: ", "micro-batch 0 twice"),
    ("other mesh", lambda form: form.update(mesh=[["rank", 2]]), "placements: ", "axis"),
]


@pytest.mark.parametrize(("change", "rule", "named"), [m[1:] for m in MUTATIONS], ids=[m[0] for m in MUTATIONS])
def test_check_names_the_op_of_a_mutated_schedule(tmp_path: Path, change: Change, rule: str, named: str) -> None:
    path = changed(tmp_path, change, "--devices", "8")
    ran = invoke("check", path)
    assert (ran.code, ran.err) == (1, ""), ran
    first, *findings = ran.out.splitlines()
    assert " findings (digest " in first and first.startswith(f"{path}: ")
    assert findings and any(rule in line and named in line for line in findings), ran.out
    assert all("expected" in line and "found" in line for line in findings)
    again = invoke("check", path, "--json")
    assert again.code == 1
    assert json.loads(again.out)[0]["findings"] == [line.strip() for line in findings]
