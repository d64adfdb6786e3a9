"""What the ops of a schedule mean on one rank's real buffers; the executor decides when, this module what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from simfrontier.errors import InputError, nearest
from simfrontier.schedule import Collective, Compute, Exchange, PartialOp
from simfrontier_real import messages
from simfrontier_real.arrays import Array, Backend
from simfrontier_real.rank_context import RankContext

if TYPE_CHECKING:
    from simfrontier_real.arrivals import MessageDigests
    from simfrontier_real.weight_codes import WeightCodes


class OpRunner(Protocol):
    """What a rank does for each op. `run` takes the moment (of the executor's clock) at which the op was ready;
    `reduction` is how a collective combines, `room` the memory for what an exchange brings (None: nothing). Where only
    its values say how long a message is, `measures` is the library that its arrays are of."""

    def begin_step(self) -> None: ...

    def run(self, index: int, ready_s: float) -> None: ...

    def outgoing(self, index: int) -> tuple[Array, ...]: ...

    def reduction(self, index: int) -> PartialOp: ...

    def room(self, index: int) -> Array | None: ...

    def incoming(self, index: int, results: tuple[Array, ...]) -> None: ...

    def measures(self, index: int) -> Backend | None: ...

    def read_by(self, index: int) -> list[Array]: ...

    def done(self, index: int) -> None: ...


Kernel = Callable[[RankContext, int, Compute], None]


@dataclass
class RealOpRunner:
    """Every op computed for real: local moves of data by this package, the model's ops by `kernels`, by kind of op.
    `arrivals` notes what is sent and what arrives, `codes` what codes of weights are of (None: nobody does)."""

    site: RankContext
    kernels: dict[str, Kernel]
    arrivals: MessageDigests | None = None
    codes: WeightCodes | None = None

    def __post_init__(self) -> None:
        for op in {op.number: op for op in self.site.program.ops}.values():
            if isinstance(op, Compute) and op.kind != "hook" and op.kind not in self.kernels:
                raise InputError(f"op {op.kind} {op.name}: no kernel of that kind; {nearest(op.kind, self.kernels)}")
        self._passing = {t.name for t in self.site.schedule.tensors.values() if t.role in ("accumulator", "scalar")}

    def begin_step(self) -> None:
        """Sums start anew."""
        self.site.buffers.begin_step()
        for ref in [ref for ref in self.site.buffers.held if ref.name in self._passing]:
            del self.site.buffers.held[ref]

    def run(self, index: int, ready_s: float) -> None:
        op = self.site.program.ops[index]
        assert isinstance(op, Compute)
        if op.kind != "hook":
            self.kernels[op.kind](self.site, index, op)

    def outgoing(self, index: int) -> tuple[Array, ...]:
        op = self.site.program.ops[index]
        if self.codes is not None:
            self.codes.leaves(index)
        if isinstance(op, Exchange):
            out = messages.sent(self.site, index, op)
        else:
            assert isinstance(op, Collective)
            out = messages.outgoing(self.site, index, op)
        if self.arrivals is not None:
            how = self.reduction(index) if op.kind == "all_reduce" else "sum"
            self.arrivals.sends(index, op, out, how)
        return out

    def reduction(self, index: int) -> PartialOp:
        """How the partial values that a collective reduces are combined."""
        op = self.site.program.ops[index]
        assert isinstance(op, Collective)
        ways = dict(self.site.schedule.tensors[op.src[0].name].placement.partial)
        return next((ways[axis] for axis in op.axes if axis in ways), "sum")

    def room(self, index: int) -> Array | None:
        op = self.site.program.ops[index]
        assert isinstance(op, Exchange)
        return messages.room(self.site, index)

    def incoming(self, index: int, results: tuple[Array, ...]) -> None:
        op = self.site.program.ops[index]
        if self.arrivals is not None:
            self.arrivals.brings(index, op, results)
        if isinstance(op, Exchange):
            messages.received(self.site, index, results[0])
            return
        assert isinstance(op, Collective)
        messages.incoming(self.site, index, op, results)

    def measures(self, index: int) -> Backend | None:
        """The library of the messages of an op that is sent in a codec of variable length."""
        op = self.site.program.ops[index]
        assert not isinstance(op, Compute)
        return self.site.backend if op.codec.is_measured else None

    def read_by(self, index: int) -> list[Array]:
        """The arrays that an op reads or adds to."""
        program = self.site.program
        held = [self.site.buffers.held.get(ref) for ref in (*program.reads[index], *program.accumulates[index])]
        return [part for each in held if each is not None for part in getattr(each, "parts", (each,))]

    def done(self, index: int) -> None:
        self.site.buffers.used_by(index)
