"""Steps of a few collectives and nothing else, by the name of their kind and their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simfrontier.core.codecs import parse_codec
from simfrontier.core.collectives import Library, load_library
from simfrontier.core.engine import Fidelity, SimulatedStep, simulate_step
from simfrontier.core.machine import Machine, load_machine
from simfrontier.core.program.ir import Call, Collective, CollectiveKind, Ref, Role, Schedule, Tensor
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.program.placement import REPLICATE


def mesh_of(machine: Machine, num_ranks: int) -> Mesh:
    """Whole nodes of a machine, or a part of one."""
    per_node = min(machine.devices_per_node, num_ranks)
    return Mesh((("node", num_ranks // per_node), ("gcd", per_node)))


def calls(mesh: Mesh, *ops: tuple[CollectiveKind, tuple[str, ...], int, str, str], codec: str = "fp16") -> Schedule:
    """Collectives (kind, axes, bytes of the whole message as fp16, lane, via) of bytes, that wait for nothing but their
    lane.

    A tensor holds, on every rank, what `messages_of` takes for the whole message."""
    tensors, made = {}, []
    for number, (kind, axes, num_bytes, lane, via) in enumerate(ops):
        names = f"from{number}", f"to{number}"
        for name in names:
            tensors[name] = Tensor(
                name=name, shape=(num_bytes // 2,), dtype="fp16", role="gathered", placement=REPLICATE
            )
        made.append(
            Collective(
                kind=kind,
                name=f"{kind} {number}",
                axes=axes,
                src=(Ref(names[0]),),
                dst=(Ref(names[1]),),
                codec=parse_codec(codec),
                via=via,
                lane=lane,
                comm=lane,
            )
        )
    role = Role("all", (Call("step", 0, 0, tuple(made)),))
    return Schedule(mesh=mesh, tensors=tensors, roles=(role,), pools={}, meta={})


def single(
    kind: CollectiveKind,
    num_bytes: int,
    num_ranks: int,
    machine: str = "frontier",
    fidelity: Fidelity = "chunk",
    via: str = "library",
    library: str | Library = "rccl",
    axes: tuple[str, ...] | None = None,
    overrides: Mapping[str, float] | None = None,
) -> SimulatedStep:
    """One collective of all ranks, or of the groups over `axes`."""
    where = load_machine(machine)
    mesh = mesh_of(where, num_ranks)
    chosen = load_library(library, overrides) if isinstance(library, str) else library
    over = mesh.live(("node", "gcd")) if axes is None else axes
    return simulate_step(calls(mesh, (kind, over, num_bytes, "gather", via)), where, chosen, fidelity)


def with_links(machine: Machine, **changes: float | bool) -> Machine:
    """The machine with other latencies, bursts or modes on every class of links."""
    classes = {name: replace(each, **changes) for name, each in machine.link_classes.items()}  # type: ignore[arg-type]
    return replace(machine, link_classes=classes)
