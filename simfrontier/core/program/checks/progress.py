"""The order rule of progress: every role runs to its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, groupby

from simfrontier.core.program.checks.order import members_by_op
from simfrontier.core.program.checks.shared_calls import SharedCalls
from simfrontier.core.program.expansion import ExpandedProgram, expand
from simfrontier.core.program.finding import Findings, ranks_of_role, title_of
from simfrontier.core.program.ir import HOST, Call, Compute, Op, Ref, Role, Schedule
from simfrontier.core.program.issuer import Issuer
from simfrontier.core.program.roles import sequence_of

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
