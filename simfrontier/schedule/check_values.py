"""The value rules: a walk through a role's program with symbols for weights (versions) and gradients (contributions).

A weight is version 0 when the step begins and 1 after its adam. A gradient is the ops that contributed, each once.
Copies, codes and collectives pass symbols on; what they do to placements is checked apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from simfrontier.schedule.check_references import explain_unwritten
from simfrontier.schedule.expand import Expanded
from simfrontier.schedule.family import weights_of
from simfrontier.schedule.finding import Findings, Rule, ranks_of, ref_text, title_of
from simfrontier.schedule.ir import Collective, Op, Ref, Role, Schedule
from simfrontier.schedule.kinds import ADD_KINDS, COPY_KINDS

Contributions = tuple[int, ...]  # the ops whose gradients a value sums
Value = int | Contributions | None  # a weight's version; a gradient; anything else
Home = tuple[str, int]  # a weight and its layer

PREVIOUS_STEP = -1  # the version of a copy that was written in the step before
MAX_NAMED = 6


def check_values(schedule: Schedule, role: Role, program: Expanded, found: Findings) -> None:
    """References, sums and versions of one role."""
    walk = _Walk(schedule, role, program, found)
    walk.run()
    walk.ends()


@dataclass(slots=True)
class _Form:
    """What the walk does with an op: which operands pass symbols on, which it must look at."""

    does: str
    pairs: tuple[tuple[int, int], ...] = ()  # (position in reads, position in writes)
    added: tuple[tuple[int, int], ...] = ()  # (position in reads, position in accumulates)
    fresh: tuple[int, ...] = ()  # reads that belong to a weight
    made: tuple[int, ...] = ()  # writes that are gradients
    grown: tuple[int, ...] = ()  # accumulates that are gradients


class _Walk:
    def __init__(self, schedule: Schedule, role: Role, program: Expanded, found: Findings) -> None:
        self.schedule, self.role, self.program, self.found = schedule, role, program, found
        self.tensors = schedule.tensors
        self.weight_of = weights_of(schedule.tensors)
        self.values: dict[Ref, Value] = {}
        self.made: dict[Home, Contributions] = {}
        self.stepped: dict[Home, int] = {}  # how often adam has updated a weight
        self.unwritten: list[tuple[int, Ref]] = []
        self.complete: set[tuple[Home, Contributions]] = set()
        self.normed: dict[Contributions, int] = {}  # sums of norms that adam reads, and the first adam that does
        self.forms: dict[int, _Form] = {}
        micro = schedule.meta.get("grad_accum")
        most = max((call.micro for call in role.calls), default=0) + 1
        self.num_micro = micro if isinstance(micro, int) else most

    def run(self) -> None:
        values, tensors, forms = self.values, self.tensors, self.forms
        program = self.program
        for index, op in enumerate(program.ops):
            form = forms.get(id(op))
            if form is None:
                form = forms[id(op)] = self._form(op)
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
                    values[writes[at]] = (index,)
                for at in form.grown:
                    self._contribute(index, adds[at])
                    self._add(index, adds[at], (index,))
            elif form.does == "norm2":
                for ref in reads:
                    self._is_complete(index, ref)
                for ref in adds:
                    if ref not in values:
                        self._begin(index, ref, adding=True)
                    self._add(index, ref, (index,))
            elif form.does == "adam":
                self._adam(index)
        explain_unwritten(self.unwritten, program, tensors, self._say)

    # ── what each kind of op does ──

    def _form(self, op: Op) -> _Form:
        if isinstance(op, Collective):
            return _Form("copy", pairs=tuple((i, i) for i in range(len(op.dst))))
        if op.kind in COPY_KINDS:
            return _Form("copy", pairs=_zipped(op.reads, op.writes))
        if op.kind in ADD_KINDS:
            return _Form("copy", pairs=_zipped(op.reads, op.writes), added=_zipped(op.reads, op.accumulates))
        if op.kind in ("norm2", "adam"):
            return _Form(op.kind)
        return _Form(
            "work",
            fresh=tuple(i for i, ref in enumerate(op.reads) if self.weight_of[ref.name] is not None),
            made=tuple(i for i, ref in enumerate(op.writes) if self._is_gradient(ref)),
            grown=tuple(i for i, ref in enumerate(op.accumulates) if self._is_gradient(ref)),
        )

    def _is_gradient(self, ref: Ref) -> bool:
        return self.tensors[ref.name].role in ("gradient", "accumulator") and self.weight_of[ref.name] is not None

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
        self.made[home] = (*self.made.get(home, ()), index)

    def _home(self, ref: Ref) -> Home:
        weight = self.weight_of[ref.name]
        assert weight is not None
        return weight, ref.layer

    # ── rules ──

    def _is_fresh(self, index: int, ref: Ref) -> None:
        version = self.values[ref]
        if type(version) is not int:
            return
        op = self.program.ops[index]
        age = self.stepped.get(self._home(ref), 0) - version
        if age > getattr(op, "max_age", 0):
            held = "the previous step's" if version == PREVIOUS_STEP else f"version {version} of the"
            self._say(
                "versions",
                index,
                f"{ref_text(ref)} at most {getattr(op, 'max_age', 0)} steps old",
                f"{held} weights, {age} step{'s' if age > 1 else ''} old",
                (id(op), ref.name),
            )

    def _is_complete(self, index: int, ref: Ref) -> None:
        """A gradient that is about to be used must sum every contribution to its weight exactly once."""
        if self.weight_of[ref.name] is None:
            return
        home, value = self._home(ref), self.values[ref]
        if not isinstance(value, tuple):
            self._say(
                "sums", index, f"a gradient in {ref.name}", "something else", (id(self.program.ops[index]), ref.name)
            )
            return
        if (home, value) in self.complete:
            return
        self.complete.add((home, value))
        made = self.made.get(home, ())
        micros = Counter(self.program.calls[i].micro for i in made)
        whole = len(micros) == self.num_micro and len(set(micros.values())) == 1
        if whole and (value == made or sorted(value) == sorted(made)):
            return
        every = "micro-batch 0" if self.num_micro == 1 else f"each of the micro-batches 0..{self.num_micro - 1}"
        expected = f"the gradient of {ref_text(Ref(*home), self.tensors[home[0]].per_layer, False)} from {every}, once"
        op = self.program.ops[index]
        self._say("sums", index, expected, f"in {ref.name}: {self._told(value)}", (id(op), ref.name))

    def _told(self, value: Contributions) -> str:
        """Contributions by micro-batch: `micro-batch 0 twice, micro-batch 1 once`."""
        counted = Counter(self.program.calls[i].micro for i in value)
        parts = [f"micro-batch {micro} {_times(count)}" for micro, count in sorted(counted.items())]
        return (
            ", ".join(parts[:MAX_NAMED] + [f"and {len(parts) - MAX_NAMED} more"] * (len(parts) > MAX_NAMED))
            or "nothing"
        )

    def _adam(self, index: int) -> None:
        values = self.values
        states = (self.program.reads[index], self.program.writes[index])
        homes: set[Home] = set()
        with_gradient: set[Home] = set()
        for ref in states[0]:
            role = self.tensors[ref.name].role
            if self.weight_of[ref.name] is None:
                value = values[ref]
                if isinstance(value, tuple) and value:
                    self.normed.setdefault(value, index)
            elif role in ("gradient", "accumulator"):
                with_gradient.add(self._home(ref))
                self._is_complete(index, ref)
        for ref in states[1]:
            values[ref] = None
            if self.weight_of[ref.name] is not None:
                homes.add(self._home(ref))
        for home in homes:
            self.stepped[home] = self.stepped.get(home, 0) + 1
            if home not in with_gradient:
                self._say("sums", index, f"a gradient of {ref_text(Ref(*home), per_micro=False)}", "none", home)
        for ref in states[1]:
            if self.weight_of[ref.name] is not None and self.tensors[ref.name].role not in ("optimizer", "master"):
                values[ref] = self.stepped[self._home(ref)]

    # ── at the end of the step ──

    def ends(self) -> None:
        """Every weight is updated once and published; copies are renewed; the norm counts every weight once."""
        for home in self._weights():
            weight, layer = home
            title = ref_text(Ref(weight, layer), self.tensors[weight].per_layer, False)
            count = self.stepped.get(home, 0)
            if count != 1:
                self._end(
                    "sums", title, "one adam per step", "none" if not count else f"{count} of them", (weight, "adam")
                )
                continue
            got = self.values.get(Ref(weight, layer), 0)
            if got != 1:
                self._end(
                    "versions",
                    title,
                    "version 1 at its home placement when the step ends (published after its adam)",
                    f"version {got}" if isinstance(got, int) else "something that is no weight",
                    (weight, "publish"),
                )
        for ref, value in self.values.items():
            if self.tensors[ref.name].role == "copy" and value == PREVIOUS_STEP:
                title = ref_text(ref, self.tensors[ref.name].per_layer, False)
                self._end(
                    "versions", title, "written again in every step", "not written, or from itself", (ref.name, "copy")
                )
        for value, index in self.normed.items():
            self._is_whole_norm(value, index)

    def _weights(self) -> list[Home]:
        """The weights of a training step: all that the program mentions, unless it computes no gradient at all."""
        if not self.made and not self.stepped:
            return []
        named = {(ref.name, ref.layer) for ref in self.values if self.tensors[ref.name].role == "weight"}
        return sorted(named | set(self.made) | set(self.stepped))

    def _is_whole_norm(self, value: Contributions, index: int) -> None:
        counted = Counter(home for i in value for home in self._normed_by(i))
        for home in sorted(set(self.stepped) | set(counted)):
            times = counted.get(home, 0)
            if times != 1:
                title = ref_text(Ref(*home), self.tensors[home[0]].per_layer, False)
                self._say("sums", index, f"a norm that counts {title} once", _times(times), (home[0], "norm"))

    def _normed_by(self, index: int) -> Iterator[Home]:
        return (self._home(ref) for ref in self.program.reads[index] if self.weight_of[ref.name] is not None)

    def _say(self, rule: Rule, index: int, expected: str, got: str, key: object) -> None:
        op, call = self.program.ops[index], self.program.calls[index]
        ranks = ranks_of(op, self.role.name, len(self.schedule.roles))
        self.found.add(rule, title_of(op, call), ranks, expected, got, key=(self.role.name, key))

    def _end(self, rule: Rule, title: str, expected: str, got: str, key: object) -> None:
        ranks = "all ranks" if len(self.schedule.roles) == 1 else f"ranks of role {self.role.name}"
        self.found.add(rule, f"end of step: {title}", ranks, expected, got, key=(self.role.name, key))


def _zipped(left: tuple[Ref, ...], right: tuple[Ref, ...]) -> tuple[tuple[int, int], ...]:
    return tuple((i, i) for i in range(min(len(left), len(right))))


def _times(count: int) -> str:
    return {0: "not at all", 1: "once", 2: "twice"}.get(count, f"{count} times")
