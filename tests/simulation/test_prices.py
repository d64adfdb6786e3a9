"""Prices in closed form are those of the simulation's ops alone."""

from __future__ import annotations

import pytest

from simfrontier.cost import Prices, price
from simfrontier.scenario import load_scenario
from simfrontier.study import schedule_of

SMALL = {"model.num_layers": 2, "training.grad_accum": 1}


@pytest.mark.parametrize(
    ("scenario", "plan", "devices", "settings"),
    [
        ("frontier-20b", "zeropp", 384, SMALL),
        ("frontier-20b", "zero-topo", 64, {**SMALL, "run.placement": "cyclic"}),
        ("frontier-20b", "zero3", 16, {**SMALL, "perturbation.slow": [{"device": 3, "factor": 0.5}]}),
        ("frontier-1t-3d", "1f1b", 3072, {"model.num_layers": 16, "training.grad_accum": 2}),
        ("crosscheck", "zero3", 8, {}),
    ],
)
def test_every_op_takes_what_the_slowest_of_its_groups_takes_alone(
    scenario: str, plan: str, devices: int, settings: dict[str, object]
) -> None:
    made = load_scenario(f"scenarios/{scenario}.toml", settings, (plan,), (devices,))
    schedule = schedule_of(made, plan, devices)
    pricing = price(schedule, made.machine, made.library, made.file.perturbation, placement=made.file.run.placement)
    prices = Prices(made.machine, made.library, devices, made.file.perturbation, made.file.run.placement)
    ops = list(schedule.distinct_ops())
    assert len(ops) > 20
    for op in ops:
        slowest = max(work.alone_s for work in pricing.of(op).works)
        assert prices.seconds(op, schedule) == pytest.approx(slowest, rel=1e-9), op.name
