"""A scenario of the smallest machine that is emulated, and the command that emulates it."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.invoke import TOY

# One node of four devices, its links at 2 MB/s.
EMULATION = """
[library]
name = "transfers"
[emulation]
scale = 2e-4
[run]
devices = [4]
"""
QUICK = ("--plans", "zero3", "--sizes", "256KiB", "--iterations", "1")


def tiny(folder: Path) -> Path:
    """The scenario's file, written into a folder."""
    path = folder / "tiny.toml"
    text = TOY.read_text(encoding="utf-8").replace("[run]\ndevices = [2, 4, 8, 16]\n", EMULATION)
    assert EMULATION in text
    path.write_text(text, encoding="utf-8")
    return path


def command(scenario: Path, out: Path, *more: str) -> list[str]:
    own = [sys.executable, "-c", "from simfrontier.interfaces.cli import main; main()", "emulate", str(scenario)]
    return [*own, *QUICK, "--slow", "xgmi 0>1", "--out", str(out), *more]
