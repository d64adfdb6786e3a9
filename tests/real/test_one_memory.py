"""What a rank computes stays on its device: whole steps on torch's device `meta`, which holds no values and refuses
most operations that mix it with the host's memory. A GPU would refuse the others, too; but none is needed to find a
tensor that was made in the wrong place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import array_api_compat.torch as xp
import numpy as np
import pytest
import torch

from simfrontier.schedule import Mesh, Schedule
from simfrontier_real.arrays import Backend
from simfrontier_real.executor import inline
from simfrontier_real.programs import programs_of
from simfrontier_real.train import TrainingRank
from tests.real.grids import axonn, megatron
from tests.real.schedules import EXACT, QUANTISED, schedule, training

META = torch.device("meta")
CASES: dict[str, Callable[[], Schedule]] = {
    "zero3": lambda: schedule(EXACT["zero3"], (2, 1, 2), 2),
    "hierarchical": lambda: schedule(EXACT["hierarchical"], (2, 1, 2), 2),
    "quantised topo": lambda: schedule(QUANTISED["quantised topo"], (2, 1, 2), precision="fp32"),
    "fp16": lambda: schedule(EXACT["zero3"], (2, 1, 2), precision="fp16"),
    "lamb": lambda: schedule(EXACT["zero3"], (2, 1, 2), precision="fp32", optimizer="lamb"),
    "mlp": lambda: schedule(EXACT["zero1"], (2, 1, 2), precision="fp32", model="mlp"),
    "axonn, fused": lambda: axonn(2, 2, 1, shape="llama", attention="fused").schedule,
    "stages": lambda: megatron(2, 2, sequence_parallel=True, overlap_exchange=True).schedule,
    "gpt-2": lambda: megatron(2, 2, shape="gpt-2").schedule,
    "mixed": lambda: megatron(2, 2, shape="mixed").schedule,
}


@dataclass
class Arrived:
    value: Any

    def is_done(self) -> bool:
        return True

    def wait(self) -> Any:
        return self.value


@dataclass
class Alone:
    """A transport without other ranks: results of the right sizes, of messages that must be on the device."""

    mesh: Mesh
    num_messages: int = 0

    def begin(self, op: Any, message: Any, reduction: str = "sum") -> Arrived:
        self._refuse(message)
        members = self.mesh.size(op.axes)
        if op.wire_kind == "all_gather":
            return Arrived(torch.empty((members, message.numel()), dtype=message.dtype, device=META))
        if op.wire_kind == "reduce_scatter":
            return Arrived(torch.empty(message.shape[1:], dtype=message.dtype, device=META))
        return Arrived(message)

    def exchange(self, op: Any, message: Any, room: Any) -> Arrived:
        for each in (message, room):
            if each is not None:
                self._refuse(each)
        return Arrived(room)

    def _refuse(self, message: Any) -> None:
        assert message.device == META, f"a message is on {message.device}"
        self.num_messages += 1


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Backend:
    """Arrays without values: every number that the host asks for is 1."""
    tensor: Any = torch.Tensor
    for name, number in (("__float__", 1.0), ("__int__", 1), ("__bool__", True), ("item", 1.0)):
        monkeypatch.setattr(tensor, name, lambda values, number=number: number)
    monkeypatch.setattr(tensor, "tolist", lambda values: [1.0] * values.numel())
    monkeypatch.setattr(Backend, "numpy", lambda self, values: np.zeros(tuple(values.shape)))
    return Backend(xp, META)


@pytest.mark.parametrize("name", CASES)
def test_a_step_mixes_no_memories(name: str, backend: Backend) -> None:
    made = CASES[name]()
    programs, num_messages = programs_of(made), 0
    for rank in range(made.mesh.num_ranks):
        alone = Alone(made.mesh)
        training_rank = TrainingRank(made, programs.of(rank), backend, rank, alone, training(1))
        executor = inline(training_rank.step)
        training_rank.load(0)
        executor.begin()
        while not executor.is_finished:
            assert executor.advance(0.0)
        training_rank.record_step()
        training_rank.report()
        num_messages += alone.num_messages
    assert num_messages > 0


def test_a_tensor_in_the_wrong_place_is_noticed(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that makes its result in the host's memory."""
    from simfrontier_real import op_runner

    run = op_runner.RealOpRunner.run

    def misplaced(self: Any, index: int, ready_s: float) -> None:
        run(self, index, ready_s)
        for ref in self.context.program.writes[index]:
            values = self.context.buffers.by_ref.get(ref)
            if isinstance(values, torch.Tensor) and self.context.program.ops[index].kind == "add":
                self.context.buffers[ref] = torch.zeros(values.shape, dtype=values.dtype)

    monkeypatch.setattr(op_runner.RealOpRunner, "run", misplaced)
    with pytest.raises(RuntimeError, match=r"on device cpu|not on the expected device"):
        test_a_step_mixes_no_memories("zero3", backend)
