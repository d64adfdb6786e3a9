"""Order of calls that roles share: equal calls in equal order, and every role runs to its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, groupby
from typing import Generic, TypeVar

from simfrontier.base.errors import InputError
from simfrontier.core.program.expansion import ExpandedProgram, expand
from simfrontier.core.program.finding import Findings, ranks_of, ranks_of_role, ref_text, title_of
from simfrontier.core.program.interpreter import Form
from simfrontier.core.program.ir import HOST, Call, Collective, Compute, Exchange, Op, Ref, Role, Schedule
from simfrontier.core.program.issuer import Issuer
from simfrontier.core.program.roles import CallSequence, members_of, sequence_of


def check_comms(schedule: Schedule, findings: Findings) -> None:
    """A communicator spans one set of axes, and the calls that roles share come in one order, of one kind and size,
    in all of them."""
    span: dict[str, frozenset[str]] = {}
    for role in schedule.roles:
        for call, op in _collectives(role):
            axes = frozenset(op.axes)
            if span.setdefault(op.comm, axes) != axes:
                ranks = ranks_of(op, role, schedule.roles)
                text = f"communicator {op.comm} over {'+'.join(sorted(span[op.comm]))}, as before"
                findings.add("order", title_of(op, call), ranks, text, "+".join(op.axes), key=(op.number, "span"))
    if len(schedule.roles) > 1:
        _same_calls(schedule, findings)


def _collectives(role: Role) -> Iterator[tuple[Call, Collective]]:
    """Each distinct collective of a role with its first call."""
    seen: set[int] = set()
    first: dict[int, Call] = {}
    for call in role.calls:
        first.setdefault(call.block, call)
    for call in first.values():
        for op in call.ops:
            if isinstance(op, Collective) and op.number not in seen:
                seen.add(op.number)
                yield call, op


# ── calls that roles share ──


def _same_calls(schedule: Schedule, findings: Findings) -> None:
    group_calls = members_by_op(schedule)
    shared = [[op for op in block if op.number in group_calls] for block in schedule.blocks]
    members: dict[CallSequence, tuple[int, ...]] = {}
    calls: dict[tuple[CallSequence, int], list[tuple[Op, Call]]] = defaultdict(list)
    for number, role in enumerate(schedule.roles):
        for call in role.calls:
            for op in shared[call.block]:
                sequence, members[sequence] = group_calls[op.number]
                calls[sequence, number].append((op, call))
    for sequence, joined in members.items():
        for other in joined[1:]:
            first, second = calls[sequence, joined[0]], calls[sequence, other]
            _compare(schedule, sequence, joined[0], first, other, second, findings)


def members_by_op(schedule: Schedule) -> dict[int, tuple[CallSequence, tuple[int, ...]]]:
    """For each op (by its number) that roles share: the sequence it is in, and the numbers of the roles."""
    moves = [op for op in schedule.ops if isinstance(op, Collective | Exchange)]
    return {op.number: (sequence_of(op), members) for op in moves if (members := members_of(op, schedule))}


def _compare(
    schedule: Schedule,
    sequence: CallSequence,
    number: int,
    first: list[tuple[Op, Call]],
    other: int,
    second: list[tuple[Op, Call]],
    findings: Findings,
) -> None:
    """Report the first call of two roles that differs, or that the numbers of calls differ."""
    role, other_role = schedule.roles[number], schedule.roles[other]
    where = f"communicator {_name(sequence)}"
    for at, (first_call, other_call) in enumerate(zip(first, second, strict=False)):
        if _are_one(first_call, other_call):
            continue
        wanted, got = _signature(schedule, *first_call), _signature(schedule, *other_call)
        if wanted != got:
            expected = f"call {at} of {where} to be {wanted}, like {title_of(*first_call)} of role {role.name}"
            findings.add(
                "order", title_of(*other_call), ranks_of(other_call[0], other_role, schedule.roles), expected, got
            )
            return
    if len(first) != len(second):
        expected = f"{len(first)} calls, as in role {role.name}"
        findings.add("order", where, ranks_of_role(other_role, schedule.roles), expected, f"{len(second)} calls")


def _are_one(first: tuple[Op, Call], second: tuple[Op, Call]) -> bool:
    """Whether two calls are the same op for the same layer and micro-batch."""
    (op, call), (other, other_call) = first, second
    return op is other and (call.layer, call.micro) == (other_call.layer, other_call.micro)


def _name(sequence: CallSequence) -> str:
    return sequence if isinstance(sequence, str) else f"{sequence[0]} between {sequence[1]} and {sequence[2]}"


def _signature(schedule: Schedule, op: Op, call: Call) -> str:
    """What all ranks of a call must agree on; of an exchange also which instances go where."""
    if isinstance(op, Exchange):
        forth, back = (_carried(schedule, *pair, call) for pair in ((op.src, op.dst), (op.back_src, op.back_dst)))
        parts = [f"{op.ends[0]}→{op.ends[1]}: {forth}"] * bool(forth) + [f"{op.ends[1]}→{op.ends[0]}: {back}"] * bool(
            back
        )
        return f"exchange over {op.axis} of {', '.join(parts)} ({op.codec})"
    assert isinstance(op, Collective)
    return f"{op.kind} over {'+'.join(op.axes)} of {_num_bytes(schedule, op.src)} bytes ({op.codec}, {op.via})"


def _carried(schedule: Schedule, src: tuple[Ref, ...], dst: tuple[Ref, ...], call: Call) -> str:
    """What an exchange carries in one direction: `x of layer 4, micro-batch 1 (1024 bytes)`."""
    carried = []
    for a, b in zip(src, dst, strict=False):
        sent, got = _text(schedule, a, call), _text(schedule, b, call)
        carried.append((sent if sent == got else f"{sent} to {got}") + f" ({_num_bytes(schedule, (a,))} bytes)")
    return ", ".join(carried)


def _text(schedule: Schedule, ref: Ref, call: Call) -> str:
    tensor = schedule.tensors[ref.name]
    here = Ref(ref.name, ref.layer + call.layer, ref.micro + call.micro)
    return ref_text(here, tensor.per_layer, tensor.per_micro)


def _num_bytes(schedule: Schedule, refs: tuple[Ref, ...]) -> int:
    try:
        return sum(schedule.tensors[ref.name].local_bytes(schedule.mesh) for ref in refs)
    except InputError:
        return 0  # reported elsewhere


Brought = TypeVar("Brought")


class SharedCalls(Generic[Brought]):
    """Of each sequence of calls, call by call, what every role that has reached it has brought."""

    def __init__(self) -> None:
        self.calls: dict[CallSequence, list[dict[int, Brought]]] = defaultdict(list)
        self.num_reached: dict[tuple[CallSequence, int], int] = defaultdict(int)

    def join(self, sequence: CallSequence, role: int, brought: Brought) -> dict[int, Brought]:
        """Record that a role reaches its next call of a sequence. Returns what all have brought to that call so far."""
        call = self.num_reached[sequence, role]
        self.num_reached[sequence, role] += 1
        calls = self.calls[sequence]
        if call == len(calls):
            calls.append({})
        calls[call][role] = brought
        return calls[call]


class SentValues(SharedCalls[tuple[Form, ...]]):
    """The values that roles send at the calls that they share."""

    is_closed = False  # calls that do not match never complete: the order rules report them

    def run(self, walks: list[Iterator[None]]) -> None:
        """Walk all roles to their ends, each as far as it can go; a walk yields where it waits for another role."""
        while walks:
            before = self._num_sent()
            left = [walk for walk in walks if next(walk, self) is not self]
            self.is_closed = len(left) == len(walks) and self._num_sent() == before
            walks = left

    def _num_sent(self) -> int:
        return sum(self.num_reached.values())


LANE = "compute"


def check_progress(schedule: Schedule, findings: Findings) -> None:
    """Run all roles without a clock: a call that roles share is done when all of them have started it.

    The issuing rule is monotone, so one such run that ends proves that no timing can block the schedule. An op waits
    for ops that are issued before it, so a role by itself always ends; and so do roles of which even a run with fewer
    and larger ops ends, which waits for more.
    """
    if len(schedule.roles) == 1:
        return
    joined = _joined(schedule)
    if joined is not None and _Run(schedule, joined).ends():
        return
    run = _Run(schedule, [expand(schedule, role) for role in schedule.roles])
    if not run.ends():
        run.report(findings)


# ── fewer and larger ops ──


def _joined(schedule: Schedule) -> list[ExpandedProgram] | None:
    """The programs of all roles with one op for all neighbours in a call that no role shares, which waits for all that
    one of them waits for, and runs on one lane with all others; None where the host or a pool holds ops up."""
    shared = members_by_op(schedule)
    lanes = {op.lane for op in schedule.ops if op.number in shared} - {LANE}
    sequences = {sequence for sequence, _ in shared.values()}
    kept = {op.number for op in schedule.ops if op.number in shared or op.lane in lanes}
    names = {ref.name for op in schedule.ops if op.number in kept for ref in _touched(op)}
    if any(schedule.tensors[name].pool is not None for name in names):
        return None
    for op in schedule.ops:
        if op.lane == HOST or getattr(op, "blocking", False):
            return None
        if not isinstance(op, Compute) and op.number not in kept and sequence_of(op) in sequences:
            return None
    numbers = count(len(schedule.ops))
    blocks: list[tuple[Op, ...]] = []
    for block in schedule.blocks:
        ops: list[Op] = []
        for is_kept, group in groupby(block, lambda op: op.number in kept):
            neighbours = list(group)
            ops += neighbours if is_kept else _join(neighbours, names, next(numbers))
        blocks.append(tuple(ops))
    return [expand(schedule, _with_blocks(role, blocks)) for role in schedule.roles]


def _join(ops: list[Op], names: set[str], number: int) -> list[Op]:
    """One op that touches what some ops touch of the tensors in `names`; none where they touch none of them."""

    def of(refs: Iterable[Ref]) -> tuple[Ref, ...]:
        return tuple(dict.fromkeys(ref for ref in refs if ref.name in names))

    reads = of(ref for op in ops for ref in op.reads)
    changed = of(ref for op in ops for ref in (*op.writes, *op.accumulates))
    joined = Compute(kind="joined", name="joined", reads=reads, writes=changed, number=number)
    return [joined] if reads or changed else []


def _touched(op: Op) -> tuple[Ref, ...]:
    return (*op.reads, *op.writes, *op.accumulates)


def _with_blocks(role: Role, blocks: Sequence[tuple[Op, ...]]) -> Role:
    calls = tuple([Call(call.label, call.layer, call.micro, blocks[call.block], call.block) for call in role.calls])
    return Role(role.name, calls, role.at)


# ── the run ──


class _Run:
    def __init__(self, schedule: Schedule, programs: Sequence[ExpandedProgram]) -> None:
        self.roles, self.programs = schedule.roles, programs
        self.issuers = [Issuer(program) for program in programs]
        self.group_calls = members_by_op(schedule)
        self.begun = SharedCalls[int]()  # with the op of each role that has started

    def ends(self) -> bool:
        """Run as far as all roles can go; whether that is to their ends."""
        moved = True
        while moved:
            moved = False
            for number, issuer in enumerate(self.issuers):
                while started := issuer.startable():
                    moved = True
                    for index in started:
                        self._start(number, index)
        return all(issuer.is_finished for issuer in self.issuers)

    def report(self, findings: Findings) -> None:
        """What the roles wait for that have not come to their ends."""
        for number, issuer in enumerate(self.issuers):
            if not issuer.is_finished:
                self._stuck(number, findings)

    def _start(self, number: int, index: int) -> None:
        group_call = self.group_calls.get(self.programs[number].ops[index].number)
        if group_call is None:
            self.issuers[number].finish(index)
            return
        sequence, members = group_call
        begun = self.begun.join(sequence, number, index)
        if len(begun) == len(members):
            for other, waiting in begun.items():
                self.issuers[other].finish(waiting)

    def _stuck(self, number: int, findings: Findings) -> None:
        program = self.programs[number]
        who = ranks_of_role(self.roles[number], self.roles)
        for index, lacking in self.issuers[number].blocked():
            title = title_of(program.ops[index], program.calls[index])
            needs = ", ".join(f"{need} ops done on lane {lane} (so far {done})" for lane, done, need in lacking)
            findings.add("order", title, who, "a run to the end", f"blocked: it waits for {needs}")
        for index, absent in self._waiting(number):
            title = title_of(program.ops[index], program.calls[index])
            names = ", ".join(self._absent(other) for other in absent)
            findings.add("order", title, who, "a run to the end", f"blocked: role {names} does not join it")

    def _waiting(self, number: int) -> Iterator[tuple[int, list[int]]]:
        """The ops of a role that have started and wait for others: (op, the roles that have not joined it)."""
        for calls in self.begun.calls.values():
            for here in calls:
                if number in here:
                    absent = [other for other in self._joining(here[number], number) if other not in here]
                    if absent:
                        yield here[number], absent

    def _joining(self, index: int, number: int) -> tuple[int, ...]:
        return self.group_calls[self.programs[number].ops[index].number][1]

    def _absent(self, number: int) -> str:
        """A role that has not joined a call, with the op it is at."""
        name = self.roles[number].name
        program = self.programs[number]
        if self.issuers[number].is_finished:
            return f"{name} (at its end)"
        index = next((index for index, _ in self._waiting(number)), None)
        return name if index is None else f"{name} (in {title_of(program.ops[index], program.calls[index])})"
