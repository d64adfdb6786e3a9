"""Every role's program, and whose each rank runs: the ranks of a pipeline's stages have programs of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from simfrontier.core.codecs import Codec
from simfrontier.core.program import Compute, ExpandedProgram, Ref, Schedule, axis_of_roles, expand
from simfrontier_real.ops.arrays import Array, Backend
from simfrontier_real.ops.buffers import Buffers
from simfrontier_real.ops.layout import Layouts, coordinates, rearranged


def _roles_by_rank(schedule: Schedule) -> tuple[int, ...]:
    """The number of each rank's role."""
    axis = axis_of_roles(schedule)
    if axis is None:
        return (0,) * schedule.mesh.num_ranks
    numbers = {role.at[1]: number for number, role in enumerate(schedule.roles) if role.at is not None}
    out = [0] * schedule.mesh.num_ranks
    for along in schedule.mesh.groups((axis,)).tolist():
        for coordinate, rank in enumerate(along):
            out[rank] = numbers[coordinate]
    return tuple(out)


@dataclass(frozen=True, slots=True)
class Programs:
    """The program of every role, and the number of each rank's role."""

    of_roles: tuple[ExpandedProgram, ...]
    by_rank: tuple[int, ...]

    def of(self, rank: int) -> ExpandedProgram:
        """The program of a rank."""
        return self.of_roles[self.by_rank[rank]]


def programs_of(schedule: Schedule) -> Programs:
    """All roles' programs, expanded."""
    return Programs(tuple(expand(schedule, role) for role in schedule.roles), _roles_by_rank(schedule))


@dataclass(frozen=True, slots=True, kw_only=True)
class RankContext:
    """One rank's place in a schedule: its program, its coordinates, its buffers and how they are laid out; `touched`
    are all instances that its program uses."""

    schedule: Schedule
    program: ExpandedProgram
    layouts: Layouts
    backend: Backend
    rank: int
    at: dict[str, int]
    touched: frozenset[Ref]
    buffers: Buffers

    def operands(self, index: int) -> tuple[tuple[Ref, ...], tuple[Ref, ...], tuple[Ref, ...]]:
        """(reads, writes, accumulates) of an op of the program."""
        program = self.program
        return program.reads[index], program.writes[index], program.accumulates[index]

    def arranged(self, line: Array, src: Ref, dst: Ref) -> Array:
        """A line that is laid out as the one instance, laid out as the other."""
        order_of = self.layouts.order_of
        return rearranged(self.backend, line, self.schedule.mesh, order_of(src), order_of(dst), self.at)

    def codec_of(self, ref: Ref) -> Codec:
        """The codec of an instance that is encoded."""
        codec = self.schedule.tensors[ref.name].codec
        assert codec is not None, f"{ref.name} is not encoded"
        return codec

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

    @property
    def roles_axis(self) -> str | None:
        """The axis along which ranks run other programs, if there is one."""
        return axis_of_roles(self.schedule)

    def is_first(self, axes: Iterable[str]) -> bool:
        """Whether this rank is the first along each of these axes."""
        return not any(self.at[axis] for axis in axes)

    def add(self, ref: Ref, value: Array) -> None:
        """Add to a buffer; the first addition of a step makes it."""
        held = self.buffers.by_ref.get(ref)
        self.buffers[ref] = value if held is None else held + value


Kernel = Callable[[RankContext, int, Compute], None]  # (context, index of the op in the program, op)


def rank_context_of(
    schedule: Schedule, program: ExpandedProgram, layouts: Layouts, backend: Backend, rank: int
) -> RankContext:
    """A rank's context, with empty buffers."""
    at = coordinates(schedule.mesh, rank)
    return RankContext(
        schedule=schedule,
        program=program,
        layouts=layouts,
        backend=backend,
        rank=rank,
        at=at,
        touched=frozenset(_touched(program)),
        buffers=Buffers(schedule, program),
    )


def _touched(program: ExpandedProgram) -> Iterator[Ref]:
    for refs in (program.reads, program.writes, program.accumulates):
        for each in refs:
            yield from each
