"""Equivalent micro-batches: if several micro-batches run the same ops, it suffices to check one of them.

Micro-batches interact only through shared tensors (tensors that do not exist once per micro-batch): they read weights,
and add to sums in any order. Two micro-batches are equivalent if, in every role, they run the same ops in the same
order on their own tensors, between the same changes of shared tensors. A shared tensor changes when it is written; an
accumulator also counts as changed when it is read. Equivalent micro-batches have the same values, add the same
contributions, and show the same faults.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from simfrontier.core.program.expansion import AbsoluteRefs, UnrolledProgram
from simfrontier.core.program.ir import Collective, Compute, Exchange, Op, Ref, Role, Schedule, Tensor
from simfrontier.core.program.kinds import is_copy, is_wait
from simfrontier.core.program.roles import sequence_of

WORTH_IT = 3  # micro-batches of a step, the first of which often differs from the others


@dataclass(frozen=True, slots=True)
class OneOfEachKind:
    """The programs of all roles, reduced to one representative of each set of equivalent micro-batches. `num_micro` is
    the number of these representatives."""

    num_micro: int
    programs: list[UnrolledProgram]


def one_of_each_kind(schedule: Schedule) -> OneOfEachKind | None:
    """Return the programs of all roles, reduced to one representative of each set of equivalent micro-batches. Return
    None if no two micro-batches are equivalent, if the step has few micro-batches, or if an op cannot be divided among
    micro-batches."""
    num_micro = schedule.meta.get("grad_accum")
    if not isinstance(num_micro, int) or num_micro < WORTH_IT:
        return None
    numbers: dict[Hashable, int] = {}
    splits = [_CallSplitter(schedule, role, numbers) for role in schedule.roles]
    try:
        runs = [split.by_micro_batch() for split in splits]
    except _SeveralMicroBatches:
        return None
    if set().union(*runs) != set(range(num_micro)):
        return None
    kinds: dict[Hashable, int] = {}
    for micro in range(num_micro):
        kinds.setdefault(tuple([tuple(run.get(micro, ())) for run in runs]), micro)
    if len(kinds) == num_micro:
        return None
    chosen = frozenset(kinds.values())
    return OneOfEachKind(len(chosen), [split.unrolled(chosen) for split in splits])


class _SeveralMicroBatches(Exception):
    """Raised if an op has tensors of several micro-batches and cannot be divided among these micro-batches."""


@dataclass(frozen=True, slots=True)
class _Block:
    """The ops of a block, divided by micro-batch; micro-batch numbers are relative to the micro-batch of the call.
    `work`: (micro-batch, number that identifies the work done for this micro-batch). `is_change`: True if the block
    changes shared tensors."""

    ops: tuple[tuple[int, Op], ...]
    work: tuple[tuple[int, int], ...]
    is_change: bool


class _CallSplitter:
    """Divides the calls of a role among micro-batches. `numbers` assigns a number to each piece of work; equal work has
    equal numbers."""

    def __init__(self, schedule: Schedule, role: Role, numbers: dict[Hashable, int]) -> None:
        self.tensors, self.role, self.numbers = schedule.tensors, role, numbers
        self.refs = AbsoluteRefs(schedule.tensors, role)
        ops = {op.number: op for block in {call.block: call.ops for call in role.calls}.values() for op in block}
        self.sums = {ref.name for op in ops.values() for ref in op.accumulates if not self.tensors[ref.name].per_micro}
        self.known: dict[int, _Block] = {}
        self.parts: dict[int, list[tuple[int, Op, int]]] = {}  # by the number of an op
        self.new_numbers = count(len(schedule.ops))

    def by_micro_batch(self) -> dict[int, list[tuple[int, int, int]]]:
        """Return the calls of each micro-batch in order, each as (number that identifies the work, layer, number of
        changes of shared tensors so far). Raises _SeveralMicroBatches."""
        out: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        changes = 0
        for call in self.role.calls:
            block = self.known.get(call.block)
            if block is None:
                block = self.known[call.block] = self._block(call.ops)
            changes += block.is_change
            for micro, number in block.work:
                out[call.micro + micro].append((number, call.layer, changes))
        return out

    def unrolled(self, chosen: frozenset[int]) -> UnrolledProgram:
        """Return the role's program with the ops of the chosen micro-batches only."""
        out = UnrolledProgram(ops=[], calls=[], reads=[], writes=[], accumulates=[], at=self.role.at)
        for call in self.role.calls:
            for micro, op in self.known[call.block].ops:
                if call.micro + micro in chosen:
                    reads, writes, accumulates = self.refs.absolute(op, call)
                    out.ops.append(op)
                    out.calls.append(call)
                    out.reads.append(reads)
                    out.writes.append(writes)
                    out.accumulates.append(accumulates)
        return out

    def _block(self, ops: tuple[Op, ...]) -> _Block:
        parts = [part for op in ops for part in self._parts(op)]
        work: defaultdict[int, list[int]] = defaultdict(list)
        for micro, _, number in parts:
            work[micro].append(number)
        numbers = tuple([(micro, self._number(tuple(each))) for micro, each in work.items()])
        return _Block(tuple([(micro, op) for micro, op, _ in parts]), numbers, any(map(self._changes_shared, ops)))

    def _number(self, work: Hashable) -> int:
        return self.numbers.setdefault(work, len(self.numbers))

    def _changes_shared(self, op: Op) -> bool:
        reads, writes, _ = self.refs.relative(op)
        shared = [ref.name for ref in writes if not self.tensors[ref.name].per_micro]
        return bool(shared) or not self.sums.isdisjoint(ref.name for ref in reads)

    # ── ops of several micro-batches ──

    def _parts(self, op: Op) -> list[tuple[int, Op, int]]:
        """Divide an op by micro-batch. Return (micro-batch relative to the call, the op with the operands of this
        micro-batch, number that identifies its work) for each micro-batch. An op that uses only shared tensors belongs
        to the micro-batch of the call."""
        if op.number not in self.parts:
            self.parts[op.number] = [
                (micro, part, self._number(self._work(part, micro))) for micro, part in self._divided(op)
            ]
        return self.parts[op.number]

    def _divided(self, op: Op) -> list[tuple[int, Op]]:
        strands: defaultdict[int, list[Operand]] = defaultdict(list)
        for strand in _strands(op, self.tensors):
            micros = {ref.micro for _, ref in strand if self.tensors[ref.name].per_micro} or {0}
            if len(micros) > 1:
                raise _SeveralMicroBatches
            strands[micros.pop()] += strand
        if set(strands) - {0} and not self._may_be_of_others(op):
            raise _SeveralMicroBatches
        if len(strands) < 2:
            return [(micro, op) for micro in strands or (0,)]
        return [(micro, _with_operands(op, each, next(self.new_numbers))) for micro, each in strands.items()]

    def _may_be_of_others(self, op: Op) -> bool:
        """Return whether an op may belong to another micro-batch than its call. Only data movement and waits may,
        because gradients are computed, and states updated, in the micro-batch of the call."""
        is_state = any(self.tensors[ref.name].role == "state" for refs in self.refs.relative(op) for ref in refs)
        return not is_state and (not isinstance(op, Compute) or _moves(op))

    def _work(self, op: Op, micro: int) -> Hashable:
        """Return a key that identifies the work of an op for a micro-batch; its tensor references are relative to that
        micro-batch."""
        sides = tuple([tuple([self._counted_from(ref, micro) for ref in refs]) for refs in self.refs.relative(op)])
        if isinstance(op, Exchange):
            return op.kind, op.axis, sequence_of(op), sides
        return _with_operands(op, [], 0), sides

    def _counted_from(self, ref: Ref, micro: int) -> Ref:
        return Ref(ref.name, ref.layer, ref.micro - micro if self.tensors[ref.name].per_micro else 0)


