"""The registry of plans: each family's options, its mesh and its plan."""

from __future__ import annotations

from collections.abc import Callable

from simfrontier.core.plan.options import Options
from simfrontier.core.plan.plan import Plan
from simfrontier.core.plan.tensor import TENSOR, TensorOptions
from simfrontier.core.plan.zero import ZERO
from simfrontier.core.program import Mesh

FAMILIES: dict[str, tuple[type[Options], Callable[..., Plan]]] = {**ZERO, **TENSOR}


def make_plan(name: str, options: Options, mesh: Mesh) -> Plan:
    """The plan that a family's options mean on a mesh. Raises InputError."""
    maker = FAMILIES[options.family][1]
    return maker(name, options, mesh) if isinstance(options, TensorOptions) else maker(name, options, mesh, mesh.names)
