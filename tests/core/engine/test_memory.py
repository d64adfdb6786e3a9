"""The memory timeline: two plans by hand, and invariants of every plan."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from simfrontier.core.engine import SimulatedStep
from simfrontier.core.engine.memory import memory_timeline
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.workload import find_model
from tests.core.engine.steps import NAMED, schedule, step

TINY = find_model("tiny")  # 2 layers, hidden 64, 4 heads, vocabulary 256, sequence 32
PSI = 2 * (12 * 64 * 64 + 13 * 64) + 2 * 64 + 2 * 256 * 64  # 132,864 parameters
ROW = 32 * 64 * 2  # an activation of one sequence in 16 bits: 4,096 bytes
TOKENS = 32 * 8
PAIR = Mesh((("node", 1), ("package", 1), ("gcd", 2)))
TWO_NODES = Mesh((("node", 2), ("package", 2), ("gcd", 2)))
BLOCKS = {
    "zeropp": {"weight_codec": "int8:64", "quantised_gradient_codec": "int4:64"},
    "zero-topo": {"weight_codec": "int8:64", "node_gradient_codec": "int4:64", "cross_gradient_codec": "int4:64"},
}


def done(family: str, mesh: Mesh, machine: str, grad_accum: int = 1, fidelity: str = "flow") -> SimulatedStep:
    built = schedule(family, mesh, TINY, grad_accum, options=BLOCKS.get(family), persistence_elements=0)
    return step(built, machine, fidelity)  # type: ignore[arg-type]


def persistent(one: SimulatedStep) -> Counter[str]:
    """Bytes of persistent tensors by role, counted from their declarations: one of each layer and micro-batch."""
    out: Counter[str] = Counter()
    for tensor in one.schedule.tensors.values():
        if tensor.persistent:
            layers = TINY.num_layers if tensor.per_layer else 1
            micros = int(one.schedule.meta["grad_accum"]) if tensor.per_micro else 1
            out[tensor.role] += tensor.held_bytes(one.schedule.mesh) * layers * micros
    return out


def test_ddp_by_hand() -> None:
    result = memory_timeline(done("ddp", PAIR, "toy-pair"))
    # every rank holds 16-bit weights and gradients, and FP32 master weights and two moments: 2 + 2 + 4 + 8 bytes each
    assert result.at_peak["weights"] == 2 * PSI
    assert result.at_peak["gradients"] == 2 * PSI
    assert result.at_peak["optimizer"] == 12 * PSI
    # The most activations are held while the backward of layer 1 multiplies back through the feed-forward: the inputs
    # of both layers; of the recomputed layer ln1, qkv (3 rows), probabilities (4 heads x 32 x 32: 2 rows), context,
    # ln2, h_to_4h and gelu (4 rows each); the gradients that came in and of gelu (4 rows).
    rows = 2 + (1 + 3 + 2 + 1 + 1 + 4 + 4) + (1 + 4)
    assert result.at_peak["activations"] == rows * ROW + TOKENS
    assert result.peak_bytes == 16 * PSI + rows * ROW + TOKENS


def test_zero3_by_hand() -> None:
    result = memory_timeline(done("zero3", PAIR, "toy-pair"))
    # each of two ranks holds half of every state
    assert result.at_peak["weights"] == PSI
    assert result.at_peak["gradients"] == PSI
    assert result.at_peak["optimizer"] == 6 * PSI
    assert [float(result.held[name][-1]) for name in ("weights", "gradients", "optimizer")] == [PSI, PSI, 6 * PSI]
    # all gradients fit one bucket: whole ones of this rank (2 psi), and at least its reduced half of them (psi)
    assert result.at_peak["gradient buffers"] >= 3 * PSI


@pytest.mark.parametrize("family", NAMED)
def test_what_holds_for_every_timeline(family: str) -> None:
    one = done(family, TWO_NODES, "toy-cluster", 3)
    result = memory_timeline(one)
    total = np.sum(list(result.held.values()), axis=0)
    fixed = sum(persistent(one).values())
    # it ascends from 0 to the end of the step
    assert result.times[0] == 0.0 and result.times[-1] == one.step_s
    assert (np.diff(result.times) > 0).all()
    # what is persistent is held throughout, alone at the end, and with what the first op writes at the start
    assert (total >= fixed).all()
    assert total[-1] == fixed
    # the peak is the largest sum, when it is said to be, and made of what is said
    assert result.peak_bytes == round(float(total.max())) >= fixed
    assert total[np.flatnonzero(result.times == result.peak_s)[0]] == result.peak_bytes
    assert sum(result.at_peak.values()) == result.peak_bytes
    assert set(result.at_peak) == set(result.held)
    assert all((held >= 0).all() for held in result.held.values())
