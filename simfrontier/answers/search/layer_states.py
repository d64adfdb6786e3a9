"""Weights, gradients and optimizer states of layers: a lower bound on the memory of a plan."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from simfrontier.core.plan import structure_of, tensors_of
from simfrontier.core.program import Tensor
from simfrontier.inputs.scenario import Case


@dataclass
class LayerStates:
    """The tensors that a layer keeps, made once for each structure of plans."""

    known: dict[Hashable, tuple[Tensor, ...]] = field(default_factory=dict)

    def num_bytes(self, case: Case) -> int:
        """What the layers of one stage keep on one rank."""
        work = case.workload
        key = structure_of(work, case.plan, case.mesh, case.engine, 1)
        if key not in self.known:
            every = tensors_of(work, case.plan, case.mesh, case.engine).by_name.values()
            self.known[key] = tuple(tensor for tensor in every if tensor.persistent and tensor.per_layer)
        layers = case.shape.num_layers // case.stages
        return sum([layers * tensor.held_bytes(case.mesh) for tensor in self.known[key]])
