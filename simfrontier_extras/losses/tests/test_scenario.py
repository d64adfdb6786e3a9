"""The table of losses of a scenario: what it reads, and each of its faults as one line."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from simfrontier.errors import InputError
from simfrontier.scenario import Scenario, scenario_of
from simfrontier_extras.losses.scenario_keys import losses_of
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


def test_losses_are_read_from_the_folder_of_the_scenario(tmp_path: Path) -> None:
    losses = losses_of(load(tmp_path, ROWS))
    assert losses is not None
    assert (losses.baseline, losses.last, losses.source, losses.steps) == ("none", 1, "made up", (0, 1))
    assert losses.distance("naive-zfp:8") == 0.5


def test_a_scenario_without_the_table_has_none() -> None:
    assert losses_of(scenario_of(tomllib.loads(TOY.read_text(encoding="utf-8")), str(TOY))) is None


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [*ROWS, "b,naive-zfp:8,1,2,low"],
            ' line 6: loss: got "low", allowed: a number; nan or inf where a run diverged',
        ),
        (["a,none,one,0,2.0"], ' line 2: seed: got "one", allowed: a whole number of 0 or more'),
        (["a,none,1,-1,2.0"], ' line 2: step: got "-1", allowed: a whole number of 0 or more'),
        (["a,none,1,0"], " line 2: 4 values, allowed: 5, one for each column"),
        ([",none,1,0,2.0"], ' line 2: plan: got "", allowed: some text'),
        (
            ["a,naive-zpf:8,1,0,2.0"],
            " line 2: compression 'naive-zpf:8': did you mean \"naive-zfp\"?, or a table of dp, tp, pp and zero",
        ),
        ([*ROWS, "a,none,1,1,2.0"], " line 6: step: got 1 twice in one run, allowed: every step once"),
        (
            [*ROWS, "c,naive-zfp,1,0,2.0", "c,naive-zfp,1,1,2.0"],
            ": naive-zfp, seed 1: got two runs (plan b and c), allowed: one for each policy and seed",
        ),
        (
            [*ROWS, "b,naive-zfp,1,0,2.0", "b,naive-zfp,1,1,2.0"],
            ": naive-zfp, seed 1: got two runs (plan b), allowed: one for each policy and seed",
        ),
        (
            ROWS[:3],
            ": plan b, seed 1: got 1 steps up to 0, allowed: those of all runs, 2 up to 1",
        ),
        (ROWS[2:], ": no runs of the baseline 'none'; allowed: naive-zfp:8"),
        (
            ["a,none,1,0,2.0", "a,none,1,1,nan"],
            ": none, seed 1: the baseline diverged, allowed: finite losses at its end",
        ),
        (
            [*ROWS, "b,naive-zfp:8,2,0,2.0", "b,naive-zfp:8,2,1,2.0"],
            ": naive-zfp:8: got seed 2, allowed: seeds of the baseline none: 1",
        ),
        ([], ": no rows below the line of columns, allowed: two or more"),
    ],
)
def test_each_fault_of_the_file_is_one_line(tmp_path: Path, rows: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, rows)
    assert str(caught.value) == f"{tmp_path}/toy.toml: losses.file: {tmp_path}/losses.csv{message}"


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("plan,compression,seed,step,los", 'missing columns: loss; got "los", did you mean "loss"?'),
        ("plan,compression,seed,step,loss,note", "column 'note': allowed: plan, compression, seed, step, loss"),
        ("plan,compression,seed,step,seed", 'column "seed" stands twice'),
    ],
)
def test_columns_are_just_these(tmp_path: Path, head: str, message: str) -> None:
    rows = [row + ",x" * (head.count(",") - 4) for row in ROWS]
    with pytest.raises(InputError) as caught:
        load(tmp_path, rows, head)
    assert str(caught.value) == f"{tmp_path}/toy.toml: losses.file: {tmp_path}/losses.csv line 1: {message}"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"last": 3},
            "losses.file: {}/losses.csv: plan a, seed 1: got 2 steps, allowed: 3 or more, as many as losses.last",
        ),
        ({"last": 0}, "losses.last: got 0, allowed: at least 1"),
        ({"file": "none.csv"}, "losses.file: {}/none.csv: cannot read this table: No such file or directory"),
        (
            {"baseline": "plain"},
            "losses.baseline: compression 'plain': allowed: MZHybrid, ZHybrid, naive-mpc, naive-zfp, none, or a table "
            "of dp, tp, pp and zero",
        ),
        (
            {"baseline": "naive-mpc"},
            "losses.file: {}/losses.csv: no runs of the baseline 'naive-mpc'; did you mean \"naive-zfp:8\"?",
        ),
        ({"files": "x"}, 'losses.files: unknown key; did you mean "file"?'),
    ],
)
def test_each_fault_of_the_table_is_one_line(tmp_path: Path, table: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, ROWS, **table)
    assert str(caught.value) == f"{tmp_path}/toy.toml: {message.format(tmp_path)}"
