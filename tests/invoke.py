"""The command line inside this process: the exit code, what a person would see, and changed files to call it with."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from simfrontier.interfaces.cli import main

ROOT = Path(__file__).resolve().parents[1]
TOY = ROOT / "scenarios" / "toy.toml"
Change = Callable[[dict[str, Any]], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a call ended: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


def invoke(*arguments: str | Path) -> Ran:
    """Run `simfrontier` with these arguments. An unforeseen error is a failure of the test."""
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
    assert "unforeseen error" not in err.getvalue(), err.getvalue()
    return Ran(code=code, out=out.getvalue(), err=err.getvalue())


def refusal(*arguments: str | Path) -> str:
    """The one line on standard error with which a call is refused (exit code 2, nothing on standard output)."""
    ran = invoke(*arguments)
    assert (ran.code, ran.out) == (2, ""), ran
    assert ran.err.startswith("simfrontier: ") and ran.err.count("\n") == 1 and ran.err.endswith("\n"), ran.err
    return ran.err.removeprefix("simfrontier: ").removesuffix("\n")


def said_of_file(path: Path, tmp_path: Path, *more: str) -> str:
    """What `run` says about a scenario file, less the file's name; no folder may be left."""
    message = refusal("run", path, "--out", tmp_path / "new" / "out", *more)
    assert not (tmp_path / "new").exists()
    assert message.startswith(f"{path}: "), message
    return message.removeprefix(f"{path}: ")


def said_of(settings: list[str], tmp_path: Path, plan: str = "zero3", devices: str = "8") -> str:
    """What `run` says about the toy scenario with settings and one plan."""
    given = [word for setting in settings for word in ("--set", setting)]
    return said_of_file(TOY, tmp_path, "--plans", plan, "--devices", devices, *given)


def changed_json(source: Path, target: Path, change: Change) -> Path:
    """The JSON file `source` with something changed in it, as `target`."""
    form = json.loads(source.read_text(encoding="utf-8"))
    change(form)
    target.write_text(json.dumps(form), encoding="utf-8")
    return target
