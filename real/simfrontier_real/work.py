"""What the ops of a schedule mean on one rank's real buffers; the executor decides when, this module what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from simfrontier.errors import InputError, nearest
from simfrontier.schedule.expand import Expanded
from simfrontier.schedule.ir import Collective, Compute, Ref, Schedule
from simfrontier_real import messages
from simfrontier_real.arrays import Array, Backend
from simfrontier_real.buffers import Buffers
from simfrontier_real.layout import Layouts, coordinates


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One rank's place in a schedule: its program, its coordinates, its buffers and how they are laid out."""

    schedule: Schedule
    program: Expanded
    layouts: Layouts
    backend: Backend
    rank: int
    at: dict[str, int]
    buffers: Buffers

    def operands(self, index: int) -> tuple[tuple[Ref, ...], tuple[Ref, ...], tuple[Ref, ...]]:
        """(reads, writes, accumulates) of an op of the program."""
        program = self.program
        return program.reads[index], program.writes[index], program.accumulates[index]

    def put(self, ref: Ref, line: Array) -> None:
        """Write a line, straight into the message that it will travel in where it is one of several."""
        bundle = self.layouts.bundles.get(ref)
        if bundle is None:
            self.buffers[ref] = line
            return
        message = self.buffers.bundled.get(bundle.op)
        if message is None:
            dtype = self.schedule.tensors[ref.name].dtype
            message = self.backend.empty((bundle.members, bundle.total), dtype)
            self.buffers.bundled[bundle.op] = message
        columns = message[:, bundle.start : bundle.start + bundle.width]
        columns[...] = self.backend.xp.reshape(line, (bundle.members, -1))
        self.buffers[ref] = columns

    def add(self, ref: Ref, value: Array) -> None:
        """Add to a buffer; the first addition of a step makes it."""
        held = self.buffers.held.get(ref)
        self.buffers[ref] = value if held is None else held + value


def site_of(schedule: Schedule, program: Expanded, layouts: Layouts, backend: Backend, rank: int) -> Site:
    """A rank's place, with nothing in its buffers yet."""
    at = coordinates(schedule.mesh, rank)
    return Site(
        schedule=schedule,
        program=program,
        layouts=layouts,
        backend=backend,
        rank=rank,
        at=at,
        buffers=Buffers(schedule, program),
    )


class Work(Protocol):
    """What a rank does for each op. `run` takes the moment (of the executor's clock) at which the op was ready."""

    def begin_step(self) -> None: ...

    def run(self, index: int, ready_s: float) -> None: ...

    def outgoing(self, index: int) -> tuple[Array, ...]: ...

    def incoming(self, index: int, results: tuple[Array, ...]) -> None: ...

    def read_by(self, index: int) -> list[Array]: ...

    def done(self, index: int) -> None: ...


Kernel = Callable[[Site, int, Compute], None]


@dataclass
class RealWork:
    """Every op computed for real: local moves of data by this package, the model's ops by `kernels`, by kind of op."""

    site: Site
    kernels: dict[str, Kernel]

    def __post_init__(self) -> None:
        for op in {id(op): op for op in self.site.program.ops}.values():
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
        assert isinstance(op, Collective)
        return messages.outgoing(self.site, index, op)

    def incoming(self, index: int, results: tuple[Array, ...]) -> None:
        op = self.site.program.ops[index]
        assert isinstance(op, Collective)
        messages.incoming(self.site, index, op, results)

    def read_by(self, index: int) -> list[Array]:
        """The arrays that an op reads."""
        held = [self.site.buffers.held.get(ref) for ref in self.site.program.reads[index]]
        return [part for each in held if each is not None for part in getattr(each, "parts", (each,))]

    def done(self, index: int) -> None:
        self.site.buffers.used_by(index)
