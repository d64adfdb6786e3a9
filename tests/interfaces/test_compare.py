"""`compare --model`: plans in words, of which those that do not divide are left out."""

from __future__ import annotations

from pathlib import Path

from tests.invoke import invoke

MODEL = ("compare", "--model", "tiny", "--machine", "toy-cluster")


def test_plans_that_do_not_divide_are_left_out_with_the_reason(tmp_path: Path) -> None:
    out = invoke(*MODEL, "--nodes", "1", "--plans", "tp 3; tp 2; zero3", "--out", str(tmp_path / "out"))
    assert out.code == 0
    assert "left out: tp3:" in out.err and "tp2 " in out.out and "zero3" in out.out


def test_the_last_plan_that_does_not_divide_is_an_error(tmp_path: Path) -> None:
    out = invoke(*MODEL, "--devices", "4", "--plans", "ep 2; tp 3", "--out", str(tmp_path / "out"))
    assert out.code == 2
    assert "has no experts" in out.err and not (tmp_path / "out").exists()


def test_sizes_are_nodes_or_devices() -> None:
    for sizes in ((), ("--nodes", "1", "--devices", "8")):
        out = invoke(*MODEL, *sizes)
        assert out.code == 2 and "one of --devices and --nodes" in out.err
