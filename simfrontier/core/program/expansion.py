"""Expansion of a role's program: all its calls as one flat list of ops with absolute tensor references, and the
dependencies of each op.

Dependencies are derived from reads, writes and accumulates, never written by hand. As every lane is a FIFO queue, the
dependencies of an op are stored as the number of ops of each lane that must be done.
"""

from __future__ import annotations

import gc
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

from simfrontier.base.errors import InputError, nearest
from simfrontier.core.program.ir import HOST, Call, Compute, Exchange, Op, Ref, Role, Schedule, Tensor
from simfrontier.core.program.roles import CallSequence, sequence_of

Lifetime = tuple[Ref, int, int]  # (instance, op that writes it first, op that touches it last)
Wait = tuple[int, int]  # (lane, number of its ops that must be done)


@dataclass(frozen=True, kw_only=True)
class UnrolledProgram:
    """The program of one role as a flat list of ops with absolute tensor references. The fields are parallel lists over
    the ops, in issue order.

    `reads` and `writes` of an exchange are those of the end that this role is at. `at` is the (axis, coordinate) of the
    role.
    """

    ops: list[Op]
    calls: list[Call]
    reads: list[tuple[Ref, ...]]
    writes: list[tuple[Ref, ...]]
    accumulates: list[tuple[Ref, ...]]
    at: tuple[str, int] | None = None

    @property
    def num_ops(self) -> int:
        return len(self.ops)

    @cached_property
    def lifetimes(self) -> list[Lifetime]:
        """The lifetime of every tensor instance that the program uses, as (instance, index of first op, index of last
        op), in order of first use.

        An instance that no op writes before it is used (a weight, an optimizer state) is listed from its first use.
        """
        first: dict[Ref, int] = {}
        last: dict[Ref, int] = {}
        for index, operands in enumerate(zip(self.reads, self.writes, self.accumulates, strict=True)):
            for refs in operands:
                for ref in refs:
                    if ref not in first:
                        first[ref] = index
                    last[ref] = index
        return [(ref, index, last[ref]) for ref, index in first.items()]


@dataclass(frozen=True, kw_only=True)
class ExpandedProgram(UnrolledProgram):
    """The program of one role with the dependencies of its ops. Op i is number `position[i]` on lane `lane[i]`; it
    starts after the op before it on this lane and after `waits[i]`, pairs of (lane, number of ops of that lane that
    must be done)."""

    lanes: tuple[str, ...]
    lane: list[int]
    position: list[int]
    waits: list[tuple[Wait, ...]]

    @cached_property
    def by_lane(self) -> list[list[int]]:
        """The indices of the ops on each lane, in issue order."""
        out: list[list[int]] = [[] for _ in self.lanes]
        for index, lane in enumerate(self.lane):
            out[lane].append(index)
        return out

    @cached_property
    def lane_lengths(self) -> list[int]:
        """The number of ops on each lane."""
        return [len(ops) for ops in self.by_lane]

    @cached_property
    def before(self) -> list[list[int]]:
        """The indices of the ops that each op waits for, including the previous op on its own lane; all of them are
        issued earlier."""
        by_lane = self.by_lane
        out = []
        for lane, position, waits in zip(self.lane, self.position, self.waits, strict=True):
            mine = [by_lane[lane][position - 1]] if position else []
            out.append(mine + [by_lane[other][count - 1] for other, count in waits])
        return out

    def with_ops(self, ops: list[Op], calls: list[Call]) -> ExpandedProgram:
        """Return a program in which each op is replaced by another one (for example by the same op for another mesh
        size), with the same order and the same dependencies."""
        made = replace(self, ops=ops, calls=calls)
        made.__dict__.update({name: getattr(self, name) for name in ("by_lane", "before", "lifetimes")})
        return made


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Context manager that suspends Python's cyclic garbage collector, which would take half of the time while millions
    of long-lived tuples are created."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@without_garbage_collection()
def unrolled(schedule: Schedule, role: Role) -> UnrolledProgram:
    """Return the program of a role as a flat list of ops, without dependencies. Raises InputError for a reference to an
    undeclared tensor."""
    out = UnrolledProgram(ops=[], calls=[], reads=[], writes=[], accumulates=[], at=role.at)
    refs = AbsoluteRefs(schedule.tensors, role)
    for call, op in role.instances():
        out.ops.append(op)
        out.calls.append(call)
        reads, writes, accumulates = refs.absolute(op, call)
        out.reads.append(reads)
        out.writes.append(writes)
        out.accumulates.append(accumulates)
    return out


