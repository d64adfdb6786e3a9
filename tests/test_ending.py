"""Commands end with one line and a fixed exit code, whatever comes up."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Never

import pytest

from simfrontier.base.command_line import run_to_end
from simfrontier.base.errors import InputError, Terminated
from tests.invoke import ROOT, TOY, refusal


def raising(error: BaseException) -> Callable[[], Never]:
    def command() -> Never:
        raise error

    return command


def in_tidying_up() -> None:
    """Ctrl-C, and an error in what is done at the end of it."""
    try:
        raise KeyboardInterrupt
    finally:
        raise ValueError("closed")


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (raising(InputError("a\nb\x1b[31m")), 2, "sim: a b [31m\n"),
        (raising(KeyboardInterrupt()), 130, "sim: stopped\n"),
        (raising(Terminated()), 143, "sim: stopped\n"),
        (in_tidying_up, 130, "sim: stopped\n"),
    ],
)
def test_an_error_is_one_line_and_a_fixed_code(
    command: Callable[[], object], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        run_to_end("sim", command)
    assert (stop.value.code, capsys.readouterr().err) == (code, message)


@pytest.mark.parametrize("error", [KeyError("x"), MemoryError(), OSError(28, "No space left on device")], ids=repr)
def test_the_traceback_of_anything_unforeseen_is_in_a_file(
    error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simfrontier.base.command_line._forget_output", lambda: None)
    with pytest.raises(SystemExit) as stop:
        run_to_end("sim", raising(error))
    said, _, path = capsys.readouterr().err.partition("; the traceback is in ")
    assert stop.value.code == 3 and said == f"sim: unforeseen error: {type(error).__name__}: {error}"
    text = Path(path.strip()).read_text(encoding="utf-8")
    Path(path.strip()).unlink()
    assert text.startswith("Traceback") and "in command" in text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("program", ["simfrontier", "simfrontier_real"])
def test_output_that_cannot_be_written_is_one_line(program: str) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", program, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
    assert ran.returncode == 3 and ran.stderr.count("\n") == 1, ran
    assert "No space left on device" in ran.stderr


def test_a_reader_that_leaves_early_is_no_error() -> None:
    shown = f"{sys.executable} -m simfrontier show {TOY} | head -n 1; exit ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", shown], capture_output=True, text=True, cwd=ROOT)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_results_that_are_no_finite_numbers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from simfrontier.answers.study import simulated_case

    monkeypatch.setattr(simulated_case, "band_of", lambda samples: (float("nan"), 1.0, 1.0))
    message = refusal("run", TOY, "--plans", "zero3", "--devices", "8", "--out", tmp_path / "out")
    assert "zero3 on 8: step_time_p05_s: got nan; allowed: " in message
    assert not (tmp_path / "out").exists()
