"""Steps of published runs: kernels beside collectives, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfrontier.answers.accuracy.published_runs.step import step_of
from tests.answers.accuracy.published_runs.rows import run

LLAMA = {"model_shape": "Llama-2-13B", "devices": "16", "batch": "32", "seq": "2048", "micro_batch": "2"}


def test_persistent_products_take_a_second_round_beside_collectives() -> None:
    """Eight of an H100's 132 units are a collective's: other kernels beside it take 8/124 longer, products twice as
    long."""
    step = step_of(run(machine="h100", system="FSDP1", plan="FSDP", checkpointing="none", precision="bf16", **LLAMA))
    done, machine = step.estimate, step.machine
    share = done.products_s / done.busy_s
    assert 0.5 < share < 1.0 and 0.0 < done.aside_s < done.busy_s
    assert done.step_s == pytest.approx(done.busy_s + done.aside_s * (share + (1.0 - share) * 8 / 124))
    plain = step.on(replace(machine, kernels=replace(machine.kernels, persistent=False)))
    assert plain.step_s == pytest.approx(max(plain.step_s, done.busy_s + done.aside_s * 8 / 124))
    assert plain.step_s < done.step_s


def test_the_end_of_a_step_is_busy_once() -> None:
    """A step of 4, 8 and 64 micro-batches: the optimizer's kernels and ZeRO-1's collectives come once in each."""
    plan = {"system": "Megatron-Core", "machine": "h100", "plan": "tp 4, distributed optimizer", "precision": "bf16"}
    at = {n: step_of(run(**plan, batch=str(8 * n))).estimate for n in (4, 8, 64)}
    for of in ("busy_s", "aside_s"):
        few, more, many = (getattr(at[n], of) for n in (4, 8, 64))
        assert many - more == pytest.approx(14.0 * (more - few), rel=1e-9, abs=1e-12)
    assert at[64].aside_s == pytest.approx(at[4].aside_s) and at[4].aside_s > 0.0
    assert all(each.busy_s <= each.step_s for each in at.values())


@pytest.mark.parametrize(("machine", "system"), [("a100", "FSDP1"), ("h100", "NeMo"), ("b200", "NeMo")])
def test_other_products_are_not_persistent(machine: str, system: str) -> None:
    assert not step_of(run(machine=machine, system=system, **LLAMA)).machine.kernels.persistent


def test_hosts_that_launch_layers_of_experts_bound_a_step() -> None:
    """Qwen3-235B in stages of 47 layers: with 64 micro-batches, 65 times 47 forwards (two with recomputation) and
    backwards of the host, 11.0 ms or 15.2, and the end of the step besides; with CUDA graphs half of it."""
    cells = {"model_shape": "Qwen3-235B-A22B", "machine": "b300", "devices": "64", "plan": "tp 8, pp 2, ep 32, vp 1"}
    cells |= {"batch": "256", "seq": "4096", "micro_batch": "1", "precision": "bf16", "system": "NeMo"}
    for checkpointing, layer_s in (("none", 11.0e-3), ("full", 15.2e-3)):
        step = step_of(run(**cells, checkpointing=checkpointing, notes="NCCL all-to-all"))
        assert 0.01 < step.estimate.step_s - 65 * 47 * layer_s < 0.1
    free = replace(step.machine, host=replace(step.machine.host, experts_s=0.0, experts_backward_s=0.0))
    assert step.on(free).step_s < 0.5 * step.estimate.step_s
    graphs = step_of(run(**cells, checkpointing="none", notes="HybridEP, TE graphs")).machine.host
    assert (graphs.experts_s, graphs.experts_backward_s) == (2.1e-3, 3.4e-3)
