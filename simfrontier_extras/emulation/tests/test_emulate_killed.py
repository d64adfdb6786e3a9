"""`simfrontier emulate` of which a process is killed: one clear line, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from simfrontier_extras.emulation.real import fabric
from simfrontier_extras.emulation.tests.emulations import command, tiny

LACKING = fabric.missing()
pytestmark = pytest.mark.skipif(bool(LACKING), reason=f"no emulated fabric here: {'; '.join(LACKING)}")

LIMIT_S = 30.0


def processes(folder: Path) -> dict[int, int]:
    """Those with the folder in their commands, with their parents."""
    out = {}
    for each in Path("/proc").glob("[0-9]*"):
        try:
            named = str(folder) in (each / "cmdline").read_bytes().decode(errors="replace")
            if named and int(each.name) != os.getpid():
                out[int(each.name)] = int((each / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # has ended
    return out


def ranks(folder: Path) -> list[int]:
    """Children of the process that laid the fabric out: the deepest there are, all of one parent."""
    parents = processes(folder)
    return sorted(each for each, parent in parents.items() if list(parents.values()).count(parent) == 4)


@pytest.mark.parametrize("killed", ["a rank", "simfrontier"])
def test_whoever_is_killed_nothing_is_left(tmp_path: Path, killed: str) -> None:
    pytest.importorskip("torch")
    out = tmp_path / "out"
    many = command(tiny(tmp_path), out, "--iterations", "100000")
    with subprocess.Popen(many, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 60.0
            while not (out / "plans" / "real").exists():  # made when the ranks have joined
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.05)
            own = ranks(out)
            assert len(own) == 4
            os.kill(own[1] if killed == "a rank" else process.pid, signal.SIGKILL)
            deadline = time.monotonic() + LIMIT_S
            message = process.communicate(timeout=LIMIT_S)[1]
            while left := processes(out):
                assert time.monotonic() < deadline, left
                time.sleep(0.05)
        finally:
            process.kill()
    if killed == "simfrontier":
        assert process.returncode == -signal.SIGKILL
        return
    assert process.returncode == 1
    lines = [line for line in message.splitlines() if line.strip()]
    assert lines[-1] == "simfrontier: the run in the emulated machine ended with 1; what it said is above"
    assert lines[-2].startswith("simfrontier-real: rank ") and lines[-2].endswith("all 4 ranks are stopped"), lines
    assert not any("Traceback" in line for line in lines), lines
    assert not list((out / "plans" / "real").iterdir())
