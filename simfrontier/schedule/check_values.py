"""The value rules: a walk through every role's program with symbols for weights (versions) and gradients
(contributions).

A weight is version 0 when the step begins and 1 after its step (adam, or LAMB's two ops). A gradient is the ops that
contributed, each once; LAMB's update and its norms are the op that made them.
Copies, codes and collectives pass symbols on, exchanges from role to role; what they do to placements is checked apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

from simfrontier.schedule.check_exchanges import SentValues, Value
from simfrontier.schedule.check_references import explain_unwritten
from simfrontier.schedule.check_sums import ContributionRecord, Home
from simfrontier.schedule.expansion import UnrolledProgram
from simfrontier.schedule.finding import Findings, Rule, ref_text
from simfrontier.schedule.ir import GRADIENT_ROLES, Collective, Exchange, Op, Ref, Role, Schedule
from simfrontier.schedule.kinds import kind_of
from simfrontier.schedule.op_kind import AverageKind, CopyKind, NormKind, StepKind
from simfrontier.schedule.roles import members_of, sequence_of

WEIGHTS: Final = ("weight", "copy", "gathered")  # roles of tensors that a pass computes with
PREVIOUS_STEP: Final = -1  # the version of a copy that was written in the step before


def check_values(
    schedule: Schedule, programs: list[tuple[Role, UnrolledProgram]], findings: Findings, num_micro: int | None = None
) -> None:
    """References, sums and versions of all roles; `num_micro`: micro-batches in the programs, if not those of a
    step."""
    contributions = ContributionRecord(schedule, programs, findings, num_micro)
    sent_values = SentValues()
    walks = [_Walk(contributions, sent_values, number) for number in range(len(programs))]
    sent_values.run([walk.run() for walk in walks])
    for walk in walks:
        explain_unwritten(walk.unwritten, walk.program, schedule.tensors, walk.report)
    for walk in walks:
        walk.ends()
    contributions.check()


@dataclass(slots=True)
class _OpPattern:
    """What the walk does with an op: which operands pass symbols on, which it must look at."""

    does: str
    pairs: tuple[tuple[int, int], ...] = ()  # (position in reads, position in writes)
    added: tuple[tuple[int, int], ...] = ()  # (position in reads, position in accumulates)
    fresh: tuple[int, ...] = ()  # reads that belong to a weight
    made: tuple[int, ...] = ()  # writes that are gradients
    grown: tuple[int, ...] = ()  # accumulates that are gradients


class _Walk:
    """One role's way through its program, in the order in which its host issues the ops."""

    def __init__(self, contributions: ContributionRecord, sent_values: SentValues, number: int) -> None:
        self.contributions, self.sent_values, self.number = contributions, sent_values, number
        self.program = contributions.programs[number][1]
        self.base = contributions.base[number]
        self.tensors = contributions.schedule.tensors
        self.values: dict[Ref, Value] = {}
        self.contributed: set[Home] = set()  # the weights whose gradients this role makes
        self.stepped: dict[Home, int] = {}  # how often the optimizer has updated a weight
        self.updates: dict[Home, int] = {}  # the op that made LAMB's update of a weight, counted through all roles
        self.unwritten: list[tuple[int, Ref]] = []
        self.forms: dict[int, _OpPattern] = {}

    def run(self) -> Iterator[None]:
        """Walk to the end; yields where another role has to come first."""
        values, forms, base = self.values, self.forms, self.base
        program = self.program
        for index, op in enumerate(program.ops):
            form = forms.get(op.number)
            if form is None:
                form = forms[op.number] = self._form(op)
            reads, writes, adds = program.reads[index], program.writes[index], program.accumulates[index]
            for ref in reads:
                if ref not in values:
                    self._begin(index, ref)
            if form.does == "copy":
                if form.pairs:
                    for ref in writes:  # a token has no source
                        values[ref] = None
                    for a, b in form.pairs:
                        values[writes[b]] = values[reads[a]]
                for a, b in form.added:
                    self._add(index, adds[b], values[reads[a]])
                continue
            if form.does == "work":
                for at in form.fresh:
                    self._is_fresh(index, reads[at])
                for ref in writes:
                    values[ref] = None
                for ref in adds:
                    if ref not in values:
                        self._begin(index, ref, adding=True)
                for at in form.made:
                    self._contribute(index, writes[at])
                    values[writes[at]] = (base + index,)
                for at in form.grown:
                    self._contribute(index, adds[at])
                    self._add(index, adds[at], (base + index,))
            elif form.does == "norm":
                values.update(dict.fromkeys(writes))  # a token
                for ref in reads:
                    self._use(index, ref)
                for ref in adds:
                    if ref not in values:
                        self._begin(index, ref, adding=True)
                    self._add(index, ref, (base + index,))
            elif form.does == "both":
                self._step(index, self._with_gradients(index))
            elif form.does == "update":
                self._update(index)
            elif form.does == "apply":
                self._step(index, self._with_updates(index))
            elif form.does == "average":
                self._is_stepped(index, reads[0])
            elif form.does == "exchange":
                yield from self._exchange(index, op)
            elif form.does == "reduce":
                yield from self._reduce(index, op)

    # ── what each kind of op does ──

    def _form(self, op: Op) -> _OpPattern:
        if isinstance(op, Exchange):
            return _OpPattern("exchange")
        if isinstance(op, Collective):
            reduces = op.kind in ("all_reduce", "reduce_scatter") and members_of(op, self.contributions.schedule)
            return _OpPattern("reduce" if reduces else "copy", pairs=tuple((i, i) for i in range(len(op.dst))))
        kind = kind_of(op)
        if isinstance(kind, CopyKind):
            added = self._zipped(op.reads, op.accumulates) if kind.adds else ()
            return _OpPattern("copy", pairs=self._zipped(op.reads, op.writes), added=added)
        if isinstance(kind, NormKind):
            return _OpPattern("norm")
        if isinstance(kind, StepKind):
            return _OpPattern(kind.does)
        if isinstance(kind, AverageKind):
            return _OpPattern("average")
        return _OpPattern(
            "work",
            fresh=tuple(i for i, ref in enumerate(op.reads) if self.tensors[ref.name].weight is not None),
            made=tuple(i for i, ref in enumerate(op.writes) if self._is_gradient(ref)),
            grown=tuple(i for i, ref in enumerate(op.accumulates) if self._is_gradient(ref)),
        )

    def _zipped(self, left: tuple[Ref, ...], right: tuple[Ref, ...]) -> tuple[tuple[int, int], ...]:
        """Positions of sources and targets, pair by pair; tokens that are waited for or written stand apart."""
        sides = ([i for i, ref in enumerate(side) if self.tensors[ref.name].role != "token"] for side in (left, right))
        return tuple(zip(*sides, strict=False))

    def _is_gradient(self, ref: Ref) -> bool:
        return self.tensors[ref.name].role in GRADIENT_ROLES and self.tensors[ref.name].weight is not None

    def _begin(self, index: int, ref: Ref, adding: bool = False) -> None:
        """The value of something that no op has written yet."""
        tensor = self.tensors[ref.name]
        value: Value = None
        if tensor.role == "weight":
            value = 0
        elif tensor.role == "copy":
            value = PREVIOUS_STEP
        elif tensor.role == "accumulator" or adding:
            value = ()
        if not tensor.persistent and not adding:
            self.unwritten.append((index, ref))
        self.values[ref] = value

    def _add(self, index: int, target: Ref, value: Value) -> None:
        if target not in self.values:
            self._begin(index, target, adding=True)
        held = self.values[target]
        if isinstance(held, tuple) and isinstance(value, tuple):
            self.values[target] = held + value

    def _contribute(self, index: int, ref: Ref) -> None:
        home = self._home(ref)
        self.contributed.add(home)
        self.contributions.gradients.setdefault(home, []).append(self.base + index)

    def _home(self, ref: Ref) -> Home:
        weight = self.tensors[ref.name].weight
        assert weight is not None
        return weight, ref.layer

    # ── calls in which roles meet ──

    def _exchange(self, index: int, op: Op) -> Iterator[None]:
        """What the role at the other end sends becomes what this one writes."""
        assert isinstance(op, Exchange)
        reads, writes = self.program.reads[index], self.program.writes[index]
        arriving = [ref for ref in writes if self.tensors[ref.name].role != "token"]
        for ref in arriving:
            if self.tensors[ref.name].per_micro and ref in self.values:
                key = (op.number, "twice")
                self.report(
                    "sums", index, f"{ref_text(ref, self.tensors[ref.name].per_layer)} received once", "again", key
                )
        sent = self.sent_values.send(sequence_of(op), self.number, tuple([self.values[ref] for ref in reads]))
        if any(self.tensors[ref.name].weight is not None for ref in arriving):  # other values say nothing
            while len(sent) < len(op.ends) and not self.sent_values.is_closed:
                yield
        got = next((values for role, values in sent.items() if role != self.number), ())
        self.values.update(dict.fromkeys(writes))
        self.values.update(zip(arriving, got, strict=False))

    def _reduce(self, index: int, op: Op) -> Iterator[None]:
        """A reduction over roles sums what each of them has."""
        assert isinstance(op, Collective)
        reads, writes = self.program.reads[index], self.program.writes[index]
        sent = self.sent_values.send(sequence_of(op), self.number, tuple([self.values[ref] for ref in reads]))
        while len(sent) < len(self.contributions.programs) and not self.sent_values.is_closed:
            yield
        self.values.update(dict.fromkeys(writes))
        for ref, *parts in zip(writes, *(sent[role] for role in sorted(sent)), strict=False):
            self.values[ref] = _summed(parts)

    # ── rules ──

    def _is_fresh(self, index: int, ref: Ref) -> None:
        version, op = self.values[ref], self.program.ops[index]
        if isinstance(version, tuple) and self.tensors[ref.name].role in WEIGHTS:
            self.report("versions", index, f"weights in {ref_text(ref)}", "a gradient", (op.number, ref.name))
        if type(version) is not int:
            return
        age = self.stepped.get(self._home(ref), 0) - version
        if age > getattr(op, "max_age", 0):
            held = "the previous step's" if version == PREVIOUS_STEP else f"version {version} of the"
            self.report(
                "versions",
                index,
                f"{ref_text(ref)} at most {getattr(op, 'max_age', 0)} steps old",
                f"{held} weights, {age} step{'s' if age > 1 else ''} old",
                (op.number, ref.name),
            )

    def _is_stepped(self, index: int, ref: Ref) -> None:
        """What follows a weight follows that which this step's optimizer has made."""
        if self.values[ref] != 1:
            got = f"version {self.values[ref]}" if isinstance(self.values[ref], int) else "something else"
            key = (self.program.ops[index].number, ref.name)
            wanted = f"{ref_text(ref)} after its {self.contributions.optimizer} (version 1)"
            self.report("versions", index, wanted, got, key)

    def _use(self, index: int, ref: Ref) -> None:
        """A gradient that is about to be used must be one, and complete (which is seen when all roles are walked)."""
        if self.tensors[ref.name].weight is None:
            return
        value = self.values[ref]
        if isinstance(value, tuple):
            self.contributions.used.setdefault((self._home(ref), value), (self.base + index, ref))
            return
        key = (self.program.ops[index].number, ref.name)
        self.report("sums", index, f"a gradient in {ref.name}", "something else", key)

    def _with_gradients(self, index: int) -> set[Home]:
        """The weights whose gradients an op reads, complete and clipped by a whole norm."""
        found: set[Home] = set()
        for ref in self.program.reads[index]:
            if self.tensors[ref.name].weight is None:
                value = self.values[ref]
                if isinstance(value, tuple) and value:
                    self.contributions.normed.setdefault(value, self.base + index)
            elif self.tensors[ref.name].role in GRADIENT_ROLES:
                found.add(self._home(ref))
                self._use(index, ref)
        return found

    def _with_updates(self, index: int) -> set[Home]:
        """The weights whose updates an op reads: those of this step, with the norms that were taken of them."""
        found: set[Home] = set()
        for ref in self.program.reads[index]:
            tensor = self.tensors[ref.name]
            if tensor.role not in ("update", "norms") or tensor.weight is None:
                continue
            home = self._home(ref)
            found.add(home)
            if home not in self.updates or self.values[ref] != (self.updates[home],):
                key = (self.program.ops[index].number, ref.name)
                self.report("versions", index, f"{ref_text(ref)} from one lamb_update", "something else", key)
        return found

    def _update(self, index: int) -> None:
        """What LAMB makes of gradients before it scales it."""
        homes = self._written(index)
        self._have_gradients(index, homes - self._with_gradients(index))
        for home in sorted(homes):
            if home in self.updates:
                text = ref_text(Ref(*home), per_micro=False)
                self.report("sums", index, f"one lamb_update of {text} per step", "a second one", home)
            self.updates[home] = self.base + index
        for ref in self.program.writes[index]:
            is_new = self.tensors[ref.name].role in ("update", "norms")
            self.values[ref] = (self.base + index,) if is_new else None

    def _step(self, index: int, given: set[Home]) -> None:
        """The optimizer renews weights; it was `given` gradients, or updates made of them, of these."""
        values, homes = self.values, self._written(index)
        for home in homes:
            self.stepped[home] = self.stepped.get(home, 0) + 1
            self.contributions.holders.setdefault(home, []).append(self.number)
        self._have_gradients(index, homes - given)
        for ref in self.program.writes[index]:
            values[ref] = None
            if self.tensors[ref.name].weight is not None and self.tensors[ref.name].role not in ("optimizer", "master"):
                values[ref] = self.stepped[self._home(ref)]

    def _written(self, index: int) -> set[Home]:
        writes = self.program.writes[index]
        return {self._home(ref) for ref in writes if self.tensors[ref.name].weight is not None}

    def _have_gradients(self, index: int, without: set[Home]) -> None:
        for home in without:
            self.report("sums", index, f"a gradient of {ref_text(Ref(*home), per_micro=False)}", "none", home)

    # ── at the end of the step ──

    def ends(self) -> None:
        """Every weight that the role holds is updated once and published; copies are renewed."""
        by = self.contributions.optimizer
        for weight, layer in self._weights():
            ref = Ref(weight, layer)
            count = self.stepped.get((weight, layer), 0)
            if count != 1:
                got = f"{count} of them" if count else "none"
                self.contributions.report_end("sums", self.number, ref, f"one {by} per step", got, (weight, "step"))
                continue
            version = self.values.get(ref, 0)
            if version != 1:
                expected = f"version 1 at its home placement when the step ends (published after its {by})"
                got = f"version {version}" if isinstance(version, int) else "something that is no weight"
                self.contributions.report_end("versions", self.number, ref, expected, got, (weight, "publish"))
        for ref, value in self.values.items():
            if self.tensors[ref.name].role == "copy" and value == PREVIOUS_STEP:
                text = "written again in every step", "not written, or from itself"
                self.contributions.report_end("versions", self.number, ref, *text, (ref.name, "copy"))

    def _weights(self) -> list[Home]:
        """The weights of a training step: all that the role mentions or that no other role holds, unless the schedule
        computes no gradient at all."""
        if not self.contributions.gradients and not self.contributions.holders:
            return []
        named = {(ref.name, ref.layer) for ref in self.values if self.tensors[ref.name].role == "weight"}
        elsewhere = self.contributed - set(self.contributions.holders)
        return sorted(named | elsewhere | set(self.stepped))

    def report(self, rule: Rule, index: int, expected: str, got: str, key: object) -> None:
        self.contributions.report(rule, self.base + index, expected, got, key)


def _summed(parts: list[Value]) -> Value:
    """Contributions of several roles side by side; of anything else the first."""
    sums = [part for part in parts if isinstance(part, tuple)]
    return tuple(chain.from_iterable(sums)) if sums else parts[0]