Operand = tuple[str, Ref]  # the field of an op, and what stands in it
MOVES = {Compute: (("reads", "writes", "accumulates"),), Collective: (("src", "dst"),)}
BOTH_WAYS = (("src", "dst"), ("back_src", "back_dst"))


def _moves(op: Op) -> bool:
    """Return whether an op only moves data or waits, without computing anything."""
    return is_copy(op) or is_wait(op)


def _strands(op: Op, tensors: Mapping[str, Tensor]) -> list[list[Operand]]:
    """Group the operands of an op by data dependence: if the op moves tensors, each (source, target) pair is a group;
    otherwise, all operands are one group. A token forms a group of its own."""
    out: list[list[Operand]] = []
    for names in MOVES.get(type(op), BOTH_WAYS):
        operands: dict[str, tuple[Ref, ...]] = {name: getattr(op, name) for name in names}
        tokens = [[(name, ref)] for name, refs in operands.items() for ref in refs if tensors[ref.name].role == "token"]
        sides = [
            (name, others)
            for name, refs in operands.items()
            if (others := [ref for ref in refs if tensors[ref.name].role != "token"])
        ]
        if (isinstance(op, Compute) and not _moves(op)) or len({len(refs) for _, refs in sides}) > 1:
            out.append([(name, ref) for name, refs in operands.items() for ref in refs])
            continue
        rows = zip(*(refs for _, refs in sides), strict=True)
        out += [[(name, ref) for (name, _), ref in zip(sides, row, strict=True)] for row in rows]
        out += tokens
    if not isinstance(op, Compute) and op.token is not None:
        out.append([("token", op.token)])
    return out


def _with_operands(op: Op, operands: Sequence[Operand], number: int) -> Op:
    """Return a copy of an op that has only these (field, operand) pairs; all other fields are unchanged."""

    def of(field: str) -> tuple[Ref, ...]:
        return tuple([ref for name, ref in operands if name == field])

    if isinstance(op, Compute):
        return replace(op, reads=of("reads"), writes=of("writes"), accumulates=of("accumulates"), number=number)
    token = next(iter(of("token")), None)
    if isinstance(op, Collective):
        return replace(op, src=of("src"), dst=of("dst"), token=token, number=number)
    back_src, back_dst = of("back_src"), of("back_dst")
    return replace(op, src=of("src"), dst=of("dst"), back_src=back_src, back_dst=back_dst, token=token, number=number)
