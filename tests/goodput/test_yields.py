"""Goodput of scenarios: rates of failures by part, checkpoints, fewer nodes, the command and what it refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from simfrontier.goodput import find_goodput
from simfrontier.goodput.failures import DAY_S, load_failures, names_of_failures
from simfrontier.goodput.fewer import with_fewer
from simfrontier.goodput.sized import SizedStep
from simfrontier.scenario import GoodputTable, load_scenario
from simfrontier.schedule import SavedBytes
from tests.invoke import TOY, invoke, refusal

TABLE: dict[str, Any] = {"failures": "llama3-h100", "write_bytes_per_s": 1e6, "restart_s": 60, "repair_s": 3600}
SETTING = "goodput={failures='llama3-h100', write_bytes_per_s=1e6, restart_s=60, repair_s=3600}"


def test_llama_3_was_interrupted_every_three_hours() -> None:
    """54 days / 419 interruptions = 3.09 h; the parts of the table are all of them."""
    failures = load_failures("llama3-h100")
    assert sum(part.interruptions for part in failures.parts) == 419
    assert 1.0 / failures.rate_per_s(16_384, 2_048) == pytest.approx(54 * DAY_S / 419)
    assert failures.rate_per_s(16_384, 2_048, broken=True) < failures.rate_per_s(16_384, 2_048)


@pytest.mark.parametrize("name", names_of_failures())
def test_twice_the_job_fails_twice_as_often(name: str) -> None:
    failures = load_failures(name)
    assert failures.source and failures.rate_per_s(200, 40) == pytest.approx(2.0 * failures.rate_per_s(100, 20))
    assert load_failures(name) == failures


def test_a_checkpoint_is_each_state_once() -> None:
    """fp16 weights, fp32 masters and two fp32 moments: 14 bytes a parameter, whatever the plan and the padding adds."""
    scenario = load_scenario(TOY, {"goodput": TABLE}, ("ddp", "zero3", "zero-topo"), (8,))
    found = find_goodput(scenario)
    parameters = scenario.shape.num_parameters
    for each in found.yields:
        assert 14 * parameters <= each.step.checkpoint.total <= 14.02 * parameters, each.plan
        assert each.write_s == pytest.approx(each.step.checkpoint.total / 1e6)
        assert each.played is not None and each.played.useful == pytest.approx(each.shares.useful, rel=0.01)


STEP = SizedStep(
    devices=32,
    nodes=8,
    packages=16,
    step_s=10.0,
    tokens=1e6,
    fits=True,
    checkpoint=SavedBytes(total=10**9, largest=10**9, num_writers=1),
)
SMALLER = SizedStep(
    devices=28,
    nodes=7,
    packages=14,
    step_s=10.0,
    tokens=0.875e6,
    fits=True,
    checkpoint=SavedBytes(total=10**9, largest=10**9, num_writers=1),
)


def test_going_on_with_fewer_nodes_by_hand() -> None:
    """One node fewer, no spare: with a load of a broken nodes states 0, 1 and 2 weigh 1, a and a b / 2, of which 0 runs
    on all nodes and 1 on fewer."""
    given = GoodputTable(failures="llama3-h100", write_bytes_per_s=1e9, restart_s=0.0, repair_s=1e9)
    failures = load_failures("llama3-h100")
    a = failures.rate_per_s(16, 8, broken=True) * 1e9
    b = failures.rate_per_s(14, 7, broken=True) * 1e9
    found = with_fewer(given, failures, STEP, SMALLER)
    whole = 1.0 + a + a * b / 2.0
    assert found.fewer_share == pytest.approx(a / whole, rel=1e-12)
    assert found.all_share == pytest.approx(1.0 / whole, rel=1e-6)  # less the seconds in which a checkpoint is read


def of_rate(folder: Path, days: float, interruptions: float) -> Path:
    """A file of one part that breaks its node so often."""
    path = folder / "f.toml"
    part = f'{{ name = "a", interruptions = {interruptions}, of = "node", broken = true }}'
    head = 'name = "f"\ntitle = "f"\nsource = "f"\npackages = 1\nnodes = 1\n'
    path.write_text(f"{head}days = {days}\nparts = [{part}]\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("days", "interruptions", "key"),
    [(1, 1e300, "parts[0].interruptions"), (1e-300, 1.0, "days"), (1e300, 1.0, "days")],
)
def test_rates_of_failures_have_bounds(days: float, interruptions: float, key: str, tmp_path: Path) -> None:
    message = refusal(
        "goodput", TOY, "--set", SETTING, "--set", f"goodput.failures={of_rate(tmp_path, days, interruptions)}"
    )
    assert key in message and "allowed" in message


def test_a_job_that_is_restarted_all_the_time_is_one_line(tmp_path: Path) -> None:
    failures = of_rate(tmp_path, 1, 86_400)
    table = f"{{failures='{failures}', write_bytes_per_s=1e12, restart_s=1000, repair_s=0}}"
    ran = invoke("goodput", TOY, "--plans", "ddp", "--devices", "8", "--set", f"goodput={table}", "--json")
    assert ran.code == 1 and ran.err.count("\n") == 1 and ran.err.startswith("simfrontier: ddp on 8: "), ran


def test_fewer_nodes_with_thousands_under_repair_is_a_number() -> None:
    """e ** 5,000 is none that a float has."""
    given = GoodputTable(failures="llama3-h100", write_bytes_per_s=1e9, restart_s=0.0, repair_s=1e9, spare_nodes=9_000)
    found = with_fewer(given, load_failures("llama3-h100"), STEP, SMALLER)
    assert 0.0 <= found.fewer_share <= found.all_share <= 1.0 and found.tokens_per_s > 0.0


def test_the_command_says_and_writes_the_same(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = invoke("goodput", TOY, "--plans", "zero3", "--devices", "8", "--set", SETTING, "--out", out)
    assert ran.code == 0 and "Most tokens per day: zero3 on 8" in ran.out and (out / "index.html").is_file()
    told = invoke("goodput", TOY, "--plans", "zero3", "--devices", "8", "--set", SETTING, "--json")
    (row,) = json.loads(told.out)["results"]
    with (out / "goodput.csv").open() as file:
        (written,) = csv.DictReader(file)
    assert {key: "" if cell is None else str(cell) for key, cell in row.items()} == written
    again = tmp_path / "again"
    invoke("goodput", TOY, "--plans", "zero3", "--devices", "8", "--set", SETTING, "--out", again)
    assert (again / "index.html").read_bytes() == (out / "index.html").read_bytes()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((), "goodput: missing, give { failures, write_bytes_per_s, restart_s, repair_s }"),
        (
            (SETTING, "goodput.failures=lama3"),
            'goodput.failures: failures "lama3" are not in the catalog; did you mean',
        ),
        ((SETTING, "goodput.failures=no.toml"), "goodput.failures: "),
        ((SETTING, "goodput.restart_s=-1"), "goodput.restart_s: got -1, allowed: at least 0"),
        ((SETTING, "goodput.write_bytes_per_s=0"), "goodput.write_bytes_per_s: got 0, allowed: at least 1"),
        ((SETTING, "goodput.spare_nodes=-1"), "goodput.spare_nodes: got -1, allowed: at least 0"),
        ((SETTING, "goodput.held_share=2"), "goodput.held_share: got 2, allowed: "),
        ((SETTING, "goodput.spares=1"), 'goodput.spares: unknown key; did you mean "spare_nodes"?'),
    ],
)
def test_what_cannot_be_is_one_line(settings: tuple[str, ...], message: str) -> None:
    given = [word for setting in settings for word in ("--set", setting)]
    assert message in refusal("goodput", TOY, "--devices", "8", *given)
