"""The order rules: every role runs to its end, and roles that share a call make it alike and in the same order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from simfrontier.errors import InputError
from simfrontier.schedule.expansion import ExpandedProgram
from simfrontier.schedule.finding import Findings, ranks_of, ranks_of_role, ref_text, title_of
from simfrontier.schedule.ir import Call, Collective, Exchange, Op, Ref, Role, Schedule
from simfrontier.schedule.issuer import Issuer
from simfrontier.schedule.roles import Sequence, members_of, sequence_of

Programs = list[tuple[Role, ExpandedProgram]]


def check_comms(schedule: Schedule, programs: Programs, findings: Findings) -> None:
    """A communicator spans one set of axes, and the calls that roles share come in one order, of one kind and size,
    in all of them."""
    span: dict[str, frozenset[str]] = {}
    for role, program in programs:
        for call, op in _collectives(program):
            axes = frozenset(op.axes)
            if span.setdefault(op.comm, axes) != axes:
                ranks = ranks_of(op, role, schedule.roles)
                text = f"communicator {op.comm} over {'+'.join(sorted(span[op.comm]))}, as before"
                findings.add("order", title_of(op, call), ranks, text, "+".join(op.axes), key=(op.number, "span"))
    if len(programs) > 1:
        _same_calls(schedule, programs, findings)


def _collectives(program: ExpandedProgram) -> Iterator[tuple[Call, Collective]]:
    """Each distinct collective of a program with its first call."""
    seen: set[int] = set()
    for index, op in enumerate(program.ops):
        if isinstance(op, Collective) and op.number not in seen:
            seen.add(op.number)
            yield program.calls[index], op


# ── calls that roles share ──


def _same_calls(schedule: Schedule, programs: Programs, findings: Findings) -> None:
    group_calls = _members(schedule)
    members: dict[Sequence, tuple[int, ...]] = {}
    calls: dict[tuple[Sequence, int], list[tuple[Op, Call]]] = defaultdict(list)
    for number, (_, program) in enumerate(programs):
        for index, op in enumerate(program.ops):
            group_call = group_calls.get(op.number)
            if group_call is not None:
                sequence, members[sequence] = group_call
                calls[sequence, number].append((op, program.calls[index]))
    for sequence, joined in members.items():
        for other in joined[1:]:
            first, second = calls[sequence, joined[0]], calls[sequence, other]
            _compare(schedule, sequence, joined[0], first, other, second, findings)


def _members(schedule: Schedule) -> dict[int, tuple[Sequence, tuple[int, ...]]]:
    """For each op (by its number) that roles share: the sequence it is in, and the numbers of the roles."""
    moves = [op for op in schedule.ops if isinstance(op, Collective | Exchange)]
    return {op.number: (sequence_of(op), members) for op in moves if (members := members_of(op, schedule))}


def _compare(
    schedule: Schedule,
    sequence: Sequence,
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


def _name(sequence: Sequence) -> str:
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


# ── progress ──


def check_progress(schedule: Schedule, programs: Programs, findings: Findings) -> None:
    """Run all roles without a clock: a call that roles share is done when all of them have started it.

    The issuing rule is monotone, so one such run that ends proves that no timing can block the schedule.
    """
    _Run(schedule, programs).to_the_end(findings)


class _Run:
    def __init__(self, schedule: Schedule, programs: Programs) -> None:
        self.roles = schedule.roles
        self.programs = [program for _, program in programs]
        self.issuers = [Issuer(program) for program in self.programs]
        self.group_calls = _members(schedule)
        self.begun: dict[Sequence, list[dict[int, int]]] = defaultdict(list)  # its calls: role → op that has started
        self.num_begun: dict[tuple[Sequence, int], int] = defaultdict(int)

    def to_the_end(self, findings: Findings) -> None:
        moved = True
        while moved:
            moved = False
            for number, issuer in enumerate(self.issuers):
                while started := issuer.startable():
                    moved = True
                    for index in started:
                        self._start(number, index)
        for number, issuer in enumerate(self.issuers):
            if not issuer.is_finished:
                self._stuck(number, findings)

    def _start(self, number: int, index: int) -> None:
        group_call = self.group_calls.get(self.programs[number].ops[index].number)
        if group_call is None:
            self.issuers[number].finish(index)
            return
        sequence, members = group_call
        call = self.num_begun[sequence, number]
        self.num_begun[sequence, number] += 1
        begun = self.begun[sequence]
        if call == len(begun):
            begun.append({})
        begun[call][number] = index
        if len(begun[call]) == len(members):
            for other, waiting in begun[call].items():
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
        for calls in self.begun.values():
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
