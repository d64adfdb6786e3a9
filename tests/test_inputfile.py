"""What is no file that can be read from its beginning to its end is refused in one line, wherever a file is named."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from simfrontier.inputfile import open_input
from tests.invoke import ROOT, TOY

GOODPUT = "goodput={failures='FILE', write_bytes_per_s=1e6, restart_s=60, repair_s=3600}"
COMMANDS = {
    "run": ("f.toml", ["simfrontier", "run", "FILE"]),
    "check": ("f.json", ["simfrontier", "check", "FILE"]),
    "sweep": ("f.toml", ["simfrontier", "sweep", "FILE", "--out", "out"]),
    "goodput": ("f.toml", ["simfrontier", "goodput", "FILE"]),
    "failures": ("f.toml", ["simfrontier", "goodput", str(TOY), "--plans", "ddp", "--set", GOODPUT]),
    "machine": ("f.toml", ["simfrontier", "run", str(TOY), "--set", "machine.name=FILE"]),
    "machine beside": ("f.toml", ["simfrontier", "run", "toy.toml", "--set", "machine.name=f.toml"]),
    "calibration": ("f.toml", ["simfrontier", "run", str(TOY), "--set", "library.calibration=FILE"]),
    "nodes": ("f.conf", ["simfrontier", "run", str(TOY), "--set", "nodes={topology='FILE'}"]),
    "replay": ("f.json", ["simfrontier", "replay", "FILE", "--scenario", str(TOY)]),
    "validate": ("f.csv", ["simfrontier", "validate", "--data", "FILE"]),
    "calibrate": ("f.log", ["simfrontier", "calibrate", "FILE", "--machine", "frontier", "--out", "c.toml"]),
    "xml": ("f.xml", ["simfrontier", "topology", "FILE"]),
    "switches": ("f.conf", ["simfrontier", "topology", "FILE"]),
    "import": ("f.json", ["simfrontier", "import", "FILE", "--machine", "perlmutter", "--out", "out"]),
    "train": ("f.json", ["simfrontier_real", "train", "FILE"]),
}


def said(name: str, folder: Path) -> str:
    """The one line with which a command that names a file in a folder refuses it."""
    file, words = COMMANDS[name]
    shutil.copy(TOY, folder / "toy.toml")
    command = [sys.executable, "-m", *(word.replace("FILE", str(folder / file)) for word in words)]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'real'}"}
    if "beside" in name:  # its scenario, that is, and not the working folder
        command[4], folder = str(folder / "toy.toml"), ROOT
    ran = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 2 and ran.stdout == "" and ran.stderr.count("\n") == 1, ran
    return ran.stderr.strip()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_pipe_in_a_files_place_is_not_waited_for(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / COMMANDS[name][0])
    assert said(name, tmp_path).endswith(": is a pipe; allowed: a file that can be read from its beginning")


@pytest.mark.parametrize("name", ["run", "sweep", "machine beside", "validate", "import", "xml"])
def test_a_link_to_itself_is_said(name: str, tmp_path: Path) -> None:
    link = tmp_path / COMMANDS[name][0]
    link.symlink_to(link.name)
    assert said(name, tmp_path).endswith(": Too many levels of symbolic links")


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (os.mkfifo, "a pipe"),
        (a_socket, "a socket"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
        (lambda path: path.symlink_to("/dev/random"), "a device"),
    ],
)
def test_what_is_no_file_is_named(make: Callable[[Path], None], kind: str, tmp_path: Path) -> None:
    make(tmp_path / "f")
    with pytest.raises(OSError, match=f"is {kind}; allowed: "):
        open_input(tmp_path / "f")


def test_standard_input_is_read_where_it_is_a_file(tmp_path: Path) -> None:
    """Which is read from its beginning, however far it has been read; a pipe there is refused."""
    program = "import sys; from simfrontier.cli import main; sys.argv = ['sim', 'check', '/dev/stdin']; main()"
    command = [sys.executable, "-c", program]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with TOY.open("rb") as file:
        ran = subprocess.run(command, stdin=file, capture_output=True, env=environment, cwd=ROOT)
    assert ran.returncode == 0, ran
    ran = subprocess.run(command, input=TOY.read_bytes(), capture_output=True, env=environment, cwd=ROOT)
    assert ran.returncode == 2 and b"/dev/stdin: cannot read this scenario: is a pipe; allowed: " in ran.stderr, ran
