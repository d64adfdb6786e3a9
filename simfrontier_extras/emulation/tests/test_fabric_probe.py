"""What a system lacks for an emulated fabric is said, a line each, and by the commands too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simfrontier.errors import SimfrontierError
from simfrontier_extras.emulation.real import launch, probe
from simfrontier_extras.emulation.real.client import counters
from simfrontier_extras.emulation.tests.wirings import wired
from simfrontier_extras.emulation.wiring import save_wiring

ROOT = Path(__file__).resolve().parents[3]
PAIR = wired(2, (0, 1), [(0, 1), (1, 0)], {(0, 1): [0, 1], (1, 0): [1, 0]})


def fake(folder: Path, **tools: str) -> None:
    """Commands that do what their lines say, and no others but sh."""
    for name, lines in {"sh": 'exec /bin/sh "$@"', **tools}.items():
        (folder / name).write_text(f"#!/bin/sh\n{lines}\n", encoding="ascii")
        (folder / name).chmod(0o755)


def test_commands_that_are_missing_are_named_with_their_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, ip="")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(probe, "SBIN", ())
    assert probe.missing() == [
        "the command unshare (Debian: apt-get install util-linux)",
        "the command tc (Debian: apt-get install iproute2)",
    ]


def test_namespaces_that_are_not_permitted_are_said_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, ip="", tc="", unshare="echo unshare failed: Operation not permitted >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    (message,) = probe.missing()
    assert message.startswith("namespaces of one's own: unshare failed: Operation not permitted (run as root, or allow")


@pytest.mark.parametrize(
    ("ip", "tc", "message"),
    [
        ("exit 0", "exit 2", "the kernel has no tbf (module sch_tbf)"),
        ('case "$*" in *veth*) exit 2; esac', "exit 0", "the kernel has no veth devices (module veth)"),
        ('case "$*" in *bridge*) exit 2; esac', "exit 0", "the kernel has no bridge devices (module bridge)"),
    ],
)
def test_what_the_kernel_lacks_is_found_by_trying(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ip: str, tc: str, message: str
) -> None:
    # `unshare OPTIONS sh -c SCRIPT` runs the script here, with mounts that do nothing
    run = 'while [ "$1" != sh ] && [ "$1" != true ]; do shift; done; exec "$@"'
    fake(tmp_path, ip=ip, tc=tc, unshare=run, mount="", mkdir="", true="")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert probe.missing() == [message]


def test_a_run_says_what_is_missing_before_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_wiring(PAIR, tmp_path / "wiring.json")
    monkeypatch.setattr(launch, "missing", lambda: ["this", "that"])
    with pytest.raises(SimfrontierError, match="no emulated fabric on this system; missing: this; that"):
        launch.run_in_fabric(tmp_path / "wiring.json", ["true"])


def command(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({} if path is None else {"PATH": path})}
    started = [sys.executable, "-m", "simfrontier_real", *arguments]
    return subprocess.run(started, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)


def test_the_check_is_a_command(tmp_path: Path) -> None:
    done = command("fabric-check", path=str(tmp_path))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[0] == "missing: the command unshare (Debian: apt-get install util-linux)"
    done = command("fabric-check")
    assert (done.returncode, done.stdout) == ((1, done.stdout) if probe.missing() else (0, ""))


def test_a_bad_wiring_is_said_in_one_line(tmp_path: Path) -> None:
    done = command("in-fabric", str(tmp_path / "none.json"), "--", "train", "x.json")
    assert done.returncode == 2
    assert done.stderr == (
        f"simfrontier-real: {tmp_path / 'none.json'}: cannot read this wiring: No such file or directory\n"
    )


def test_outside_a_fabric_there_are_no_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    assert counters() is None
    monkeypatch.setenv("SIMFRONTIER_FABRIC", "/no/such/socket")
    with pytest.raises(SimfrontierError, match="the fabric does not answer: No such file"):
        counters()
