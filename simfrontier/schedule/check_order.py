"""The order rules: every role runs to its end, and all roles that share a communicator call it alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from simfrontier.errors import InputError
from simfrontier.schedule.expand import Expanded
from simfrontier.schedule.finding import Findings, ranks_of, title_of
from simfrontier.schedule.ir import Call, Collective, Role, Schedule
from simfrontier.schedule.issuer import Issuer

Programs = list[tuple[Role, Expanded]]


def check_comms(schedule: Schedule, programs: Programs, found: Findings) -> None:
    """A communicator spans one set of axes, and its calls come in one order, of one kind and size, in all its roles."""
    span: dict[str, frozenset[str]] = {}
    for role, program in programs:
        for call, op in _collectives(program):
            axes = frozenset(op.axes)
            if span.setdefault(op.comm, axes) != axes:
                ranks = ranks_of(op, role.name, len(programs))
                said = f"communicator {op.comm} over {'+'.join(sorted(span[op.comm]))}, as before"
                found.add("order", title_of(op, call), ranks, said, "+".join(op.axes), key=(id(op), "span"))
    if len(programs) > 1:
        _same_calls(schedule, programs, found)


def _collectives(program: Expanded) -> Iterator[tuple[Call, Collective]]:
    return ((program.calls[i], op) for i, op in enumerate(program.ops) if isinstance(op, Collective))


def _same_calls(schedule: Schedule, programs: Programs, found: Findings) -> None:
    calls: dict[str, list[list[tuple[str, str]]]] = defaultdict(list)
    owners: dict[str, list[Role]] = defaultdict(list)
    for role, program in programs:
        mine: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for call, op in _collectives(program):
            mine[op.comm].append((title_of(op, call), _signature(schedule, op)))
        for comm, said in mine.items():
            calls[comm].append(said)
            owners[comm].append(role)
    for comm, (first, *others) in calls.items():
        for role, other in zip(owners[comm][1:], others, strict=True):
            _compare(comm, owners[comm][0], first, role, other, found)


def _compare(
    comm: str, role: Role, first: list[tuple[str, str]], other: Role, second: list[tuple[str, str]], found: Findings
) -> None:
    where = f"communicator {comm}"
    for number, ((title, mine), (other_title, yours)) in enumerate(zip(first, second, strict=False)):
        if mine != yours:
            expected = f"call {number} of {where} to be {mine}, like {title} of role {role.name}"
            found.add("order", other_title, f"ranks of role {other.name}", expected, yours)
            return
    if len(first) != len(second):
        expected = f"{len(first)} calls, as in role {role.name}"
        found.add("order", where, f"ranks of role {other.name}", expected, f"{len(second)} calls")


def _signature(schedule: Schedule, op: Collective) -> str:
    """What all ranks of a call must agree on."""
    try:
        num_bytes = sum(schedule.tensors[ref.name].local_bytes(schedule.mesh) for ref in op.src)
    except InputError:
        num_bytes = 0  # said elsewhere
    return f"{op.kind} over {'+'.join(op.axes)} of {num_bytes} bytes ({op.codec}, {op.via})"


def check_progress(programs: Programs, found: Findings) -> None:
    """Run all roles without a clock: a collective is done when every role that has its communicator has started it.

    The issuing rule is monotone, so one such run that ends proves that no timing can block the schedule.
    """
    _Run(programs).to_the_end(found)


class _Run:
    def __init__(self, programs: Programs) -> None:
        self.programs = programs
        self.issuers = [Issuer(program) for _, program in programs]
        self.sharing: dict[str, set[int]] = defaultdict(set)
        for number, (_, program) in enumerate(programs):
            for _, op in _collectives(program):
                self.sharing[op.comm].add(number)
        self.begun: dict[str, list[list[tuple[int, int]]]] = defaultdict(list)  # comm → its calls, who is in each
        self.calls_begun: dict[tuple[str, int], int] = defaultdict(int)

    def to_the_end(self, found: Findings) -> None:
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
                self._stuck(number, found)

    def _start(self, number: int, index: int) -> None:
        op = self.programs[number][1].ops[index]
        if not isinstance(op, Collective) or len(self.sharing[op.comm]) == 1:
            self.issuers[number].finish(index)
            return
        call = self.calls_begun[op.comm, number]
        self.calls_begun[op.comm, number] += 1
        begun = self.begun[op.comm]
        if call == len(begun):
            begun.append([])
        begun[call].append((number, index))
        if len(begun[call]) == len(self.sharing[op.comm]):
            for other, waiting in begun[call]:
                self.issuers[other].finish(waiting)

    def _stuck(self, number: int, found: Findings) -> None:
        role, program = self.programs[number]
        issuer = self.issuers[number]
        who = (
            ranks_of(program.ops[0], role.name, len(self.programs))
            if len(self.programs) == 1
            else f"ranks of role {role.name}"
        )
        for index, lacking in issuer.blocked():
            title = title_of(program.ops[index], program.calls[index])
            needs = ", ".join(f"{need} ops done on lane {lane} (so far {done})" for lane, done, need in lacking)
            found.add("order", title, who, "a run to the end", f"blocked: it waits for {needs}")
        for comm, calls in self.begun.items():
            for waiting in calls:
                here = {at for at, _ in waiting}
                absent = self.sharing[comm] - here
                for at, index in waiting:
                    if at == number and absent:
                        names = ", ".join(self.programs[other][0].name for other in sorted(absent))
                        title = title_of(program.ops[index], program.calls[index])
                        found.add("order", title, who, "a run to the end", f"blocked: role {names} does not join it")
