"""Folders and files whose writing is killed, or fails, at any of its operations: old, new, or told as unfinished."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.invoke import ROOT
from tests.some import some
from tests.struck_writes import FOREIGN, NEW, OLD, THIRD

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks")

StruckWrites = list[dict[str, Any]]


def all_struck(command: str, how: str, scratch: Path) -> StruckWrites:
    """What became of every write; the last one was not struck."""
    arguments = [sys.executable, "-m", "tests.struck_writes", command, how, str(scratch)]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=True)
    result: StruckWrites = json.loads(done.stdout)
    assert result[-1]["code"] == 0
    expected = {-signal.SIGKILL} if how == "kill" else {0, 2}  # what cannot be cleaned up is no fault of the write
    assert {each["code"] for each in result[:-1]} <= expected
    return result


def files(each: dict[str, Any]) -> dict[str, str]:
    """The files of a state but for the manifest."""
    return {name: text for name, text in each["files"].items() if name != "manifest.json"}


@pytest.mark.parametrize("how", ["kill", "fail"])
@pytest.mark.parametrize("command", ["run", "export"])
def test_a_folder_is_old_or_new_or_told_as_unfinished(command: str, how: str, tmp_path: Path) -> None:
    result = all_struck(command, how, tmp_path)
    assert len(result) > 20
    old, new = {**FOREIGN, **OLD}, {**FOREIGN, **(OLD if command == "export" else {}), **NEW}
    states = set()
    for each in result:
        after = each["after"]
        assert FOREIGN.items() <= after["files"].items(), after
        if after["unfinished"]:
            assert "is unfinished (.unfinished-" in after["unfinished"]
            states.add("unfinished")
            if files(after) not in (old, new):
                assert "manifest.json" not in after["files"], after
                states.add("mixed")
        else:
            assert files(after) in (old, new), after
            assert ("manifest.json" in after["files"]) == (command == "run")
            states.add("old" if files(after) == old else "new")
        if each["code"] == 2:
            assert each["said"].count("\n") == 0 and "cannot be written: No space left on device" in each["said"]
            assert bool(after["unfinished"]) == ("it is unfinished" in each["said"]) or ".unfinished-" in each["said"]
    assert states == {"old", "new", "unfinished", "mixed"}


@pytest.mark.parametrize("how", ["kill", "fail"])
@pytest.mark.parametrize("command", ["run", "export"])
def test_the_next_write_leaves_nothing_of_what_was_struck(command: str, how: str, tmp_path: Path) -> None:
    for each in some(all_struck(command, how, tmp_path)):
        again = each["again"]
        assert (again["hidden"], again["unfinished"]) == ([], ""), again
        assert FOREIGN.items() <= again["files"].items()
        if command == "run":
            assert files(again) == {**FOREIGN, **THIRD}
            assert json.loads(again["files"]["manifest.json"])["files"] == sorted(THIRD)
        else:  # nothing lists what was exported before
            assert THIRD.items() <= again["files"].items()


@pytest.mark.parametrize("how", ["kill", "fail"])
def test_a_file_is_old_or_new(how: str, tmp_path: Path) -> None:
    seen = set()
    for each in all_struck("file", how, tmp_path):
        seen.add(each["after"]["files"]["results.csv"])
        assert FOREIGN.items() <= each["after"]["files"].items()
        assert not each["after"]["unfinished"]
        assert each["again"]["files"] == {**FOREIGN, "results.csv": "third"} and each["again"]["hidden"] == []
    assert seen == {"old", "new"}
