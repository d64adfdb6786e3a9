"""The table of losses of a scenario: what it reads, and each of its faults as one line."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from simfrontier.base.errors import InputError
from simfrontier.inputs.scenario import Scenario, scenario_of
from tests.invoke import TOY

HEAD = "plan,compression,seed,step,loss"
ROWS = ["a,none,1,0,2.0", "a,none,1,1,1.0", "b,naive-zfp:8,1,0,2.5", "b,naive-zfp:8,1,1,1.5"]


def load(folder: Path, rows: list[str] | None = None, head: str = HEAD, **table: Any) -> Scenario:
    """The toy scenario in a folder with a file of losses, unless there are no rows."""
    if rows is not None:
        (folder / "losses.csv").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    document = tomllib.loads(TOY.read_text(encoding="utf-8"))
    document["losses"] = {"file": "losses.csv", "source": "made up", "last": 1, **table}
    return scenario_of(document, str(folder / "toy.toml"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [*ROWS, "b,naive-zfp:8,1,2,low"],
            ' line 6: loss: got "low", allowed: a number; nan or inf where a run diverged',
        ),
        (["a,none,one,0,2.0"], ' line 2: seed: got "one", allowed: a whole number of 0 or more'),
        (
            ["a,naive-zpf:8,1,0,2.0"],
            " line 2: compression 'naive-zpf:8': did you mean \"naive-zfp\"?, or a table of dp, tp, pp and zero",
        ),
        (
            [*ROWS, "c,naive-zfp,1,0,2.0"],
            " line 6: step: got 0 twice in one run of naive-zfp, allowed: every step once",
        ),
        (
            ROWS[:3],
            ": naive-zfp:8, seed 1: got 1 steps up to 0, allowed: those of all runs, 2 up to 1",
        ),
        (ROWS[2:], ": no runs of the baseline 'none'; allowed: naive-zfp:8"),
        (
            ["a,none,1,0,2.0", "a,none,1,1,nan"],
            ": none, seed 1: the baseline diverged, allowed: finite losses at its end",
        ),
    ],
)
def test_each_fault_of_the_file_is_one_line(tmp_path: Path, rows: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, rows)
    assert str(caught.value) == f"{tmp_path}/toy.toml: losses.file: {tmp_path}/losses.csv{message}"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"last": 3}, "losses.file: {}/losses.csv: got 2 steps, allowed: 3 or more, as many as losses.last"),
        ({"last": 0}, "losses.last: got 0, allowed: at least 1"),
        (
            {"baseline": "plain"},
            "losses.baseline: compression 'plain': allowed: MZHybrid, ZHybrid, naive-mpc, naive-zfp, none, or a table "
            "of dp, tp, pp and zero",
        ),
        ({"files": "x"}, 'losses.files: unknown key; did you mean "file"?'),
    ],
)
def test_each_fault_of_the_table_is_one_line(tmp_path: Path, table: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, ROWS, **table)
    assert str(caught.value) == f"{tmp_path}/toy.toml: {message.format(tmp_path)}"
