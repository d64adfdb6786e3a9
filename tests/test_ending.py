"""Commands end with one line and a fixed code whatever comes up, and what they say can be shown by a terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Never

import pytest

from simfrontier.ending import run_to_end
from simfrontier.errors import InputError
from simfrontier.limits import MESSAGE
from simfrontier.plaintext import escape_in, one_line
from tests.invoke import ROOT, TOY, changed_json, invoke, refusal

ESCAPE = "\x1b]0;owned\x07\x1b[31mred\x1b[0m"


def raising(error: BaseException) -> Callable[[], Never]:
    def command() -> Never:
        raise error

    return command


def in_a_class() -> None:
    """Ctrl-C while Python makes a class, of which it makes another error."""

    class Stopping:
        def __set_name__(self, *_: object) -> None:
            raise KeyboardInterrupt

    type("Made", (), {"stopping": Stopping()})


def in_tidying_up() -> None:
    """Ctrl-C, and an error in what is done at the end of it."""
    try:
        raise KeyboardInterrupt
    finally:
        raise ValueError("closed")


def endless() -> None:
    endless()


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (raising(MemoryError()), 3, "out of memory"),
        (endless, 3, "RecursionError"),
        (
            raising(KeyError("x")),
            3,
            "a fault of simfrontier itself, not of its input: KeyError: 'x' (test_ending.py line",
        ),
        (raising(AssertionError("no")), 3, "AssertionError: no"),
        (raising(InputError("a\nb")), 2, "sim: a b\n"),
        (raising(OSError(28, "No space left on device")), 3, "No space left on device"),
        (raising(KeyboardInterrupt()), 130, "sim: stopped\n"),
        (in_a_class, 130, "sim: stopped\n"),
        (in_tidying_up, 130, "sim: stopped\n"),
    ],
    ids=[
        *("memory", "recursion", "key", "assertion", "input", "disk"),
        *("interrupt", "interrupt in a class", "interrupt and then"),
    ],
)
def test_whatever_comes_up_is_one_line_and_a_fixed_code(
    command: Callable[[], object], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        run_to_end("sim", command)
    err = capsys.readouterr().err
    assert stop.value.code == code and message in err and err.count("\n") == 1 and len(err) <= MESSAGE.most + 10, err


def test_the_traceback_of_a_fault_is_shown_where_it_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["sim", "--traceback", "run"])
    with pytest.raises(SystemExit):
        run_to_end("sim", raising(KeyError("x")))
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("program", ["simfrontier", "simfrontier_real"])
def test_output_that_cannot_be_written_is_one_line(program: str) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", program, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
    assert ran.returncode == 3 and ran.stderr.count("\n") == 1, ran
    assert ran.stderr.endswith("the output cannot be written: No space left on device\n")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    shown = f"{sys.executable} -m simfrontier show {TOY} | head -n 1; exit ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", shown], capture_output=True, text=True, cwd=ROOT)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_messages_are_short_and_plain() -> None:
    message = refusal("run", f"{ESCAPE}{'x' * 3000}.toml")
    assert len(f"simfrontier: {message}") <= MESSAGE.most + 20 and message.isprintable() and "owned" not in message
    assert one_line("a" * 400 + "b" * 400).endswith("b" * 100)
    assert one_line("e\u202ev\x9bil\tx\ufeff\u200b") == "evil x"


def test_names_with_terminal_escapes_are_refused(tmp_path: Path) -> None:
    scenario = tmp_path / "s.toml"
    text = TOY.read_text(encoding="utf-8")
    scenario.write_text(text.replace('title = "', 'title = "\\u001b]0;owned\\u0007', 1), encoding="utf-8")
    assert "control character" in refusal("check", scenario)
    saved = tmp_path / "s.json"
    assert invoke("show", TOY, "--save", saved).code == 0
    bad = changed_json(saved, tmp_path / "t.json", lambda form: form.update(name=ESCAPE))
    assert "control character" in refusal("show", bad)
    table = tmp_path / "t.csv"
    table.write_text("machine,collective\nfrontier,\x1b[31mred\n", encoding="utf-8")
    assert "line 2: control character U+001B" in refusal("validate", "--data", table)


def test_an_escaped_backslash_before_a_letter_is_text() -> None:
    assert escape_in(json.dumps({"a": "C:\\bin\\u001b"})) is None
    assert escape_in(json.dumps({"a": "\\\b"})) is not None


def test_results_that_are_no_finite_numbers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from simfrontier.study import simulated_case

    monkeypatch.setattr(simulated_case, "band_of", lambda samples: (float("nan"), 1.0, 1.0))
    message = refusal("run", TOY, "--plans", "zero3", "--devices", "8", "--out", tmp_path / "out")
    assert "zero3 on 8: step_time_p05_s: got nan; allowed: " in message
    assert not (tmp_path / "out").exists()
