"""The command line inside this process: the exit code and what a person would see."""

from __future__ import annotations

import gc
import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from simfrontier.cli import main

ROOT = Path(__file__).resolve().parents[1]
TOY = ROOT / "scenarios" / "toy.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a call ended: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


def invoke(*arguments: str | Path) -> Ran:
    """Run `simfrontier` with these arguments. Anything but an exit is a defect and comes through."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        mock.patch.object(sys, "argv", ["simfrontier", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stop:
            assert isinstance(stop.code, int)
            code = stop.code
        finally:
            gc.enable()  # `run` turns it off for its process
    return Ran(code=code, out=out.getvalue(), err=err.getvalue())


def refusal(*arguments: str | Path) -> str:
    """The one line on standard error with which a call is refused (exit code 2, nothing on standard output)."""
    ran = invoke(*arguments)
    assert (ran.code, ran.out) == (2, ""), ran
    assert ran.err.startswith("simfrontier: ") and ran.err.count("\n") == 1 and ran.err.endswith("\n"), ran.err
    return ran.err.removeprefix("simfrontier: ").removesuffix("\n")
