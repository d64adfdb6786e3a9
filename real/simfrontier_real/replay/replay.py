"""Replay: run every op of a schedule on buffers of the right sizes, with real collectives and codecs and arbitrary
values."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Literal

from simfrontier.base.errors import InputError
from simfrontier.core.codecs import Codec
from simfrontier.core.program import KINDS, Compute, CopyKind, Ref, matmul_shape, traffic_bytes
from simfrontier.core.trace import Trace
from simfrontier_real.ops.arrays import Array, Backend
from simfrontier_real.ops.codecs import Encoded
from simfrontier_real.ops.layout import local_shape
from simfrontier_real.ops.moves import LOCAL_KERNELS
from simfrontier_real.ops.op_runner import RealOpRunner
from simfrontier_real.ops.operands import Kernel, Operands
from simfrontier_real.ops.programs import RankContext

ComputeMode = Literal["real", "wait", "none"]
_FLOATS = ("fp64", "fp32", "fp16", "bf16")


@dataclass
class StandInKernels:
    """Stand-ins for the model's kernels: they write outputs of the right size and take time according to the mode.

    real: matrix products of the op's local shape, and copies of as many bytes as the op reads and writes, on scratch
    memory; wait: sleep until the op has taken its duration in `waits` (seconds per op) since it was ready; none: take
    no time.
    """

    mode: ComputeMode
    waits: list[float] | None = None
    sent: frozenset[str] = frozenset()  # the activations that communication reads
    memory: dict[str, Array] = field(default_factory=dict)  # zeros, by type: every blank and scratch lies in them

    def kernels(self) -> dict[str, Kernel]:
        """Return the kernels by kind of op; with real compute, the codecs and other local moves are also real."""
        stand = dict.fromkeys((name for name, kind in KINDS.items() if not isinstance(kind, CopyKind)), self.op)
        return {**stand, **(LOCAL_KERNELS if self.mode == "real" else dict.fromkeys(LOCAL_KERNELS, self.op))}

    def op(self, operands: Operands) -> None:
        """Stand in for one op of the model (or for any local op, if compute is not real)."""
        if self.mode == "real":
            self._spend(operands.context, operands.op)
        _, writes, added = operands.refs
        for ref in (*writes, *added):
            self.blank(operands.context, ref)

    def blank(self, context: RankContext, ref: Ref) -> None:
        """Write a buffer of the right size if communication may read it; most activations are not read in a replay and
        have no buffer."""
        tensor = context.schedule.tensors[ref.name]
        if tensor.role in ("token", "optimizer"):
            return
        if tensor.role == "activation":
            if ref.name in self.sent:
                context.buffers[ref] = self._zeros(context, local_shape(tensor, context.schedule.mesh), tensor.dtype)
            return
        bundle = context.layouts.bundles.get(ref)
        if bundle is not None:
            whole = self._zeros(context, (bundle.members, bundle.total), tensor.dtype)
            context.buffers.bundled[bundle.op] = whole
            context.buffers[ref] = whole[:, bundle.start : bundle.start + bundle.width]
            return
        elements, pieces = tensor.local_elements(context.schedule.mesh), context.layouts.pieces_of(ref)
        if tensor.codec is None:
            context.buffers[ref] = self._zeros(context, (elements,), tensor.dtype)
        else:
            context.buffers[ref] = self._pieces(context, tensor.codec, pieces, elements // pieces)

    def place(self, context: RankContext) -> None:
        """Allocate the buffers of all states that the rank holds."""
        program = context.program
        moved = [refs for op, refs in zip(program.ops, program.reads, strict=True) if not isinstance(op, Compute)]
        self.sent = frozenset(ref.name for refs in moved for ref in refs)
        for ref in context.touched:
            if context.schedule.tensors[ref.name].persistent:
                self.blank(context, ref)

    def _pieces(self, context: RankContext, codec: Codec, pieces: int, length: int) -> Encoded:
        """Return encoded pieces that contain zeros."""
        if not codec.is_opaque:
            return Encoded(self._zeros(context, (pieces, length), codec.name), None)
        if not codec.is_quantised:
            return Encoded(self._zeros(context, (pieces, codec.payload_bytes(length)), "uint8"), None)
        scales = self._zeros(context, (pieces, codec.num_scales(length)), "fp32")
        return Encoded(self._zeros(context, (pieces, codec.payload_bytes(length)), "uint8"), scales)

    def _spend(self, context: RankContext, op: Compute) -> None:
        backend, mesh = context.backend, context.schedule.mesh
        if op.matmul is not None:
            batch, m, n, k = matmul_shape(op, context.schedule.tensors, mesh)
            refs = (*op.writes, *op.reads)
            dtype = next(
                (t.dtype for t in (context.schedule.tensors[r.name] for r in refs) if t.dtype in _FLOATS), "fp32"
            )
            backend.xp.matmul(self._zeros(context, (batch, m, k), dtype), self._zeros(context, (batch, k, n), dtype))
            return
        moved = traffic_bytes(op, context.schedule.tensors, mesh) // 2  # half is read, half is written
        if moved:
            backend.xp.asarray(self._zeros(context, (moved,), "uint8"), copy=True)

    def _zeros(self, context: RankContext, shape: tuple[int, ...], dtype: str) -> Array:
        """Return an array of zeros, a view of shared memory to which ops write only zeros."""
        count = math.prod(shape)
        held = self.memory.get(dtype)
        if held is None or held.shape[0] < count:
            held = self.memory[dtype] = context.backend.zeros((count,), dtype)
        return context.backend.xp.reshape(held[:count], shape)


class ReplayRunner(RealOpRunner):
    """Runs the ops of a replay: collectives and codecs are real, the model's ops have stand-ins."""

    def __init__(self, context: RankContext, kernels: StandInKernels) -> None:
        super().__init__(context, kernels.kernels())
        self._kernels = kernels
        if kernels.mode == "wait" and (kernels.waits is None or len(kernels.waits) != context.program.num_ops):
            got = 0 if kernels.waits is None else len(kernels.waits)
            raise InputError(f"waits: got {got} ops; allowed: one for each of the schedule's {context.program.num_ops}")
        kernels.place(context)

    def measures(self, index: int) -> Backend | None:
        """Return the array library if compute is real; otherwise None, because nothing is encoded and messages have the
        lengths that the schedule assumes."""
        return super().measures(index) if self._kernels.mode == "real" else None

    def run(self, index: int, ready_s: float) -> None:
        super().run(index, ready_s)
        if self._kernels.mode == "wait":
            assert self._kernels.waits is not None
            wait_until(ready_s + self._kernels.waits[index])


def wait_until(deadline_s: float) -> None:
    """Sleep until a time of the monotonic clock; no busy waiting, because ranks may share cores."""
    left = deadline_s - time.monotonic()
    if left > 0:
        time.sleep(left)


def waits_of(trace: Trace, rank: int, num_ops: int, where: str) -> list[float]:
    """Return the duration in seconds of each op on a rank in a trace. Raises InputError if the rank or an op is missing
    from the trace."""
    for members, spans in zip(trace.members, trace.spans, strict=True):
        if rank in members:
            waits = {span.op: span.end_s - span.start_s for span in spans}
            if sorted(waits) != list(range(num_ops)):
                text = f"rank {rank} has {len(waits)} ops; allowed: a trace of the schedule's {num_ops}"
                raise InputError(text, where=where)
            return [waits[index] for index in range(num_ops)]
    raise InputError(f"holds nothing for rank {rank}; allowed: a trace of all ranks (simfrontier export)", where=where)
