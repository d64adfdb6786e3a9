"""Trace events of collective calls, in the format of PyTorch's profiler: Kineto's keys, and one key of this project for
the data that only a schedule has."""

from __future__ import annotations

from typing import Any, NamedTuple

from simfrontier.core.codecs import Plain
from simfrontier.core.collectives.volume import exchanged_bytes, message_bytes, sent_and_received
from simfrontier.core.program import Collective, Exchange, Schedule
from simfrontier.core.trace import kineto


class TracedCall(NamedTuple):
    """Trace data of a call: the kernel's name, the `args` of its event except for its group, the mesh axes of its
    groups, and the name of its communicator."""

    kernel: str
    args: dict[str, Any]
    axes: tuple[str, ...]
    comm: str


def traced_call(op: Collective | Exchange, schedule: Schedule, at: tuple[str, int] | None) -> TracedCall:
    """Return the trace data of a call. `at`: the axis and the coordinate on it of the ranks that run the op, None if
    their program belongs to no coordinate."""
    if isinstance(op, Collective):
        return _collective(op, schedule)
    return _exchange(op, schedule, at)


def _collective(op: Collective, schedule: Schedule) -> TracedCall:
    size = schedule.mesh.size(op.axes)
    num_bytes = message_bytes(op, schedule.tensors, schedule.mesh)
    dtype, width = "Char", 1
    if isinstance(op.codec, Plain):
        dtype, width = kineto.WRITTEN_DTYPES[op.codec.name], int(op.codec.bits) // 8
    whole = num_bytes // width
    sent = -(-whole // size) if op.wire_kind == "all_gather" else whole
    received = -(-whole // size) if op.wire_kind == "reduce_scatter" else whole
    own = {"kind": op.kind, "codec": str(op.codec), "via": op.via, "per_hop": op.per_hop, **_coded(op, schedule)}
    args = {
        kineto.COLLECTIVE: kineto.WRITTEN[op.wire_kind],
        kineto.DTYPE: dtype,
        kineto.IN_ELEMENTS: sent,
        kineto.OUT_ELEMENTS: received,
        kineto.GROUP_SIZE: size,
        kineto.OWN: own,
    }
    return TracedCall(kineto.KERNELS[op.wire_kind], args, op.axes, op.comm)


def _coded(op: Collective, schedule: Schedule) -> dict[str, Any]:
    """Return the number of elements of each tensor that the call moves, as input to the codec, and the dtype of the
    first tensor."""
    tensors = [schedule.tensors[ref.name] for ref in (op.dst if op.kind == "all_gather" else op.src)]
    share = [1 if op.piece is None else op.piece.share_of(tensor) for tensor in tensors]
    elements = [tensor.local_elements(schedule.mesh) // parts for tensor, parts in zip(tensors, share, strict=True)]
    return {"elements": elements, "dtype": tensors[0].dtype}


def _exchange(op: Exchange, schedule: Schedule, at: tuple[str, int] | None) -> TracedCall:
    there, back = exchanged_bytes(op, schedule.tensors, schedule.mesh)
    sends, receives = sent_and_received(op, schedule.tensors, schedule.mesh, at)
    meaning: kineto.Meaning = "send" if sends else "recv"
    args = {
        kineto.COLLECTIVE: kineto.WRITTEN[meaning],
        kineto.DTYPE: "Char",
        kineto.IN_ELEMENTS: sends or receives,
        kineto.OUT_ELEMENTS: sends or receives,
        kineto.GROUP_SIZE: schedule.mesh[op.axis],
        kineto.OWN: {"ends": list(op.ends), "there_bytes": there, "back_bytes": back},
    }
    return TracedCall(kineto.KERNELS[meaning], args, (op.axis,), op.comm)
