"""The loss where ranks have some of the classes each, by hand and against the whole: finite whatever the logits are."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from simfrontier.schedule import Call, Codec, Collective, Compute, Mesh, Placement, Ref, Role, Schedule, Tensor
from simfrontier.schedule.placement import partial
from simfrontier_real.arrays import numpy_backend
from simfrontier_real.lanes import Step
from simfrontier_real.layout import layouts_of
from simfrontier_real.loopback import LoopbackWorld
from simfrontier_real.optimizer import Adam, Trainer
from simfrontier_real.programs import programs_of
from simfrontier_real.site import site_of
from simfrontier_real.train import inline, run_together
from simfrontier_real.work import RealWork

CLASSES = 6
LABELS = np.array([[0, 5]])  # one sample of two positions
SPLIT = (("tensor", "v"),)


def losing(num_ranks: int) -> Schedule:
    """The loss of one sample of two positions over six classes, which `num_ranks` ranks share."""
    rows, wide = (1, 2), (*(1, 2), CLASSES)
    cut = Placement((("tensor", 2),))

    def tensor(name: str, shape: tuple[int, ...], placement: Placement, dims: tuple[str, ...]) -> Tensor:
        held = name in ("logits", "d.logits")
        return Tensor(
            name=name, shape=shape, dtype="fp64", role="activation", placement=placement, dims=dims, persistent=held
        )

    tensors = [
        tensor("logits", wide, cut, ("b", "s", "v")),
        tensor("d.logits", wide, cut, ("b", "s", "v")),
        tensor("loss.top.partial", rows, partial(("tensor",), op="max"), ("b", "s")),
        tensor("loss.top", rows, Placement(), ("b", "s")),
        tensor("loss.terms.partial", (*rows, 2), partial(("tensor",)), ("b", "s", "e")),
        tensor("loss.terms", (*rows, 2), Placement(), ("b", "s", "e")),
    ]
    ops = (
        compute("loss.max", "loss_max", ("logits",), "loss.top.partial"),
        summed("loss.top"),
        compute("loss.sums", "loss_sums", ("logits", "loss.top"), "loss.terms.partial"),
        summed("loss.terms"),
        compute("loss", "loss", ("logits", "loss.top", "loss.terms"), "d.logits"),
    )
    return Schedule(
        mesh=Mesh((("tensor", num_ranks),)),
        tensors={each.name: each for each in tensors},
        roles=(Role("all", (Call("head", 0, 0, ops),)),),
        pools={},
        meta={},
    )


def compute(name: str, kind: str, reads: tuple[str, ...], write: str) -> Compute:
    every = (("b", 1), ("s", 2), ("v", CLASSES))
    refs = tuple(map(Ref, reads))
    return Compute(kind=kind, name=name, reads=refs, writes=(Ref(write),), iteration=every, split=SPLIT)


def summed(name: str) -> Collective:
    return Collective(
        kind="all_reduce",
        name="activation",
        axes=("tensor",),
        src=(Ref(f"{name}.partial"),),
        dst=(Ref(name),),
        codec=Codec("fp64"),
    )


def losses_of(num_ranks: int, logits: Any) -> tuple[list[float], Any]:
    """(what each rank says the loss is, the gradient of all logits)."""
    made = losing(num_ranks)
    program, world = programs_of(made).of_roles[0], LoopbackWorld(made.mesh)
    sites, trainers, executors = [], [], []
    for rank in range(num_ranks):
        site = site_of(made, program, layouts_of(made, program), numpy_backend(), rank)
        trainer = Trainer(Adam(), grad_accum=1, labels={0: LABELS})
        site.buffers.held[Ref("logits")] = np.split(logits, num_ranks, axis=-1)[rank]
        step = Step(program, made.mesh, RealWork(site, trainer.kernels()), world.transport(rank), time.monotonic)
        sites.append(site)
        trainers.append(trainer)
        executors.append(inline(step))
    run_together(executors)
    gradient = np.concatenate([site.buffers[Ref("d.logits")] for site in sites], axis=-1)
    return [sum(map(float, trainer.losses.values())) for trainer in trainers], gradient


def test_the_loss_by_hand() -> None:
    """All logits alike: every class has 1/6, the loss is log 6, counted by the first rank; the gradient is 1/6, less 1
    at the label, over 2 positions."""
    losses, gradient = losses_of(3, np.zeros((1, 2, CLASSES)))
    assert losses == pytest.approx([np.log(6), 0.0, 0.0])
    expected = np.full((1, 2, CLASSES), 1 / 12)
    expected[0, 0, 0] -= 1 / 2
    expected[0, 1, 5] -= 1 / 2
    assert np.allclose(gradient, expected, rtol=1e-15)


@pytest.mark.parametrize("num_ranks", [2, 3, 6])
@pytest.mark.parametrize("height", [1.0, 1e4])
def test_cut_classes_give_the_loss_of_all_classes(num_ranks: int, height: float) -> None:
    """With logits of tens of thousands, exponentials of anything but differences to the largest would overflow."""
    from scipy.special import log_softmax, softmax

    logits = height * np.random.default_rng(0).normal(size=(1, 2, CLASSES))
    losses, gradient = losses_of(num_ranks, logits)
    expected = -np.mean([log_softmax(logits[0, 0])[0], log_softmax(logits[0, 1])[5]])
    assert losses[0] == pytest.approx(expected, rel=1e-13) and not any(losses[1:])
    one_hot = np.zeros_like(logits)
    one_hot[0, 0, 0] = one_hot[0, 1, 5] = 1.0
    assert np.allclose(gradient, (softmax(logits, axis=-1) - one_hot) / 2, rtol=1e-12, atol=1e-300)
