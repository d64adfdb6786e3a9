"""Order of the collectives and exchanges that several roles share: all roles issue the same calls in the same order,
and every role runs to its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from simfrontier.core.program.expansion import ExpandedProgram, expand
from simfrontier.core.program.finding import Findings, ranks_of, ranks_of_role, ref_text, short_title, title_of
from simfrontier.core.program.ir import Call, Collective, Exchange, Op, Ref, Role, Schedule
from simfrontier.core.program.issuer import Issuer
from simfrontier.core.program.roles import CallSequence, members_of, sequence_of
from simfrontier.core.program.segments import SegmentedProgram, segmented_roles

OpCall = tuple[Op, Call]


def check_comms(schedule: Schedule, findings: Findings) -> None:
    """Check that each communicator spans one set of axes, and that all roles issue the collectives and exchanges they
    share in the same order, with the same kinds and sizes."""
    span: dict[str, frozenset[str]] = {}
    for op in schedule.ops:
        if isinstance(op, Collective) and span.setdefault(op.comm, frozenset(op.axes)) != frozenset(op.axes):
            text = f"communicator {op.comm} over {'+'.join(sorted(span[op.comm]))}, as before"
            findings.add("order", short_title(op), "all ranks", text, "+".join(op.axes))
    if len(schedule.roles) > 1:
        _same_calls(schedule, findings)


# ── calls that roles share ──


def _same_calls(schedule: Schedule, findings: Findings) -> None:
    group_calls = members_by_op(schedule)
    shared = [[op for op in block if op.number in group_calls] for block in schedule.blocks]
    members: dict[CallSequence, tuple[int, ...]] = {}
    calls: dict[tuple[CallSequence, int], list[OpCall]] = defaultdict(list)
    for number, role in enumerate(schedule.roles):
        for call in role.calls:
            for op in shared[call.block]:
                sequence, members[sequence] = group_calls[op.number]
                calls[sequence, number].append((op, call))
    for sequence, (first, *others) in members.items():
        for other in others:
            roles = schedule.roles[first], schedule.roles[other]
            _compare(schedule, sequence, roles, (calls[sequence, first], calls[sequence, other]), findings)


def members_by_op(schedule: Schedule) -> dict[int, tuple[CallSequence, tuple[int, ...]]]:
    """Return for each collective or exchange shared by several roles (by op number) its call sequence, and the numbers
    of these roles."""
    moves = [op for op in schedule.ops if isinstance(op, Collective | Exchange)]
    return {op.number: (sequence_of(op), members) for op in moves if (members := members_of(op, schedule))}


def _compare(
    schedule: Schedule,
    sequence: CallSequence,
    roles: tuple[Role, Role],
    calls: tuple[list[OpCall], list[OpCall]],
    findings: Findings,
) -> None:
    """Report the first shared call in which two roles differ, or that they issue different numbers of calls."""
    name = sequence if isinstance(sequence, str) else f"{sequence[0]} between {sequence[1]} and {sequence[2]}"
    where, like = f"communicator {name}", f"role {roles[0].name}"
    for at, (first, (op, call)) in enumerate(zip(*calls, strict=False)):
        if first[0] is op and (first[1].layer, first[1].micro) == (call.layer, call.micro):
            continue
        wanted, got = _signature(schedule, *first), _signature(schedule, op, call)
        if wanted != got:
            expected = f"call {at} of {where} to be {wanted}, like {title_of(*first)} of {like}"
            findings.add("order", title_of(op, call), ranks_of(op, roles[1], schedule.roles), expected, got)
            return
    numbers = [len(each) for each in calls]
    if numbers[0] != numbers[1]:
        ranks = ranks_of_role(roles[1], schedule.roles)
        findings.add("order", where, ranks, f"{numbers[0]} calls, as in {like}", f"{numbers[1]} calls")


def _signature(schedule: Schedule, op: Op, call: Call) -> str:
    """Return as text the properties of a collective or exchange on which all participating ranks must agree; for an
    exchange, this includes the tensor instances sent."""
    num_bytes = sum(schedule.tensors[ref.name].local_bytes(schedule.mesh) for ref in op.reads)
    if isinstance(op, Collective):
        return f"{op.kind} over {'+'.join(op.axes)} of {num_bytes} bytes ({op.codec}, {op.via})"
    assert isinstance(op, Exchange)
    src, dst, back_src, back_dst = (
        ", ".join(_text(schedule, ref, call) for ref in refs) or "nothing"
        for refs in (op.src, op.dst, op.back_src, op.back_dst)
    )
    forth = f"{op.ends[0]}→{op.ends[1]}: {src} to {dst}, back {back_src} to {back_dst}"
    return f"exchange over {op.axis} of {num_bytes} bytes, {forth} ({op.codec})"


def _text(schedule: Schedule, ref: Ref, call: Call) -> str:
    tensor = schedule.tensors[ref.name]
    here = Ref(ref.name, ref.layer + call.layer, ref.micro + call.micro)
    return ref_text(here, tensor.per_layer, tensor.per_micro)


Brought = TypeVar("Brought")


class SharedCalls(Generic[Brought]):
    """Record of the collectives and exchanges that several roles share: for each call of each sequence, what every role
    that has reached the call contributes to it."""

    def __init__(self) -> None:
        self.calls: dict[CallSequence, list[dict[int, Brought]]] = defaultdict(list)
        self.num_joined = 0
        self._num_reached: dict[tuple[CallSequence, int], int] = defaultdict(int)

    def join(self, sequence: CallSequence, role: int, brought: Brought) -> dict[int, Brought]:
        """Record that a role reaches its next call of a sequence, with its contribution `brought`. Return the
        contributions to that call so far, by role number."""
        call = self._num_reached[sequence, role]
        self._num_reached[sequence, role] += 1
        self.num_joined += 1
        calls = self.calls[sequence]
        if call == len(calls):
            calls.append({})
        calls[call][role] = brought
        return calls[call]


# ── the run ──


def check_progress(schedule: Schedule, findings: Findings) -> tuple[SegmentedProgram, ...]:
    """Run the programs of all roles without a clock to detect deadlocks; a collective or exchange shared by several
    roles is done when all of them have started it. Return the programs in segments; empty for a single role.

    The issue rule is monotone, so one complete run proves that the schedule cannot deadlock under any timing. An op
    waits only for ops issued before it, so a single role always finishes. The run uses segments, which behave like
    their ops; only a blocked run is repeated op by op, to name the ops that block it.
    """
    if len(schedule.roles) == 1:
        return ()
    parts = segmented_roles(schedule)
    if not _Run(schedule, [part.program for part in parts]).ends():
        run = _Run(schedule, [expand(schedule, role) for role in schedule.roles])
        if not run.ends():
            run.report(findings)
    return parts


class _Run:
    def __init__(self, schedule: Schedule, programs: Sequence[ExpandedProgram]) -> None:
        self.roles, self.programs = schedule.roles, programs
        self.issuers = [Issuer(program) for program in programs]
        self.group_calls = members_by_op(schedule)
        self.begun = SharedCalls[int]()  # with the op of each role that has started

    def ends(self) -> bool:
        """Run until no role can proceed. Return whether all roles have finished."""
        moved = True
        while moved:
            moved = False
            for number, issuer in enumerate(self.issuers):
                while started := issuer.startable():
                    moved = True
                    for index in started:
                        self._start(number, index)
        return all(issuer.is_finished for issuer in self.issuers)

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

    def report(self, findings: Findings) -> None:
        """Report for each unfinished role the ops and the shared calls that block it."""
        for number, issuer in enumerate(self.issuers):
            for index, lacking in () if issuer.is_finished else issuer.blocked():
                needs = ", ".join(f"{need} ops done on lane {lane} (so far {done})" for lane, done, need in lacking)
                self._blocked(number, index, f"it waits for {needs}", findings)
            for index, absent in self._waiting(number):
                names = ", ".join(self._absent(other) for other in absent)
                self._blocked(number, index, f"role {names} does not join it", findings)

    def _blocked(self, number: int, index: int, by: str, findings: Findings) -> None:
        ranks = ranks_of_role(self.roles[number], self.roles)
        findings.add("order", self._title(number, index), ranks, "a run to the end", f"blocked: {by}")

    def _title(self, number: int, index: int) -> str:
        return title_of(self.programs[number].ops[index], self.programs[number].calls[index])

    def _waiting(self, number: int) -> Iterator[tuple[int, list[int]]]:
        """Yield the started collectives and exchanges of a role that wait for other roles, as (op index, numbers of the
        roles that have not joined)."""
        for calls in self.begun.calls.values():
            for here in calls:
                if number in here:
                    _, members = self.group_calls[self.programs[number].ops[here[number]].number]
                    absent = [other for other in members if other not in here]
                    if absent:
                        yield here[number], absent

    def _absent(self, number: int) -> str:
        """Return the name of a role that has not joined a shared call, with the op at which that role is blocked."""
        name = self.roles[number].name
        if self.issuers[number].is_finished:
            return f"{name} (at its end)"
        index = next((index for index, _ in self._waiting(number)), None)
        return name if index is None else f"{name} (in {self._title(number, index)})"
