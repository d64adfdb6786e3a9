"""Muon on ranks in one process: matrices move by their orthogonal momentum, whoever has their parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from simfrontier.core.program import Compute, check
from simfrontier.core.program.checks.work import faults_of_work
from simfrontier_real.train.reference import ReferenceOptimizer
from simfrontier_real.train.training_settings import Adam
from tests.real.grids import Grid, axonn, megatron
from tests.real.schedules import ENGINES, FAMILIES, schedule
from tests.real.together import agrees


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_trains_like_the_unsharded_model(family: str) -> None:
    agrees(schedule(FAMILIES[family], (2, 1, 2), grad_accum=2, engine=ENGINES["tight"], optimizer="muon"))


@pytest.mark.parametrize(
    "grid",
    [
        megatron(2, 1, 2, data="zero1", shape="llama", sequence_parallel=True, optimizer="muon"),
        megatron(2, 2, 1, shape="latent", optimizer="muon"),
        megatron(2, 1, 2, data="zero3", optimizer="muon"),
        megatron(2, 1, 2, shape="experts", expert=2, data="zero1", optimizer="muon"),
        megatron(2, 1, 2, shape="deepseek", expert=4, expert_tensor=1, sequence_parallel=True, optimizer="muon"),
        axonn(2, 2, 2, optimizer="muon"),
    ],
    ids=str,
)
def test_grids_train_like_the_unsharded_model(grid: Grid) -> None:
    agrees(grid.schedule)


def test_a_step_by_hand() -> None:
    """The gradient diag(3, 4) is scaled to the singular values 0.6 and 0.8; its momentum is itself, so that Nesterov's
    look ahead changes the length alone. Five times p(x) = 3.4445 x - 4.775 x^3 + 2.0315 x^5 takes 0.6 through 1.1933,
    0.9119, 0.8011, 0.9747 to 0.7229, and 0.8 through 0.9765, 0.7211, 1.0895, 0.6960 to 1.1192. Steps are
    0.1 x 0.2 x sqrt(2) of that."""
    weight = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)
    weight.grad = torch.diag(torch.tensor([3.0, 4.0], dtype=torch.float64))
    made = schedule(FAMILIES["ddp"], (1, 1, 2), optimizer="muon")
    ReferenceOptimizer(made, {("qkv.weight", 0): weight}, Adam(learning_rate=0.1)).step()
    moved = torch.diag(torch.tensor([0.7229, 1.1192], dtype=torch.float64)) * 0.02 * 2**0.5
    assert torch.allclose(weight.detach(), -moved, atol=1e-5)


def test_only_a_whole_matrix_can_be_orthogonalised() -> None:
    """Without the gather, each rank would iterate on its part."""
    made = schedule(FAMILIES["zero1"], (1, 1, 2), optimizer="muon")
    tensors = {**made.tensors}
    tensors["qkv.weight.update.whole"] = replace(
        tensors["qkv.weight.update.whole"], placement=tensors["qkv.weight.update"].placement
    )
    assert "qkv.weight.update.whole as [replicate] (whole matrices)" in str(check(replace(made, tensors=tensors)))


@pytest.mark.parametrize(
    ("change", "said"), [({"flops": 1}, "368640 flops, of its matrices"), ({"matmul": None}, "16 ")]
)
def test_iterations_have_the_sizes_of_their_matrix(change: dict[str, Any], said: str) -> None:
    """16 x 64: 5 x (4 x 16^2 x 64 + 2 x 16^3) = 368,640."""
    made = schedule(FAMILIES["ddp"], (1, 1, 2), optimizer="muon")
    (op,) = (each for each in made.ops if each.kind == "newton_schulz" and each.reads[0].name.startswith("h_to_4h"))
    assert isinstance(op, Compute)
    (fault,) = faults_of_work(replace(op, **change), made.tensors)
    assert said in fault[0]
