"""What the ops of a schedule mean on one rank's real buffers; the executor decides when, this module what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from simfrontier.base.errors import InputError, nearest
from simfrontier.core.program import Collective, Compute, Exchange, PartialOp
from simfrontier_real.ops import messages
from simfrontier_real.ops.arrays import Array, Backend
from simfrontier_real.ops.programs import Kernel, RankContext
from simfrontier_real.verify.arrivals import MessageDigests
from simfrontier_real.verify.updates import WeightCodes


class OpRunner(Protocol):
    """What a rank does for each op. `run` takes the moment (of the executor's clock) at which the op was ready;
    `reduction` is how a collective combines, `room` the memory for what an exchange brings (None: nothing). Where the
    length of a message depends on its values, `measures` is the library of its arrays."""

    def begin_step(self) -> None: ...

    def run(self, index: int, ready_s: float) -> None: ...

    def outgoing(self, index: int) -> tuple[Array, ...]: ...

    def reduction(self, index: int) -> PartialOp: ...

    def room(self, index: int) -> Array | None: ...

    def incoming(self, index: int, results: tuple[Array, ...]) -> None: ...

    def measures(self, index: int) -> Backend | None: ...

    def read_by(self, index: int) -> list[Array]: ...

    def done(self, index: int) -> None: ...


@dataclass
class RealOpRunner:
    """Every op computed for real: local moves of data by this package, the model's ops by `kernels`, by kind of op.
    `digests` records what is sent and received, `weight_codes` the codes of weights that are sent (None: not
    recorded)."""

    context: RankContext
    kernels: dict[str, Kernel]
    digests: MessageDigests | None = None
    weight_codes: WeightCodes | None = None

    def __post_init__(self) -> None:
        for op in {op.number: op for op in self.context.program.ops}.values():
            if isinstance(op, Compute) and op.kind != "hook" and op.kind not in self.kernels:
                raise InputError(f"op {op.kind} {op.name}: no kernel of that kind; {nearest(op.kind, self.kernels)}")
        self._passing = {t.name for t in self.context.schedule.tensors.values() if t.role in ("accumulator", "scalar")}

    def begin_step(self) -> None:
        """Sums start anew."""
        self.context.buffers.begin_step()
        for ref in [ref for ref in self.context.buffers.by_ref if ref.name in self._passing]:
            del self.context.buffers.by_ref[ref]

    def run(self, index: int, ready_s: float) -> None:
        op = self.context.program.ops[index]
        assert isinstance(op, Compute)
        if op.kind != "hook":
            self.kernels[op.kind](self.context, index, op)

    def outgoing(self, index: int) -> tuple[Array, ...]:
        op = self.context.program.ops[index]
        if self.weight_codes is not None:
            self.weight_codes.record_sent(index)
        if isinstance(op, Exchange):
            out = messages.sent(self.context, index, op)
        else:
            assert isinstance(op, Collective)
            out = messages.outgoing(self.context, index, op)
        if self.digests is not None:
            reduction = self.reduction(index) if op.kind == "all_reduce" else "sum"
            self.digests.record_sent(index, op, out, reduction)
        return out

    def reduction(self, index: int) -> PartialOp:
        """How the partial values that a collective reduces are combined."""
        op = self.context.program.ops[index]
        assert isinstance(op, Collective)
        by_axis = dict(self.context.schedule.tensors[op.src[0].name].placement.partial)
        return next((by_axis[axis] for axis in op.axes if axis in by_axis), "sum")

    def room(self, index: int) -> Array | None:
        op = self.context.program.ops[index]
        assert isinstance(op, Exchange)
        return messages.room(self.context, index)

    def incoming(self, index: int, results: tuple[Array, ...]) -> None:
        op = self.context.program.ops[index]
        if self.digests is not None:
            self.digests.record_received(index, op, results)
        if isinstance(op, Exchange):
            messages.received(self.context, index, results[0])
            return
        assert isinstance(op, Collective)
        messages.incoming(self.context, index, op, results)

    def measures(self, index: int) -> Backend | None:
        """The library of the messages of an op that is sent in a codec of variable length."""
        op = self.context.program.ops[index]
        assert not isinstance(op, Compute)
        return self.context.backend if op.codec.is_measured else None

    def read_by(self, index: int) -> list[Array]:
        """The arrays that an op reads or adds to."""
        program = self.context.program
        held = [self.context.buffers.by_ref.get(ref) for ref in (*program.reads[index], *program.accumulates[index])]
        return [part for each in held if each is not None for part in getattr(each, "parts", (each,))]

    def done(self, index: int) -> None:
        self.context.buffers.used_by(index)
