"""Goodput in closed form, worked by hand and against simulated trainings; rates of failures, and the command."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.answers.goodput import find_goodput
from simfrontier.answers.goodput.model import (
    DAY_S,
    SizedStep,
    Upkeep,
    interval_of,
    load_failures,
    play,
    shares,
    spares_for,
    waiting_share,
    with_fewer,
)
from simfrontier.core.program import SavedBytes
from simfrontier.inputs.scenario import GoodputTable, load_scenario
from tests.invoke import TOY, invoke

CALM = Upkeep(rate_per_s=1e-5, broken_per_s=0.0, checkpoint_s=20.0, restart_s=0.0, repair_s=0.0, spare_nodes=0)


def test_a_segment_by_hand() -> None:
    """M = 100 s, segments of 80 + 20 s, restarts of 50 s: a segment takes 100 e^0.5 (e^1 - 1) s (Daly 2006, eq. 13
    with restarts that fail too), of which 80 are useful."""
    upkeep = replace(CALM, rate_per_s=0.01, restart_s=50.0)
    whole_s = 100.0 * math.exp(0.5) * (math.e - 1.0)
    found = shares(upkeep, 80.0)
    assert found.useful == pytest.approx(80.0 / whole_s, rel=1e-12)
    assert found.checkpoints == pytest.approx(20.0 / whole_s, rel=1e-12)
    # e - 1 interruptions for each segment that is done, each with a restart of 100 (e^0.5 - 1) s
    assert found.restarts == pytest.approx((math.e - 1.0) * 100.0 * (math.exp(0.5) - 1.0) / whole_s, rel=1e-12)


def test_waiting_is_erlangs_loss() -> None:
    """A load of 2 broken nodes: without a spare 2/3 of the time waits; with one, 2 * 2/3 / (2 + 2 * 2/3) = 0.4; with
    two, 2 * 0.4 / (3 + 2 * 0.4) = 4/19."""
    upkeep = replace(CALM, broken_per_s=1e-5, repair_s=2e5)
    waits = [waiting_share(replace(upkeep, spare_nodes=spares)) for spares in range(3)]
    assert waits == pytest.approx([2 / 3, 0.4, 4 / 19], rel=1e-12)


def test_enough_spares() -> None:
    """The load of 2 above: 4/19 = 0.21 of the time with two spares, 0.4 with one."""
    upkeep = replace(CALM, broken_per_s=1e-5, repair_s=2e5)
    assert [spares_for(upkeep, share) for share in (0.7, 0.4, 0.39, 0.22)] == [0, 1, 2, 2]
    many = spares_for(upkeep, 0.01)
    assert (
        waiting_share(replace(upkeep, spare_nodes=many)) <= 0.01 < waiting_share(replace(upkeep, spare_nodes=many - 1))
    )


def test_intervals() -> None:
    """C = 20 s, M = 1e5 s: Young's is sqrt(2 * 20 * 1e5) = 2000 s; Daly's takes C off and adds a little."""
    assert interval_of("young", CALM) == pytest.approx(2000.0)
    assert interval_of("daly", CALM) == pytest.approx(2000.0 * (1.0 + 0.01 / 3.0 + 1e-4 / 9.0) - 20.0)
    assert interval_of("daly", replace(CALM, checkpoint_s=3e5)) == pytest.approx(1e5)


@pytest.mark.parametrize("ratio", [1e-18, 1e-12, 1e-6])
def test_short_checkpoints_have_youngs_interval(ratio: float) -> None:
    """The best interval is sqrt(2 C M) (1 + O(sqrt(C / M)))."""
    quick = replace(CALM, checkpoint_s=ratio / CALM.rate_per_s)
    assert interval_of("best", quick) == pytest.approx(interval_of("young", quick), rel=1e-6 + math.sqrt(ratio))


UPKEEPS = st.builds(
    Upkeep,
    rate_per_s=st.floats(1e-6, 1e-3),
    broken_per_s=st.just(0.0),
    checkpoint_s=st.floats(0.1, 300.0),
    restart_s=st.floats(0.0, 1000.0),
    repair_s=st.floats(1.0, 1e5),
    spare_nodes=st.integers(0, 8),
)


@given(upkeep=UPKEEPS, factor=st.floats(0.3, 3.0))
def test_no_interval_is_better_than_the_best(upkeep: Upkeep, factor: float) -> None:
    best = interval_of("best", upkeep)
    assert shares(upkeep, factor * best).useful <= shares(upkeep, best).useful * (1.0 + 1e-9)
    for rule in ("young", "daly"):
        assert shares(upkeep, interval_of(rule, upkeep)).useful <= shares(upkeep, best).useful * (1.0 + 1e-9)  # type: ignore[arg-type]


@settings(max_examples=25, deadline=None)
@given(upkeep=UPKEEPS, share=st.floats(0.0, 1.0), seed=st.integers(0, 2**31))
def test_played_at_random_it_is_the_same(upkeep: Upkeep, share: float, seed: int) -> None:
    """Within five standard errors, and what a run of some 400 interruptions is still off by where it began."""
    upkeep = replace(upkeep, broken_per_s=share * upkeep.rate_per_s)
    interval_s = interval_of("best", upkeep)
    played = play(upkeep, interval_s, 400, 400, seed)
    useful = shares(upkeep, interval_s).useful
    assert abs(played.useful - useful) <= 5.0 * played.error + 0.01 * useful


TABLE: dict[str, Any] = {"failures": "llama3-h100", "write_bytes_per_s": 1e6, "restart_s": 60, "repair_s": 3600}
SETTING = "goodput={failures='llama3-h100', write_bytes_per_s=1e6, restart_s=60, repair_s=3600}"


def test_llama_3_was_interrupted_every_three_hours() -> None:
    """54 days / 419 interruptions = 3.09 h; the parts of the table are all of them."""
    failures = load_failures("llama3-h100")
    assert sum(part.interruptions for part in failures.parts) == 419
    assert 1.0 / failures.rate_per_s(16_384, 2_048) == pytest.approx(54 * DAY_S / 419)
    assert failures.rate_per_s(16_384, 2_048, broken=True) < failures.rate_per_s(16_384, 2_048)


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
