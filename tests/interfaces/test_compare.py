"""`compare --model`: plans in words, of which those that do not divide are left out."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_data_ranks_give_the_devices() -> None:
    out = invoke(*MODEL, "--plans", "tp 2 dp 2; zero3", "--batch", "8")
    assert out.code == 0 and "On 4 GCDs" in out.out


def test_without_a_folder_only_the_answer_is_printed_with_the_numbers_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = (*MODEL, "--devices", "4,8", "--plans", "tp 2 pp 2; zero3")
    said = invoke(*asked).out.splitlines()
    assert list(tmp_path.iterdir()) == [] and said[-1].startswith("On 8 ")

    written = invoke(*asked, "--out", str(tmp_path / "out")).out.splitlines()
    table = [line for line in said if line.startswith((" tp2-pp2 ", " zero3 "))]
    assert len(table) == 4 and [line for line in written if line in table] == table
    assert said[-1] == written[-1]
    assert "tp 2 pp 2 dp 2" in table[2] and " dp 8 " in table[3]


def test_a_plan_that_does_not_fit_stands_in_the_table_with_its_memory() -> None:
    tiny = ("--set", "machine.overrides.device.hbm_bytes=1e5")
    said = invoke(*MODEL, "--devices", "8", "--plans", "zero3", *tiny).out.splitlines()
    (row,) = [line for line in said if line.startswith(" zero3 ")]
    assert "too big" in row and row.endswith(" of 0.0001 ")
    assert said[-1] == "The plan does not fit in memory on 8 GCDs."
