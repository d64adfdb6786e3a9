"""The program of each role, the role of each rank, and the context of one rank: its coordinates, buffers and
layouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.codecs import Codec
from simfrontier.core.program import ExpandedProgram, Ref, Schedule, axis_of_roles, expand
from simfrontier_real.ops.arrays import Array, Backend
from simfrontier_real.ops.layout import Layouts, coordinates, layouts_of, rearranged


class Buffers:
    """Buffers of one rank while it runs the steps of a program.

    A non-persistent buffer is freed when all ops of the step that use it have ended, in whatever order the lanes finish
    them: memory use is then as computed by the schedule's check.
    """

    def __init__(self, schedule: Schedule, program: ExpandedProgram) -> None:
        self.by_ref: dict[Ref, Any] = {}
        self.bundled: dict[int, Any] = {}  # by the collective that will send it: a message that is being written
        self.running: dict[Ref, Any] = {}  # by the result of attention in pieces: what the next piece continues
        self._tokens = {tensor.name for tensor in schedule.tensors.values() if tensor.role == "token"}
        passing = {tensor.name for tensor in schedule.tensors.values() if not tensor.persistent} - self._tokens
        self._uses = [
            [ref for ref in dict.fromkeys(chain(*used)) if ref.name in passing]
            for used in zip(program.reads, program.writes, program.accumulates, strict=True)
        ]
        self._users = Counter(chain.from_iterable(self._uses))
        self._left: Counter[Ref] = Counter()

    def begin_step(self) -> None:
        """Discard the record of the buffers that the ops of the previous step have used."""
        self._left = Counter(self._users)

    def __getitem__(self, ref: Ref) -> Any:
        try:
            return self.by_ref[ref]
        except KeyError:
            raise SimfrontierError(
                f"{ref.name} of layer {ref.layer}, micro-batch {ref.micro} is read, but nothing has been written there"
            ) from None

    def __setitem__(self, ref: Ref, value: Any) -> None:
        if ref.name not in self._tokens:
            self.by_ref[ref] = value

    def __contains__(self, ref: Ref) -> bool:
        return ref in self.by_ref

    def used_by(self, op: int) -> None:
        """Free the buffers that no later op uses, after an op has ended."""
        self.bundled.pop(op, None)
        for ref in self._uses[op]:
            self._left[ref] -= 1
            if not self._left[ref]:
                self.by_ref.pop(ref, None)


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs of all roles, and the number of each rank's role."""

    of_roles: tuple[ExpandedProgram, ...]
    by_rank: tuple[int, ...]

    def of(self, rank: int) -> ExpandedProgram:
        """Return the program of a rank."""
        return self.of_roles[self.by_rank[rank]]


def programs_of(schedule: Schedule) -> Programs:
    """Return the expanded programs of all roles."""
    axis, mesh = axis_of_roles(schedule), schedule.mesh
    numbers = {role.at[1]: number for number, role in enumerate(schedule.roles) if role.at is not None}
    by_rank = tuple(0 if axis is None else numbers[coordinates(mesh, rank)[axis]] for rank in range(mesh.num_ranks))
    return Programs(tuple(expand(schedule, role) for role in schedule.roles), by_rank)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankContext:
    """Context of one rank in a schedule: its program, coordinates, buffers and their layouts; `touched` is the set of
    all tensor instances that its program uses."""

    schedule: Schedule
    program: ExpandedProgram
    layouts: Layouts
    backend: Backend
    rank: int
    at: dict[str, int]
    touched: frozenset[Ref]
    buffers: Buffers

    def operands(self, index: int) -> tuple[tuple[Ref, ...], tuple[Ref, ...], tuple[Ref, ...]]:
        """Return (reads, writes, accumulates) of an op of the program."""
        program = self.program
        return program.reads[index], program.writes[index], program.accumulates[index]

    def arranged(self, line: Array, src: Ref, dst: Ref) -> Array:
        """Rearrange a flat buffer from the layout of tensor instance `src` to that of `dst`."""
        order_of = self.layouts.order_of
        return rearranged(self.backend, line, self.schedule.mesh, order_of(src), order_of(dst), self.at)

    def codec_of(self, ref: Ref) -> Codec:
        """Return the codec of an encoded tensor instance."""
        codec = self.schedule.tensors[ref.name].codec
        assert codec is not None, f"{ref.name} is not encoded"
        return codec

    def put(self, ref: Ref, line: Array) -> None:
        """Write a flat buffer; if it is part of a message of several tensors, write it directly into that message."""
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

    @property
    def roles_axis(self) -> str | None:
        """Mesh axis along which ranks run different programs, None if there is no such axis."""
        return axis_of_roles(self.schedule)

    def is_first(self, axes: Iterable[str]) -> bool:
        """Return whether this rank has coordinate 0 along each of these axes."""
        return not any(self.at[axis] for axis in axes)

    def add(self, ref: Ref, value: Array) -> None:
        """Add to a buffer; the first addition of a step creates it."""
        held = self.buffers.by_ref.get(ref)
        self.buffers[ref] = value if held is None else held + value


def rank_context_of(schedule: Schedule, program: ExpandedProgram, backend: Backend, rank: int) -> RankContext:
    """Return the context of a rank, with empty buffers. Raises InputError if the program has no consistent layout."""
    instances = (refs for every in (program.reads, program.writes, program.accumulates) for refs in every)
    return RankContext(
        schedule=schedule,
        program=program,
        layouts=layouts_of(schedule, program),
        backend=backend,
        rank=rank,
        at=coordinates(schedule.mesh, rank),
        touched=frozenset(chain.from_iterable(instances)),
        buffers=Buffers(schedule, program),
    )
