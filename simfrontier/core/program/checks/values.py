"""Value rules: interpret the program of every role with symbols instead of numbers, a version for each weight and a set
of contributions for each gradient.

A weight has version 0 when the step begins and version 1 after its optimizer update (Adam, or LAMB's two ops). A
gradient is represented by the ops that contributed to it, each exactly once. Copies, codecs and collectives pass
symbols on; exchanges pass symbols from role to role. Placements are checked separately.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Any, Final

from simfrontier.core.program.checks.order import SharedCalls
from simfrontier.core.program.finding import CheckedRole, Rule, ref_text
from simfrontier.core.program.interpreter import UNKNOWN, Contributions, Form, Interpreter, Version
from simfrontier.core.program.ir import GRADIENT_ROLES, Collective, Compute, Exchange, Op, Ref, Schedule
from simfrontier.core.program.kinds import kind_of
from simfrontier.core.program.op_kind import AverageKind, CallKind, CopyKind, NormKind, StepKind
from simfrontier.core.program.roles import members_of, sequence_of

Home = tuple[str, int]  # a weight and its layer
Contribution = tuple[int, int]  # the number of a role, and that of an op in its program
Places = Sequence[int]  # of operands among the reads, writes or accumulates of an op
Instruction = tuple[Callable[..., Iterator[None] | None], tuple[Any, ...]]  # a method of the walk, and its arguments

MAX_NAMED: Final = 6
WEIGHTS: Final = ("weight", "copy", "gathered")  # roles of tensors that a pass computes with
FOLLOWED: Final = ("scalar", "norms")  # roles of tensors without a weight that have a form
AT_BEGIN: Final = Version(0)
PREVIOUS_STEP: Final = Version(-1)  # of a copy written in the previous step
STEPPED: Final = Version(1)


def check_values(schedule: Schedule, roles: Sequence[CheckedRole], num_micro: int | None = None) -> None:
    """Check the gradient sums and weight versions of all roles. `num_micro`: number of micro-batches in the programs;
    by default the number in a whole step."""
    step = _Step(schedule, roles, num_micro)
    walks = [_Walk(step, number) for number in range(len(roles))]
    step.run([walk.run() for walk in walks])
    for walk in walks:
        walk.ends()
    step.ends()


class _Step:
    """State shared by the interpretation of all roles: the values that roles exchange, the ops that contributed to each
    gradient, and the places where gradients and norms are used.

    An op is identified by its number across all roles: `base[role] + index`.
    """

    def __init__(self, schedule: Schedule, roles: Sequence[CheckedRole], num_micro: int | None) -> None:
        self.schedule, self.roles = schedule, roles
        self.base = list(accumulate((checked.program.num_ops for checked in roles), initial=0))
        self.gradients: dict[Home, list[int]] = {}  # ops that contributed to the gradient of each weight
        self.holders: dict[Home, list[int]] = {}  # roles whose optimizer updates each weight
        self.used: dict[tuple[Home, Contributions], tuple[int, Ref]] = {}  # used gradients, with their first use
        self.normed: dict[Contributions, int] = {}  # norms read by the optimizer, with the first reader
        self.optimizer = schedule.meta.get("optimizer", "adam")
        micro = num_micro or schedule.meta.get("grad_accum")
        most = max((call.micro for checked in roles for call in checked.role.calls), default=0) + 1
        self.num_micro = micro if isinstance(micro, int) else most
        self.sent = SharedCalls[tuple[Form, ...]]()
        self.is_closed = False  # calls that do not match never complete: the order rules report them

    def run(self, walks: list[Iterator[None]]) -> None:
        """Interpret the programs of all roles to their ends, each as far as possible at a time; each iterator yields
        when its role waits for another role."""
        while walks:
            before = self.sent.num_joined
            left = [walk for walk in walks if next(walk, self) is not self]
            self.is_closed = len(left) == len(walks) and self.sent.num_joined == before
            walks = left

    def ends(self) -> None:
        """Check all recorded uses of gradients and norms, after all roles have run to their ends."""
        for (home, value), (number, ref) in self.used.items():
            self._is_complete(home, value, number, ref)
        for value, number in self.normed.items():
            self._is_whole_norm(value, number)

    def _at(self, number: int) -> Contribution:
        role = bisect_right(self.base, number) - 1
        return role, number - self.base[role]

    def _is_complete(self, home: Home, value: Contributions, number: int, ref: Ref) -> None:
        """Check that a gradient, where it is used, sums every contribution to the gradient of its weight, from every
        micro-batch, exactly once."""
        made = self.gradients.get(home, [])
        by = [self._at(each) for each in made]
        roles = sorted({role for role, _ in by} | set(self.holders.get(home, ()))) or [self._at(number)[0]]
        is_from_all = all(self._is_from_all([index for at, index in by if at == role], role) for role in roles)
        if is_from_all and sorted(value.ops) == sorted(made):
            return
        every = "micro-batch 0" if self.num_micro == 1 else f"each of the micro-batches 0..{self.num_micro - 1}"
        if len(roles) > 1:
            every += f" of the roles {', '.join(self.roles[role].role.name for role in roles)}"
        expected = f"the gradient of {self._title(home)} from {every}, once"
        role, index = self._at(number)
        key = (self.roles[role].program.ops[index].number, ref.name)
        self._report(number, expected, f"in {ref.name}: {self._contributions_text(value)}", key)

    def _is_from_all(self, indices: list[int], role: int) -> bool:
        """Return whether a role has contributed to a gradient from every micro-batch: each of its contributing ops (by
        name) once per micro-batch."""
        program = self.roles[role].program
        times = Counter((program.ops[index].name, program.calls[index].micro) for index in indices)
        names = {name for name, _ in times}
        return len(times) == max(1, len(names)) * self.num_micro and len(times) == len(indices)

    def _contributions_text(self, value: Contributions) -> str:
        """Return the text of the contributions to a gradient by micro-batch, and by role if there are several roles:
        `micro-batch 0 twice, …`."""
        by = (self._at(number) for number in value.ops)
        counted = Counter((role, self.roles[role].program.calls[index].micro) for role, index in by)
        parts = [
            f"micro-batch {micro} {_times(count)}" + f" of role {self.roles[role].role.name}" * (len(self.roles) > 1)
            for (role, micro), count in sorted(counted.items())
        ]
        more = [f"and {len(parts) - MAX_NAMED} more"] * (len(parts) > MAX_NAMED)
        return ", ".join(parts[:MAX_NAMED] + more) or "nothing"

    def _is_whole_norm(self, value: Contributions, number: int) -> None:
        """Check that a gradient norm counts every weight that any role updates exactly once, even if two roles hold the
        weight."""
        counted = Counter(home for norm in value.ops for home in self._normed_by(norm))
        for home in sorted(set(self.holders) | set(counted)):
            if counted[home] != 1:
                expected = f"a norm that counts {self._title(home)} once"
                self._report(number, expected, _times(counted[home]), (home[0], "norm"))

    def _normed_by(self, number: int) -> Iterator[Home]:
        role, index = self._at(number)
        for ref in self.roles[role].program.reads[index]:
            weight = self.schedule.tensors[ref.name].weight
            if weight is not None:
                yield weight, ref.layer

    def _title(self, home: Home) -> str:
        return ref_text(Ref(*home), self.schedule.tensors[home[0]].per_layer, False)

    def _report(self, number: int, expected: str, got: str, key: object) -> None:
        role, index = self._at(number)
        self.roles[role].report("sums", index, expected, got, key)


def _times(count: int) -> str:
    return {0: "not at all", 1: "once", 2: "twice"}.get(count, f"{count} times")


class _Walk(Interpreter[Ref]):
    """Symbolic interpretation of one role's program, in the order in which its host issues the ops."""

    def __init__(self, step: _Step, number: int) -> None:
        super().__init__()
        self.step, self.number = step, number
        self.checked, self.base, self.tensors = step.roles[number], step.base[number], step.schedule.tensors
        self.contributed: set[Home] = set()  # weights to whose gradients this role contributes
        self.stepped: dict[Home, Version] = {}  # version of each updated weight
        # of the current op: its index in the program, and its operands
        self.index = -1
        self.reads: tuple[Ref, ...] = ()
        self.writes: tuple[Ref, ...] = ()
        self.adds: tuple[Ref, ...] = ()

    def run(self) -> Iterator[None]:
        """Interpret the program to its end; yield whenever another role must proceed first."""
        held, program, instructions = self.held, self.checked.program, dict[int, Instruction]()
        operands = zip(program.reads, program.writes, program.accumulates, strict=True)
        for self.index, (self.reads, self.writes, self.adds) in enumerate(operands):
            op = program.ops[self.index]
            method, arguments = instructions.get(op.number) or instructions.setdefault(op.number, self._instruction(op))
            if method is _Walk._nothing:
                continue
            for ref in self.reads:
                if ref not in held:
                    self.empty(ref, False)
            waits = method(self, *arguments)
            if waits is not None:
                yield from waits

    def empty(self, ref: Ref, adding: bool) -> Form:
        """Set and return the symbolic value of a tensor instance that no op has written yet."""
        form: Form = UNKNOWN
        match self.tensors[ref.name].role:
            case "weight":
                form = AT_BEGIN
            case "copy":
                form = PREVIOUS_STEP
            case role if role == "accumulator" or adding:
                form = Contributions()
        self.held[ref] = form
        return form

    # ── what each kind of op does ──

    def _instruction(self, op: Op) -> Instruction:
        touched = {ref.name for ref in (*op.reads, *op.writes, *op.accumulates)}
        if not any(self.tensors[name].weight or self.tensors[name].role in FOLLOWED for name in touched):
            return _Walk._nothing, ()
        if isinstance(op, Exchange):
            return _Walk._exchange, (op,)
        match kind_of(op):
            case CallKind(sums=True) if isinstance(op, Collective) and members_of(op, self.step.schedule):
                return _Walk._reduce, (op,)
            case CallKind() | CopyKind():
                return _Walk._pass_on, (any(map(self._is_token, (*op.reads, *op.writes, *op.accumulates))),)
            case NormKind():
                return _Walk._norm, ()
            case StepKind() as kind:
                return _Walk._step, (kind,)
            case AverageKind():
                return _Walk._average, ()
        of_weights = tuple(i for i, ref in enumerate(op.reads) if self.tensors[ref.name].weight is not None)
        return _Walk._work, (op, of_weights, self._gradients(op.writes), self._gradients(op.accumulates))

    def _nothing(self) -> None:
        """Skip an op that uses neither weights nor gradients."""

    def _is_token(self, ref: Ref) -> bool:
        return self.tensors[ref.name].role == "token"

    def _without_tokens(self, refs: tuple[Ref, ...]) -> tuple[Ref, ...]:
        return tuple(ref for ref in refs if not self._is_token(ref))

    def _gradients(self, refs: tuple[Ref, ...]) -> Places:
        tensors = enumerate(self.tensors[ref.name] for ref in refs)
        return tuple(i for i, tensor in tensors if tensor.role in GRADIENT_ROLES and tensor.weight is not None)

    def _pass_on(self, tokens: bool) -> None:
        """Copy the symbolic values of sources to targets, or add them to accumulated targets, pair by pair; tokens are
        skipped."""
        sources, targets, added = self.reads, self.writes, self.adds
        if tokens:
            sources, targets, added = (self._without_tokens(refs) for refs in (sources, targets, added))
        if targets:
            for ref in self.writes:
                self.held[ref] = UNKNOWN
            self.copy(sources, targets)
        self.add(sources, added)

    def _work(self, op: Compute, of_weights: Places, made: Places, grown: Places) -> None:
        held = self.held
        for at in of_weights:
            self._is_fresh(op, self.reads[at])
        for ref in self.writes:
            held[ref] = UNKNOWN
        for ref in self.adds:
            if ref not in held:
                self.empty(ref, True)
        for at in made:
            self._contribute(self.writes[at])
            held[self.writes[at]] = self._own()
        for at in grown:
            self._contribute(self.adds[at])
            self.add_form(self.adds[at], self._own())

    def _norm(self) -> None:
        self.held.update(dict.fromkeys(self.writes, UNKNOWN))  # a token
        for ref in self.reads:
            self._use(ref)
        for ref in self.adds:
            self.add_form(ref, self._own())

    def _own(self) -> Contributions:
        """Return the symbolic contribution of the current op to a gradient."""
        return Contributions((self.base + self.index,))

    def _contribute(self, ref: Ref) -> None:
        home = self._home(ref)
        self.contributed.add(home)
        self.step.gradients.setdefault(home, []).append(self.base + self.index)

    def _home(self, ref: Ref) -> Home:
        return self.tensors[ref.name].weight or "", ref.layer

    # ── calls in which roles meet ──

    def _exchange(self, op: Exchange) -> Iterator[None]:
        """Write the symbolic values that the role at the other end of an exchange sends."""
        writes, arriving = self.writes, self._without_tokens(self.writes)
        sent = self._send(op)
        if any(self.tensors[ref.name].weight is not None for ref in arriving):  # values of the model are not tracked
            while len(sent) < len(op.ends) and not self.step.is_closed:
                yield
        got = next((forms for role, forms in sent.items() if role != self.number), ())
        self.held.update(dict.fromkeys(writes, UNKNOWN))
        self.held.update(zip(arriving, got, strict=False))

    def _reduce(self, op: Collective) -> Iterator[None]:
        """Sum the symbolic values of all roles that take part in a reduction."""
        sent = self._send(op)
        while len(sent) < len(self.step.roles) and not self.step.is_closed:
            yield
        self.held.update(dict.fromkeys(self.writes, UNKNOWN))
        for ref, *parts in zip(self.writes, *(sent[role] for role in sorted(sent)), strict=False):
            self.held[ref] = _summed(parts)

    def _send(self, op: Collective | Exchange) -> dict[int, tuple[Form, ...]]:
        """Record the symbolic values that the op sends. Return the values sent by all roles that have reached this
        call, by role number."""
        return self.step.sent.join(sequence_of(op), self.number, tuple([self.held[ref] for ref in self.reads]))

    # ── rules ──

    def _is_fresh(self, op: Compute, ref: Ref) -> None:
        form = self.held[ref]
        if isinstance(form, Version):
            age = self.stepped.get(self._home(ref), AT_BEGIN).number - form.number
            if age > op.max_age:
                held = "the previous step's" if form == PREVIOUS_STEP else f"{form} of the"
                expected = f"{ref_text(ref)} at most {op.max_age} steps old"
                self._report("versions", expected, f"{held} weights, {age} step{'s' * (age > 1)} old", ref)
        elif isinstance(form, Contributions) and self.tensors[ref.name].role in WEIGHTS:
            self._report("versions", f"weights in {ref_text(ref)}", "a gradient", ref)

    def _average(self) -> None:
        """Check that a moving average reads the weight as updated by the optimizer in this step."""
        ref = self.reads[0]
        if (form := self.held[ref]) != STEPPED:
            wanted = f"{ref_text(ref)} after its {self.step.optimizer} ({STEPPED})"
            self._report("versions", wanted, _version_text(form, "something else"), ref)

    def _use(self, ref: Ref) -> None:
        """Check that a tensor used as a gradient holds a gradient, and record the use; completeness is checked after
        all roles have run."""
        if self.tensors[ref.name].weight is None:
            return
        form = self.held[ref]
        if isinstance(form, Contributions):
            self.step.used.setdefault((self._home(ref), form), (self.base + self.index, ref))
        else:
            self._report("sums", f"a gradient in {ref.name}", "something else", ref)

    def _step(self, kind: StepKind) -> None:
        """Interpret an optimizer op that computes updates from gradients, updates weights, or both. The uses of
        gradients and norms are recorded, to be checked for completeness."""
        for ref in self.reads if kind.reads_gradients else ():
            form = self.held[ref]
            if self.tensors[ref.name].role in GRADIENT_ROLES:
                self._use(ref)
            elif self.tensors[ref.name].weight is None and isinstance(form, Contributions) and form.ops:
                self.step.normed.setdefault(form, self.base + self.index)
        self.held.update(dict.fromkeys(self.writes, UNKNOWN))
        if kind.renews_weights:
            self._renew()

    def _renew(self) -> None:
        for home in {self._home(ref) for ref in self.writes if self.tensors[ref.name].weight is not None}:
            self.stepped[home] = self.stepped.get(home, AT_BEGIN).next
            self.step.holders.setdefault(home, []).append(self.number)
        for ref in self.writes:
            tensor = self.tensors[ref.name]
            if tensor.weight is not None and tensor.role not in ("optimizer", "master"):
                self.held[ref] = self.stepped[self._home(ref)]

    # ── at the end of the step ──

    def ends(self) -> None:
        """Check at the end of the step that the role has updated every weight once (a frozen one never), that the
        weight's tensor holds the updated version, and that copies of weights were rewritten."""
        by = self.step.optimizer
        for weight, layer in self._weights():
            ref = Ref(weight, layer)
            count = self.stepped.get((weight, layer), AT_BEGIN).number
            form = self.held.get(ref, AT_BEGIN)
            if self.tensors[weight].is_frozen:
                if count or form != AT_BEGIN:
                    self._report_end("sums", ref, f"no {by} of a frozen weight", str(form))
            elif count != 1:
                self._report_end("sums", ref, f"one {by} per step", f"{count} of them" if count else "none")
            elif form != STEPPED:
                expected = f"{STEPPED} at its home placement when the step ends (published after its {by})"
                self._report_end("versions", ref, expected, _version_text(form, "something that is no weight"))
        for ref, form in self.held.items():
            if self.tensors[ref.name].role == "copy" and form == PREVIOUS_STEP:
                self._report_end("versions", ref, "written again in every step", "not written, or from itself")

    def _weights(self) -> list[Home]:
        """Return the weights that this role must have updated in a training step: those that it uses, and those to
        whose gradients it contributes if no role updates them. Empty if the schedule computes no gradients."""
        if not self.step.gradients and not self.step.holders:
            return []
        named = {(ref.name, ref.layer) for ref in self.held if self.tensors[ref.name].role == "weight"}
        elsewhere = self.contributed - set(self.step.holders)
        return sorted(named | elsewhere | set(self.stepped))

    def _report(self, rule: Rule, expected: str, got: str, ref: Ref) -> None:
        self.checked.report(rule, self.index, expected, got, (self.checked.program.ops[self.index].number, ref.name))

    def _report_end(self, rule: Rule, ref: Ref, expected: str, got: str) -> None:
        title = f"end of step: {ref_text(ref, self.tensors[ref.name].per_layer, False)}"
        self.checked.report_end(rule, title, expected, got, (ref.name, expected))


def _version_text(form: Form, otherwise: str) -> str:
    return str(form) if isinstance(form, Version) else otherwise


def _summed(parts: list[Form]) -> Form:
    """Return the union of the contributions of several roles; if the values are not contributions, the first value."""
    sums = [part.ops for part in parts if isinstance(part, Contributions)]
    return Contributions(tuple(chain.from_iterable(sums))) if sums else parts[0]
