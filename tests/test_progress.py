"""Progress where output is redirected: a line every ten seconds, and none for what is short."""

from __future__ import annotations

import pytest

from simfrontier.cli.bar import progress


def test_lines_come_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    """Updates at 1, 2 … 25 s: lines at 10 and at 20."""
    now = 0.0

    def clock() -> float:
        return now

    with progress("simulating", 54, clock) as report:
        for second in range(1, 26):
            now = float(second)
            report(f"hsdp on {second}")
    told = capsys.readouterr()
    assert told.err.splitlines() == ["hsdp on 10: 10 of 54 done, 10 s", "hsdp on 20: 20 of 54 done, 20 s"]
    assert told.out == ""


def test_what_is_done_may_be_said_as_a_whole_and_the_total_may_be_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    with progress("laying out", clock=lambda: now) as report:
        now = 11.0
        report("laying out", 7)
        now = 30.0
        report("estimating", 9, 12)
    assert capsys.readouterr().err.splitlines() == ["laying out: 7 done, 11 s", "estimating: 9 of 12 done, 30 s"]