@without_garbage_collection()
def expand(schedule: Schedule, role: Role) -> ExpandedProgram:
    """Return the program of a role as a flat list of ops, with dependencies. Raises InputError for a reference to an
    undeclared tensor."""
    program = unrolled(schedule, role)
    lanes = tuple(dict.fromkeys(op.lane for op in program.ops))
    number = {lane: i for i, lane in enumerate(lanes)}
    lane = [number[op.lane] for op in program.ops]
    position, count = [], [0] * len(lanes)
    for own_lane in lane:
        position.append(count[own_lane])
        count[own_lane] += 1
    out = ExpandedProgram(**vars(program), lanes=lanes, lane=lane, position=position, waits=[])
    out.waits.extend(_waits(out, schedule))
    return out


class AbsoluteRefs:
    """Converts the relative tensor references of a role's ops to absolute references. The properties of the tensors are
    looked up only once per op."""

    def __init__(self, tensors: Mapping[str, Tensor], role: Role) -> None:
        self.tensors = tensors
        self.role = role
        self.known: dict[int, tuple[list[tuple[str, int, int, bool, bool]], ...]] = {}

    def absolute(self, op: Op, call: Call) -> tuple[tuple[Ref, ...], tuple[Ref, ...], tuple[Ref, ...]]:
        forms = self.known.get(op.number)
        if forms is None:
            assert op.number >= 0, f"{op.name}: an op of no schedule"
            forms = self.known[op.number] = tuple(self._form(refs, op) for refs in self.relative(op))
        layer, micro = call.layer, call.micro
        made: type = Ref
        new = tuple.__new__  # called directly, as Ref(...) is slower and there are millions of them
        r, w, a = [
            tuple([new(made, (n, dl + layer if pl else 0, dm + micro if pm else 0)) for n, dl, dm, pl, pm in form])
            if form
            else ()
            for form in forms
        ]
        return r, w, a

    def relative(self, op: Op) -> tuple[tuple[Ref, ...], ...]:
        """Return the (reads, writes, accumulates) of an op as relative references; for an exchange, only those of the
        end that this role is at."""
        if not isinstance(op, Exchange):
            return op.reads, op.writes, op.accumulates
        assert self.role.at is not None, f"{op.name}: an exchange in role {self.role.name}, which is at no place"
        return *op.at(self.role.at[1]), ()

    def _form(self, refs: tuple[Ref, ...], op: Op) -> list[tuple[str, int, int, bool, bool]]:
        out = []
        for ref in refs:
            tensor = self.tensors.get(ref.name)
            if tensor is None:
                raise InputError(
                    f"schedule: op {op.kind} {op.name} uses tensor {ref.name!r}, which is not declared; "
                    f"{nearest(ref.name, self.tensors)}"
                )
            out.append((ref.name, ref.layer, ref.micro, tensor.per_layer, tensor.per_micro))
        return out


def _waits(program: ExpandedProgram, schedule: Schedule) -> list[tuple[Wait, ...]]:
    """Return the dependencies of each op: read and write hazards on tensor instances, the issue order within its
    communicator (for exchanges, between the same two ends), host ops and blocking calls issued before it, and free
    space in a pool."""
    num_lanes = len(program.lanes)
    host = program.lanes.index(HOST) if HOST in program.lanes else -1
    touched: dict[Ref, list[Wait]] = {}  # per instance its last writer, then the readers since
    cells = _Cells(schedule.tensors, touched) if any(op.piece is not None for op in schedule.ops) else None
    in_sequence: dict[CallSequence, Wait] = {}
    pools = _Pools(program, schedule)
    held_by_host: list[Wait] = []
    nobody = (0, 0)
    out = []
    for index, op in enumerate(program.ops):
        own_lane = program.lane[index]
        done = (own_lane, program.position[index] + 1)
        need = [0] * num_lanes
        for ref in program.reads[index] if cells is None else cells.touch(op, program.reads[index], need, done, False):
            touches = touched.get(ref)
            if touches is None:
                touched[ref] = [nobody, done]
                continue
            lane, count = touches[0]
            if count > need[lane]:
                need[lane] = count
            touches.append(done)
        for changed in (program.writes[index], program.accumulates[index]):
            for ref in changed if cells is None else cells.touch(op, changed, need, done, True):
                for lane, count in touched.get(ref, ()):
                    if count > need[lane]:
                        need[lane] = count
                touched[ref] = [done]
        if not isinstance(op, Compute):
            sequence = sequence_of(op)
            if sequence in in_sequence:
                held_lane, count = in_sequence[sequence]
                need[held_lane] = max(need[held_lane], count)
            in_sequence[sequence] = done
        for lane, count in held_by_host:
            if count > need[lane]:
                need[lane] = count
        for lane, count in pools.room(index) if pools.pooled else ():
            if count > need[lane]:
                need[lane] = count
        need[own_lane] = 0
        out.append(tuple([(lane, count) for lane, count in enumerate(need) if count]))
        if own_lane == host or getattr(op, "blocking", False):
            held_by_host = [wait for wait in held_by_host if wait[0] != own_lane] + [done]
    return out


