"""A sweep that is killed, or whose disk is full, at any operation on files: the same command goes on, nothing is lost,
and its bytes are those of a run that nothing stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.invoke import ROOT
from tests.sweep.studies import HOOK, document, write

POINTS, KNOWN = 3, 1
STUDY = document({"key": HOOK, "values": [1e-6, 1e-5, 1e-4]})
OTHER = document({"key": HOOK, "values": [1e-4, 1e-3]})


def struck(tmp_path: Path, how: str, before: bool) -> dict[str, Any]:
    """Every operation of the sweep is struck once, in a new folder or in one that has another state of the study."""
    path, was = write(tmp_path, STUDY), tmp_path / "was"
    command = [sys.executable, "-m", "tests.sweep.struck"]
    (tmp_path / "work").mkdir()
    if before:
        from simfrontier.sweep import run_sweep, study_of
        from simfrontier.workers import Local

        run_sweep(study_of(OTHER, str(tmp_path / "study.toml"), "x"), was, Local(jobs=1))
    arguments = [str(path), str(was) if before else "/", str(tmp_path / "work"), how]
    done = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("how", "before"),
    [
        pytest.param("kill", True, id="killed, with other points there"),
        pytest.param("full", False, id="disk full, new"),
        pytest.param("kill", False, id="killed, new", marks=pytest.mark.long),
        pytest.param("full", True, id="disk full, with other points there", marks=pytest.mark.long),
        pytest.param("half", True, id="killed within a write", marks=pytest.mark.long),
    ],
)
def test_whatever_stops_it_the_same_command_goes_on(tmp_path: Path, how: str, before: bool) -> None:
    all_of_it = struck(tmp_path, how, before)
    found, new = all_of_it["found"], len(all_of_it["expected"]["log"].split())
    assert new == (POINTS - KNOWN if before else POINTS)
    assert len(found) > 15, "many operations were struck"
    assert [one["again"]["code"] for one in found] == [0] * len(found)
    assert [number for number, one in enumerate(found) if not one["same"]] == []
    for one in found:
        first, second = one["struck"]["log"].split(), one["again"]["log"].split()
        assert len(second) <= new
        # What was simulated and kept is not simulated again: at most the batch that was under way.
        assert len(first) + len(second) <= new + 1, one
        assert {*first, *second} == set(all_of_it["expected"]["log"].split())
    if how == "full":
        refused = [one["struck"] for one in found if one["struck"]["code"]]
        assert {one["code"] for one in refused} == {2}
        assert all("No space left on device" in one["said"] and "\n" not in one["said"] for one in refused)
        assert any("the same command goes on from there" in one["said"] for one in refused)
