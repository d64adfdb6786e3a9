"""Pipelines worked by hand: bubbles in closed form, a step of two stages, what an exchange takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfrontier.core.collectives import HopTimes, Library, algorithm, load_library
from simfrontier.core.engine import SimulatedStep, simulate_step
from simfrontier.core.machine import load_machine
from simfrontier.core.program.ir import Exchange
from tests.core.engine.pipelines import Interleaved, Order, Pipeline

NO_START_UP = HopTimes(base_s=0.0, hop_in_node_s=0.0, hop_between_nodes_s=0.0)
LONG = {"rows": 10**9, "message": 1}  # products of 66 s, and two bytes to send: exchanges take no time


def library() -> Library:
    """Messages start up at once, and take no compute units from the products that run beside them."""
    return replace(load_library("rccl"), direct=NO_START_UP, units_per_channel=0.0)


def run(pipeline: Pipeline, exact: bool = False) -> SimulatedStep:
    return simulate_step(pipeline.schedule(), load_machine("toy-cluster"), library(), exact=exact)


def seconds_of_blocks(one: SimulatedStep) -> tuple[float, float]:
    """A layer's forward and backward, each op alone."""
    known = {call.label: call.ops for call in one.schedule.roles[0].calls}
    forward, backward = (
        sum(one.pricing.of(op).works[0].alone_s for op in known[name]) for name in ("forward", "backward")
    )
    return forward, backward


@pytest.mark.parametrize("order", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "micros"), [(2, 1), (2, 4), (4, 3), (4, 8), (8, 8)])
def test_the_bubble_is_that_of_the_closed_form(order: Order, stages: int, micros: int) -> None:
    """All stages equal, exchanges free: M + P - 1 times a stage's forward and backward, of which P - 1 are bubble."""
    one = run(Pipeline(stages=stages, micros=micros, order=order, step=False, **LONG))
    forward, backward = seconds_of_blocks(one)
    each = 2 * (forward + backward)  # two layers
    assert one.step_s == pytest.approx((micros + stages - 1) * each, rel=1e-9)
    idle = 1.0 - one.compute_s / one.step_s
    assert idle == pytest.approx((stages - 1) / (micros + stages - 1), rel=1e-9)


@pytest.mark.parametrize(("stages", "micros", "chunks"), [(2, 4, 2), (4, 4, 2), (4, 8, 3)])
def test_interleaving_divides_the_bubble(stages: int, micros: int, chunks: int) -> None:
    """v chunks of a v-th of the layers: the bubble is P - 1 of v M + P - 1 chunks."""
    one = run(Interleaved(stages=stages, micros=micros, chunks=chunks, layers=chunks, step=False, **LONG))
    forward, backward = seconds_of_blocks(one)
    assert one.step_s == pytest.approx((chunks * micros + stages - 1) * (forward + backward), rel=1e-9)


def test_a_step_of_two_stages_by_hand() -> None:
    """One layer and one micro-batch on two devices of a package: F, exchange, F, B, exchange back, B.

    An activation is 512 * 256 * 2 B = 262,144 B, a weight 131,072 B; memory does 100 GB/s, a kernel starts in 1 us. A
    product has 2 * 512 * 256^2 flops at 2 Tflop/s * x / (x + 100), x = (512 * 256^2)^(1/3) = 322.5: 43.95 us, more than
    its operands take. F: a product, cast and gelu (two activations each), an addition (three).
    B: two products, a cast, an addition. An exchange: an activation over xgmi, no start-up.
    """
    edge = (512 * 256**2) ** (1 / 3)
    product = 1e-6 + 2 * 512 * 256**2 / (2e12 * edge / (edge + 100.0))
    two, three = 1e-6 + 2 * 262_144 / 100e9, 1e-6 + 3 * 262_144 / 100e9
    forward, backward = product + 2 * two + three, 2 * product + two + three
    one = run(Pipeline(stages=2, micros=1, layers=1, step=False))
    share = algorithm("direct").shares_of(library(), {"xgmi": 1.0})["xgmi"]
    exchange = 262_144 / (10e9 * share)
    assert one.step_s == pytest.approx(2 * (forward + backward) + 2 * exchange, rel=1e-9)
    assert one.compute_s == pytest.approx(forward + backward, rel=1e-9)
    assert one.critical == 0  # the first stage ends last


@pytest.mark.parametrize(("tensor", "level"), [(1, "package"), (4, "inter_node")])
def test_an_exchange_starts_up_by_its_hop_and_goes_both_ways_at_once(tensor: int, level: str) -> None:
    """1F1B sends ahead and back in one call: full duplex, it takes no longer than one way. Between the devices of a
    package, and from node to node (of four devices)."""
    known = load_library("rccl")
    one = simulate_step(Pipeline(stages=2, micros=3, tensor=tensor).schedule(), load_machine("toy-cluster"), known)
    spent: dict[bool, set[float]] = {}
    for index, op in enumerate(one.program.ops):
        if op.kind == "exchange":
            both = len(op.reads) + len(op.writes) == 4
            spent.setdefault(both, set()).add(
                round(float((one.timeline.end - one.timeline.start)[one.critical_row, index]), 12)
            )
    assert len(spent[True]) == len(spent[False]) == 1
    assert spent[True] == spent[False]
    start_up = known.direct.base_s + (
        known.direct.hop_between_nodes_s if level == "inter_node" else known.direct.hop_in_node_s
    )
    assert min(spent[True]) > start_up
    assert one.level(next(op for op in one.program.ops if isinstance(op, Exchange))) == level