class _Cells:
    """Last accesses to the pieces of tensor instances, so that a read of one piece waits for the writer of that piece
    only."""

    def __init__(self, tensors: Mapping[str, Tensor], touched: dict[Ref, list[Wait]]) -> None:
        self.tensors = tensors
        self.touched = touched
        self.cut: dict[Ref, list[list[Wait]]] = {}  # as `touched`, per piece of an instance

    def touch(self, op: Op, refs: tuple[Ref, ...], need: list[int], done: Wait, changes: bool) -> list[Ref]:
        """Record that an op accesses pieces of tensor instances (`changes`: it writes them), and raise `need`, the
        number of ops to wait for on each lane. Return the references to instances that are not divided into pieces."""
        whole = []
        for ref in refs:
            cells = self._cells(op, ref)
            if cells is None:
                whole.append(ref)
            for cell in cells or ():
                for lane, count in cell if changes else cell[:1]:
                    need[lane] = max(need[lane], count)
                cell[:] = [done] if changes else [*cell, done]
        return whole

    def _cells(self, op: Op, ref: Ref) -> list[list[Wait]] | None:
        """Return the accesses to the pieces of a tensor instance that an op uses; None if the instance is not divided
        into pieces."""
        cells, piece = self.cut.get(ref), op.piece
        if piece is None or piece.share_of(self.tensors[ref.name]) == 1:
            return cells
        if cells is None or len(cells) != piece.parts:
            before = self.touched.pop(ref, [(0, 0)]) if cells is None else [wait for cell in cells for wait in cell]
            cells = self.cut[ref] = [list(before) for _ in range(piece.parts)]
        return [cells[piece.number]]


class _Pools:
    """Allocation of buffers from the schedule's memory pools: a buffer that does not fit waits for the last use of
    earlier buffers."""

    def __init__(self, program: ExpandedProgram, schedule: Schedule) -> None:
        self.capacity = dict(schedule.pools)
        self.used: dict[str, int] = defaultdict(int)
        self.program = program
        self.pooled = {t.name: (t.pool, t.num_elements) for t in schedule.tensors.values() if t.pool is not None}
        self.last: dict[Ref, int] = {}
        for index, reads in enumerate(program.reads if self.pooled else ()):
            for ref in reads:
                if ref.name in self.pooled:
                    self.last[ref] = index
        self.gone_at: dict[int, list[Ref]] = defaultdict(list)
        for ref, index in self.last.items():
            self.gone_at[index].append(ref)
        self.gone: dict[str, deque[Ref]] = defaultdict(deque)

    def room(self, index: int) -> list[Wait]:
        """Allocate the buffers that op `index` writes from their pools, and return the ops that it must wait for until
        the buffers fit."""
        waits: list[Wait] = []
        for ref in self.program.writes[index]:
            if ref.name in self.pooled:
                pool, elements = self.pooled[ref.name]
                assert pool is not None
                self.used[pool] += elements
                while self.used[pool] > self.capacity[pool] and self.gone[pool]:
                    old = self.gone[pool].popleft()
                    self.used[pool] -= self.pooled[old.name][1]
                    last = self.last[old]
                    waits.append((self.program.lane[last], self.program.position[last] + 1))
        for ref in self.gone_at.pop(index, ()):
            pool = self.pooled[ref.name][0]
            assert pool is not None
            self.gone[pool].append(ref)
        return waits
