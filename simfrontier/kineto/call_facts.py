"""What the ops of a simulated step say in a trace: names of kernels, the keys of collectives, and what the simulation
knows beside them."""

from __future__ import annotations

from typing import Any

from simfrontier.codecs import Plain
from simfrontier.collectives import exchanged_bytes, messages_of
from simfrontier.cost import kernel_parts
from simfrontier.kineto import form
from simfrontier.records import dataclass
from simfrontier.schedule import Collective, Compute, Exchange, Op
from simfrontier.simulation import SimulatedStep


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """Of an op: the name of its event, what it says of itself in args, and the axes of its groups (none
    of a kernel), and the communicator."""

    name: str
    args: dict[str, Any]
    axes: tuple[str, ...] = ()
    comm: str = ""


def facts_of(step: SimulatedStep, op: Op, cls: int, at: tuple[str, int] | None) -> CallFacts:
    """What an op says on ranks of a class, which run their program at that place."""
    if isinstance(op, Compute):
        return _of_kernel(step, op, cls)
    if isinstance(op, Collective):
        return _of_collective(step, op)
    assert at is not None, f"{op.name}: an exchange of a program that is nowhere"
    return _of_exchange(step, op, at[1])


def _of_kernel(step: SimulatedStep, op: Compute, cls: int) -> CallFacts:
    cluster = step.cluster
    work = cluster.of(op).works[int(cluster.folding.activity_of(cluster.of(op).pattern)[cls])]
    num_bytes, arithmetic_s = kernel_parts(op, cluster.schedule, cluster.machine)
    speed = float(cluster.fabric.speed[cluster.folding.representative[cls]])
    own = {"seconds": work.alone_s, "bytes": num_bytes, "arithmetic_s": arithmetic_s / speed}
    return CallFacts(name=f"{op.kind} {op.name}", args={form.OWN: own})


def _of_collective(step: SimulatedStep, op: Collective) -> CallFacts:
    schedule = step.schedule
    size = schedule.mesh.size(op.axes)
    num_bytes = sum(message.num_bytes for message in messages_of(op, schedule.tensors, schedule.mesh))
    dtype, width = "Char", 1
    if isinstance(op.codec, Plain):
        dtype, width = form.WRITTEN_DTYPES[op.codec.name], int(op.codec.bits) // 8
    whole = num_bytes // width
    sent = -(-whole // size) if op.wire_kind == "all_gather" else whole
    received = -(-whole // size) if op.wire_kind == "reduce_scatter" else whole
    own: dict[str, Any] = {"kind": op.kind, "codec": str(op.codec), "via": op.via, "per_hop": op.per_hop}
    own |= _coded(step, op)
    args = {
        form.COLLECTIVE: form.WRITTEN[op.wire_kind],
        form.DTYPE: dtype,
        form.IN_ELEMENTS: sent,
        form.OUT_ELEMENTS: received,
        form.GROUP_SIZE: size,
        form.OWN: own,
    }
    return CallFacts(name=form.KERNELS[op.wire_kind], args=args, axes=op.axes, comm=op.comm)


def _coded(step: SimulatedStep, op: Collective) -> dict[str, Any]:
    """Elements of the tensors that the call moves, whole, as its codec is given them, and the type of the first."""
    schedule = step.schedule
    tensors = [schedule.tensors[ref.name] for ref in (op.dst if op.kind == "all_gather" else op.src)]
    share = [1 if op.piece is None else op.piece.share_of(tensor) for tensor in tensors]
    elements = [tensor.local_elements(schedule.mesh) // parts for tensor, parts in zip(tensors, share, strict=True)]
    return {"elements": elements, "dtype": tensors[0].dtype}


def _of_exchange(step: SimulatedStep, op: Exchange, at: int) -> CallFacts:
    schedule = step.schedule
    there, back = exchanged_bytes(op, schedule.tensors, schedule.mesh)
    is_first = at == op.ends[0]
    sends, receives = (there, back) if is_first else (back, there)
    args = {
        form.COLLECTIVE: form.WRITTEN["send" if sends else "recv"],
        form.DTYPE: "Char",
        form.IN_ELEMENTS: sends or receives,
        form.OUT_ELEMENTS: sends or receives,
        form.GROUP_SIZE: schedule.mesh[op.axis],
        form.OWN: {"ends": list(op.ends), "there_bytes": there, "back_bytes": back},
    }
    return CallFacts(
        name=form.KERNELS["send" if sends else "recv"],
        args=args,
        axes=(op.axis,),
        comm=op.comm,
    )
