"""Pipelines at fidelity `chunk`: an exchange is one message each way, and a step agrees with `flow`."""

from __future__ import annotations

import pytest

from simfrontier.collectives import algorithm, load_library
from simfrontier.machine import HEALTHY, Perturbation, load_machine
from simfrontier.schedule.ir import Exchange
from simfrontier.simulation import SimulatedStep, simulate_step
from tests.simulation.pipelines import Order, Pipeline

MACHINE, LIBRARY = load_machine("toy-cluster"), load_library("rccl")


def run(pipeline: Pipeline, fidelity: str, fault: Perturbation = HEALTHY) -> SimulatedStep:
    return simulate_step(pipeline.schedule(), MACHINE, LIBRARY, fidelity, fault)  # type: ignore[arg-type]


def exchanged(step: SimulatedStep) -> list[float]:
    """Seconds of the exchanges of the critical rank."""
    row = step.critical_row
    took = (step.timeline.end - step.timeline.start)[row].tolist()
    return [seconds for op, seconds in zip(step.program.ops, took, strict=True) if isinstance(op, Exchange)]


def test_an_exchange_by_hand() -> None:
    """Two stages on two nodes of 4 devices and 2 NICs of 1 GB/s: an activation of 64 MiB of each of two devices.

    A direct message of RCCL: base and hop, then 2 x 67,108,864 B at the share of the NIC that direct messages reach:
    fluid rates end both then, single messages the one and then the other.
    """
    pipeline = Pipeline(stages=2, micros=1, data=4, message=2**25, axes=("stage", "data", "tensor"))
    hops = LIBRARY.direct
    share = algorithm("direct").shares_on(LIBRARY, MACHINE)["nic"]
    seconds = hops.base_s + hops.hop_between_nodes_s + 2 * 2**26 / (share * 1e9)
    for fidelity in ("flow", "chunk"):
        longest = max(exchanged(run(pipeline, fidelity)))
        assert longest == pytest.approx(seconds, rel=0.02), fidelity


@pytest.mark.parametrize("order", ["gpipe", "1f1b"])
def test_a_step_agrees_with_flow(order: Order) -> None:
    """One pair on every link, in one node and over two: single messages and fluid rates agree within 3 %."""
    pipeline = Pipeline(order=order, stages=4, micros=4, rows=8192, step=False)
    chunk, flow = run(pipeline, "chunk"), run(pipeline, "flow")
    assert chunk.step_s == pytest.approx(flow.step_s, rel=0.03)
