"""`simfrontier losses`: what it prints of a table of loss curves, its exit codes, and bad tables as one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.facts import says
from tests.invoke import invoke

HEAD = "plan,compression,seed,step,loss\n"
# finals (last step): plain 1.0 and 1.2, so a band of 1.1 ± 2 · 0.1414; naive +0.5 and +0.7, hybrid +0.1 and -0.1
ROWS = "".join(
    f"{plan},{policy},{seed},{step},{loss}\n"
    for plan, policy, finals in (
        ("plain", "none", (1.0, 1.2)),
        ("naive", "naive-zfp:8", (1.5, 1.9)),
        ("hybrid", "ZHybrid:8/16", (1.1, 1.1)),
    )
    for seed, final in enumerate(finals, 1)
    for step, loss in ((1, 3.0), (2, final))
)


def test_it_says_who_leaves_the_band(tmp_path: Path) -> None:
    table = tmp_path / "losses.csv"
    table.write_text(HEAD + ROWS, encoding="utf-8")
    done = invoke("losses", table, "--last", "1")
    assert done.code == 1
    told, rows = done.out.splitlines()[:-3], [line.split() for line in done.out.splitlines()[-3:]]
    assert says(" ".join(told), "2 steps", "none", "0.8172", "1.3828", "0.2828", "2 seeds"), told
    assert rows == [
        ["plain", "none", "1.0000", "1.2000", "+0.0000", "+0.0000", "to", "+0.0000", "yes"],
        ["naive", "naive-zfp:8", "1.5000", "1.9000", "+0.6000", "+0.5000", "to", "+0.7000", "NO"],
        ["hybrid", "ZHybrid:8/16", "1.1000", "1.1000", "+0.0000", "-0.1000", "to", "+0.1000", "yes"],
    ]
    document = json.loads(invoke("losses", table, "--last", "1", "--json").out)
    assert [row["stays"] for row in document["policies"]] == [True, False, True]
    assert document["policies"][1]["distances"] == pytest.approx([0.5, 0.7])


def test_all_within_is_good_and_one_seed_has_no_band(tmp_path: Path) -> None:
    table = tmp_path / "losses.csv"
    table.write_text(HEAD + "".join(line + "\n" for line in ROWS.splitlines() if "naive" not in line), encoding="utf-8")
    assert invoke("losses", table, "--last", "1").code == 0
    table.write_text(HEAD + "plain,none,1,1,2.0\n", encoding="utf-8")
    done = invoke("losses", table, "--last", "1")
    assert done.code == 0 and "One seed of the baseline says nothing of its band" in done.out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plan,seed\n", "losses.csv"),
    ],
)
def test_a_bad_table_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    table = tmp_path / "losses.csv"
    table.write_text(text, encoding="utf-8")
    done = invoke("losses", table, "--last", "1")
    assert done.code == 2 and message in done.err and done.err.count("\n") == 1
