"""The value rules: a walk through every role's program with symbols for weights (versions) and gradients
(contributions).

A weight is version 0 when the step begins and 1 after its step (adam, or LAMB's two ops). A gradient is the ops that
contributed, each once; LAMB's update and its norms are the op that made them.
Copies, codes and collectives pass symbols on, exchanges from role to role; what they do to placements is checked apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

from simfrontier.core.program.checks.order import SentValues
from simfrontier.core.program.checks.roles import explain_unwritten
from simfrontier.core.program.checks.sums import ContributionRecord, Home
from simfrontier.core.program.finding import CheckedRole, Rule, ref_text
from simfrontier.core.program.interpreter import UNKNOWN, Contributions, Form, Interpreter, Version
from simfrontier.core.program.ir import GRADIENT_ROLES, Collective, Compute, Exchange, Op, Ref, Schedule
from simfrontier.core.program.kinds import kind_of
from simfrontier.core.program.op_kind import AverageKind, CallKind, CopyKind, NormKind, StepKind
from simfrontier.core.program.roles import members_of, sequence_of

Places = Sequence[int]  # of operands among the reads, writes or accumulates of an op
Instruction = tuple[Callable[..., Iterator[None] | None], tuple[Any, ...]]  # a method of the walk, and its arguments

WEIGHTS: Final = ("weight", "copy", "gathered")  # roles of tensors that a pass computes with
AT_BEGIN: Final = Version(0)
PREVIOUS_STEP: Final = Version(-1)  # of a copy that was written in the step before
STEPPED: Final = Version(1)


def check_values(schedule: Schedule, roles: Sequence[CheckedRole], num_micro: int | None = None) -> None:
    """References, sums and versions of all roles; `num_micro`: micro-batches in the programs, if not those of a
    step."""
    contributions = ContributionRecord(schedule, roles, num_micro)
    sent_values = SentValues()
    walks = [_Walk(contributions, sent_values, number) for number in range(len(roles))]
    sent_values.run([walk.run() for walk in walks])
    for walk in walks:
        explain_unwritten(walk.unwritten, walk.checked)
    for walk in walks:
        walk.ends()
    contributions.check()


class _Walk(Interpreter[Ref]):
    """One role's way through its program, in the order in which its host issues the ops."""

    def __init__(self, contributions: ContributionRecord, sent_values: SentValues, number: int) -> None:
        super().__init__()
        self.contributions, self.sent_values, self.number = contributions, sent_values, number
        self.checked = contributions.roles[number]
        self.base = contributions.base[number]
        self.tensors = contributions.schedule.tensors
        self.contributed: set[Home] = set()  # the weights whose gradients this role makes
        self.stepped: dict[Home, Version] = {}  # what the optimizer has made of a weight
        self.updates: dict[Home, Contributions] = {}  # LAMB's update of a weight
        self.unwritten: list[tuple[int, Ref]] = []
        # of the op that is being done: its place in the program, and what it touches
        self.index = -1
        self.reads: tuple[Ref, ...] = ()
        self.writes: tuple[Ref, ...] = ()
        self.adds: tuple[Ref, ...] = ()

    def run(self) -> Iterator[None]:
        """Walk to the end; yields where another role has to come first."""
        held, program, instructions = self.held, self.checked.program, dict[int, Instruction]()
        operands = zip(program.reads, program.writes, program.accumulates, strict=True)
        for self.index, (self.reads, self.writes, self.adds) in enumerate(operands):
            op = program.ops[self.index]
            method, arguments = instructions.get(op.number) or instructions.setdefault(op.number, self._instruction(op))
            for ref in self.reads:
                if ref not in held:
                    self.empty(ref, False)
            waits = method(self, *arguments)
            if waits is not None:
                yield from waits

    def empty(self, ref: Ref, adding: bool) -> Form:
        """The form of something that no op has written yet."""
        tensor = self.tensors[ref.name]
        form: Form = UNKNOWN
        if tensor.role == "weight":
            form = AT_BEGIN
        elif tensor.role == "copy":
            form = PREVIOUS_STEP
        elif tensor.role == "accumulator" or adding:
            form = Contributions()
        if not tensor.persistent and not adding:
            self.unwritten.append((self.index, ref))
        self.held[ref] = form
        return form

    # ── what each kind of op does ──

    def _instruction(self, op: Op) -> Instruction:
        if isinstance(op, Exchange):
            return _Walk._exchange, (op,)
        tokens = any(self._is_token(ref) for ref in (*op.reads, *op.writes, *op.accumulates))
        match kind_of(op):
            case CallKind() as kind:
                assert isinstance(op, Collective)
                sums = kind.sums and members_of(op, self.contributions.schedule)
                return (_Walk._reduce, (op,)) if sums else (_Walk._pass_on, (tokens,))
            case CopyKind():
                return _Walk._pass_on, (tokens,)
            case NormKind():
                return _Walk._norm, ()
            case StepKind() as kind:
                return _Walk._step, (kind,)
            case AverageKind():
                return _Walk._average, ()
        of_weights = tuple(i for i, ref in enumerate(op.reads) if self.tensors[ref.name].weight is not None)
        return _Walk._work, (op, of_weights, self._gradients(op.writes), self._gradients(op.accumulates))

    def _is_token(self, ref: Ref) -> bool:
        return self.tensors[ref.name].role == "token"

    def _without_tokens(self, refs: tuple[Ref, ...]) -> tuple[Ref, ...]:
        return tuple(ref for ref in refs if not self._is_token(ref))

    def _gradients(self, refs: tuple[Ref, ...]) -> Places:
        tensors = enumerate(self.tensors[ref.name] for ref in refs)
        return tuple(i for i, tensor in tensors if tensor.role in GRADIENT_ROLES and tensor.weight is not None)

    def _pass_on(self, tokens: bool) -> None:
        """Sources become targets, or are added to them, pair by pair; tokens stand apart."""
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
        """What the op that is being done contributes."""
        return Contributions((self.base + self.index,))

    def _contribute(self, ref: Ref) -> None:
        home = self._home(ref)
        self.contributed.add(home)
        self.contributions.gradients.setdefault(home, []).append(self.base + self.index)

    def _home(self, ref: Ref) -> Home:
        weight = self.tensors[ref.name].weight
        assert weight is not None
        return weight, ref.layer

    # ── calls in which roles meet ──

    def _exchange(self, op: Exchange) -> Iterator[None]:
        """What the role at the other end sends becomes what this one writes."""
        writes = self.writes
        arriving = self._without_tokens(writes)
        for ref in arriving:
            if self.tensors[ref.name].per_micro and ref in self.held:
                text = ref_text(ref, self.tensors[ref.name].per_layer)
                self.report("sums", f"{text} received once", "again", (op.number, "twice"))
        sent = self._send(op)
        if any(self.tensors[ref.name].weight is not None for ref in arriving):  # other values say nothing
            while len(sent) < len(op.ends) and not self.sent_values.is_closed:
                yield
        got = next((forms for role, forms in sent.items() if role != self.number), ())
        self.held.update(dict.fromkeys(writes, UNKNOWN))
        self.held.update(zip(arriving, got, strict=False))

    def _reduce(self, op: Collective) -> Iterator[None]:
        """A reduction over roles sums what each of them has."""
        sent = self._send(op)
        while len(sent) < len(self.contributions.roles) and not self.sent_values.is_closed:
            yield
        self.held.update(dict.fromkeys(self.writes, UNKNOWN))
        for ref, *parts in zip(self.writes, *(sent[role] for role in sorted(sent)), strict=False):
            self.held[ref] = _summed(parts)

    def _send(self, op: Collective | Exchange) -> dict[int, tuple[Form, ...]]:
        """What all roles that have come to this call have sent, by their numbers."""
        return self.sent_values.join(sequence_of(op), self.number, tuple([self.held[ref] for ref in self.reads]))

    # ── rules ──

    def _is_fresh(self, op: Compute, ref: Ref) -> None:
        form = self.held[ref]
        if isinstance(form, Version):
            age = self.stepped.get(self._home(ref), AT_BEGIN).number - form.number
            if age > op.max_age:
                held = "the previous step's" if form == PREVIOUS_STEP else f"{form} of the"
                expected = f"{ref_text(ref)} at most {op.max_age} steps old"
                got = f"{held} weights, {age} step{'s' if age > 1 else ''} old"
                self.report("versions", expected, got, (op.number, ref.name))
        elif isinstance(form, Contributions) and self.tensors[ref.name].role in WEIGHTS:
            self.report("versions", f"weights in {ref_text(ref)}", "a gradient", (op.number, ref.name))

    def _average(self) -> None:
        """What follows a weight follows that which this step's optimizer has made."""
        ref = self.reads[0]
        if (form := self.held[ref]) != STEPPED:
            wanted = f"{ref_text(ref)} after its {self.contributions.optimizer} ({STEPPED})"
            self.report("versions", wanted, _version_text(form, "something else"), self._key(ref))

    def _use(self, ref: Ref) -> None:
        """A gradient that is about to be used must be one, and complete (which is seen when all roles are walked)."""
        if self.tensors[ref.name].weight is None:
            return
        form = self.held[ref]
        if isinstance(form, Contributions):
            self.contributions.used.setdefault((self._home(ref), form), (self.base + self.index, ref))
        else:
            self.report("sums", f"a gradient in {ref.name}", "something else", self._key(ref))

    def _step(self, kind: StepKind) -> None:
        """The optimizer makes updates of gradients, or renews weights."""
        homes = {self._home(ref) for ref in self.writes if self.tensors[ref.name].weight is not None}
        given = self._with_gradients() if kind.reads_gradients else self._with_updates()
        if kind.renews_weights:
            for home in homes:
                self.stepped[home] = self.stepped.get(home, AT_BEGIN).next
                self.contributions.holders.setdefault(home, []).append(self.number)
        for home in homes - given:
            self.report("sums", f"a gradient of {ref_text(Ref(*home), per_micro=False)}", "none", home)
        if kind.renews_weights:
            self._renew()
        else:
            self._update(homes)

    def _with_gradients(self) -> set[Home]:
        """The weights whose gradients an op reads, complete and clipped by a whole norm."""
        found: set[Home] = set()
        for ref in self.reads:
            if self.tensors[ref.name].weight is None:
                form = self.held[ref]
                if isinstance(form, Contributions) and form.ops:
                    self.contributions.normed.setdefault(form, self.base + self.index)
            elif self.tensors[ref.name].role in GRADIENT_ROLES:
                found.add(self._home(ref))
                self._use(ref)
        return found

    def _with_updates(self) -> set[Home]:
        """The weights whose updates an op reads: those of this step, with the norms that were taken of them."""
        found: set[Home] = set()
        for ref in self.reads:
            tensor = self.tensors[ref.name]
            if tensor.role not in ("update", "norms") or tensor.weight is None:
                continue
            home = self._home(ref)
            found.add(home)
            if self.held[ref] != self.updates.get(home):
                self.report("versions", f"{ref_text(ref)} from one lamb_update", "something else", self._key(ref))
        return found

    def _update(self, homes: set[Home]) -> None:
        """What LAMB makes of gradients before it scales it."""
        for home in sorted(homes):
            if home in self.updates:
                text = ref_text(Ref(*home), per_micro=False)
                self.report("sums", f"one lamb_update of {text} per step", "a second one", home)
            self.updates[home] = self._own()
        for ref in self.writes:
            is_new = self.tensors[ref.name].role in ("update", "norms")
            self.held[ref] = self._own() if is_new else UNKNOWN

    def _renew(self) -> None:
        for ref in self.writes:
            tensor = self.tensors[ref.name]
            is_new = tensor.weight is not None and tensor.role not in ("optimizer", "master")
            self.held[ref] = self.stepped[self._home(ref)] if is_new else UNKNOWN

    # ── at the end of the step ──

    def ends(self) -> None:
        """Every weight that the role holds is updated once and published; copies are renewed."""
        by = self.contributions.optimizer
        for weight, layer in self._weights():
            ref = Ref(weight, layer)
            count = self.stepped.get((weight, layer), AT_BEGIN).number
            form = self.held.get(ref, AT_BEGIN)
            if count != 1:
                got = f"{count} of them" if count else "none"
                self._report_end("sums", ref, f"one {by} per step", got, (weight, "step"))
            elif form != STEPPED:
                expected = f"{STEPPED} at its home placement when the step ends (published after its {by})"
                got = _version_text(form, "something that is no weight")
                self._report_end("versions", ref, expected, got, (weight, "publish"))
        for ref, form in self.held.items():
            if self.tensors[ref.name].role == "copy" and form == PREVIOUS_STEP:
                text = "written again in every step", "not written, or from itself"
                self._report_end("versions", ref, *text, (ref.name, "copy"))

    def _weights(self) -> list[Home]:
        """The weights of a training step: all that the role mentions or that no other role holds, unless the schedule
        computes no gradient at all."""
        if not self.contributions.gradients and not self.contributions.holders:
            return []
        named = {(ref.name, ref.layer) for ref in self.held if self.tensors[ref.name].role == "weight"}
        elsewhere = self.contributed - set(self.contributions.holders)
        return sorted(named | elsewhere | set(self.stepped))

    # ── words ──

    def report(self, rule: Rule, expected: str, got: str, key: object) -> None:
        self.checked.report(rule, self.index, expected, got, key)

    def _key(self, ref: Ref) -> tuple[int, str]:
        return self.checked.program.ops[self.index].number, ref.name

    def _report_end(self, rule: Rule, ref: Ref, expected: str, got: str, key: object) -> None:
        title = f"end of step: {ref_text(ref, self.tensors[ref.name].per_layer, False)}"
        self.checked.report_end(rule, title, expected, got, key)


def _version_text(form: Form, otherwise: str) -> str:
    return str(form) if isinstance(form, Version) else otherwise


def _summed(parts: list[Form]) -> Form:
    """Contributions of several roles side by side; of anything else the first."""
    sums = [part.ops for part in parts if isinstance(part, Contributions)]
    return Contributions(tuple(chain.from_iterable(sums))) if sums else parts[0]
