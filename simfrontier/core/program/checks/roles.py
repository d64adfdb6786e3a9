"""Rules of reads and writes: operands by role, states written once a step, no read before a write, nothing computed in
vain."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from simfrontier.core.program.expansion import UnrolledProgram
from simfrontier.core.program.finding import CheckedRole, Fault, place_of, short_title, title_of
from simfrontier.core.program.ir import GRADIENT_ROLES, Compute, Op, Ref, Schedule, Tensor
from simfrontier.core.program.kinds import KINDS, renews_weights, writes_mask
from simfrontier.core.program.op_kind import CallKind, CopyKind

_GIVES: Final = frozenset({"weight", "copy", "gathered", "gradient", "accumulator", "encoded"})
_SUMS: Final = frozenset({"gradient", "accumulator", "encoded"})  # of a weight's tensors
_WORK: Final = {
    "reads": frozenset({"activation", "weight", "copy", "gathered", "state", "constant", "token"}),
    "writes": frozenset({"activation", "gradient", "state", "token"}),
    "accumulates": GRADIENT_ROLES,
}


def roles_of_work(op: Compute, tensors: Mapping[str, Tensor]) -> Iterator[Fault]:
    """Work of the model reads values, weights and states, and makes values, gradients and states."""
    for access, allowed in _WORK.items():
        refs: tuple[Ref, ...] = getattr(op, access)
        for ref in refs:
            tensor = tensors[ref.name]
            if tensor.role not in allowed:
                yield f"{ref.name}, which it {access}, with one of the roles {', '.join(sorted(allowed))}", tensor.role
            elif tensor.codec is not None:
                yield f"{ref.name}, which it {access}, not coded", f"coded as {tensor.codec}"
            elif not (tensor.per_micro or tensor.persistent):
                yield f"{ref.name} of a micro-batch, as all that passes through the model", "one for all micro-batches"


def roles_of_pair(kind: str, src: Tensor, dst: Tensor, weight: str | None) -> Iterator[Fault]:
    """The roles that a collective, an exchange or a local move may read and write."""
    known = KINDS[kind]
    sums = known.sums if isinstance(known, CallKind) else isinstance(known, CopyKind) and known.adds
    allowed = (_SUMS if sums else _GIVES) if weight is not None else {src.role, "encoded"}
    if src.role == "norms" and sums:  # of a weight and its update, over all ranks that have parts of them
        allowed = frozenset({"norms"})
    if weight is None and src.role == "encoded":
        allowed = {"encoded", "activation"}
    for end in (src, dst):
        if end.role not in allowed and "token" not in (src.role, dst.role):
            yield f"{end.name} with one of the roles {', '.join(sorted(allowed))} in {_a(kind)}", end.role
    if src.per_layer != dst.per_layer:
        yield f"{dst.name} {_of_layers(src)}, as {src.name} is", _of_layers(dst)
    if src.per_micro != dst.per_micro and not (src.persistent or dst.persistent):
        of = {True: "of a micro-batch", False: "of no micro-batch"}
        yield f"{dst.name} {of[src.per_micro]}, as {src.name} is", of[dst.per_micro]


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _of_layers(tensor: Tensor) -> str:
    return "of every layer" if tensor.per_layer else "of no layer"


Moment = tuple[Ref, int]


def check_states(schedule: Schedule, roles: Sequence[CheckedRole]) -> None:
    """Every state that a role touches is written once, by the last op that touches it: in a step where it follows a
    weight, else in every micro-batch. A constant never is."""
    if any(tensor.role in ("state", "constant") for tensor in schedule.tensors.values()):
        for checked in roles:
            _Walk(checked).run()


class _Walk:
    """One role's way through its program."""

    def __init__(self, checked: CheckedRole) -> None:
        self.checked, self.program, self.tensors = checked, checked.program, checked.schedule.tensors
        self.kind = {name: tensor.role for name, tensor in self.tensors.items()}

    def run(self) -> None:
        """Walk to the end."""
        touched: dict[Moment, None] = {}
        written: dict[Moment, Op] = {}
        for index, op in enumerate(self.program.ops):
            for ref in self.program.reads[index]:
                if self.kind[ref.name] == "state":
                    moment = self._moment(ref, index)
                    touched[moment] = None
                    if moment in written:
                        self._report(index, f"{self.checked.text(ref)} as it was before", self._by(written[moment]))
            for ref in self.program.writes[index]:
                if self.kind[ref.name] == "constant":
                    self._report(index, f"{self.checked.text(ref)} never written", "written")
                elif self.kind[ref.name] == "state":
                    moment = self._moment(ref, index)
                    touched[moment] = None
                    if moment in written:
                        self._report(index, f"{self.checked.text(ref)} written once", self._by(written[moment]))
                    written[moment] = op
        for moment in touched:
            if moment not in written:
                self._report_end(*moment)

    def _moment(self, ref: Ref, index: int) -> Moment:
        """The state that an op means, and the micro-batch in which it changes: 0 for one that changes when the step
        ends."""
        return ref, self.program.calls[index].micro if self.tensors[ref.name].follows is None else 0

    def _by(self, op: Op) -> str:
        return f"written anew before, by {short_title(op)}"

    def _report(self, index: int, expected: str, got: str) -> None:
        self.checked.report("versions", index, expected, got, (self.program.ops[index].number, got))

    def _report_end(self, ref: Ref, micro: int) -> None:
        of = "of step" if self.tensors[ref.name].follows else f"of micro-batch {micro}"
        title = f"end {of}: {self.checked.text(ref)}"
        self.checked.report_end("versions", title, "written anew", "not written", (ref.name, "end"))


MAX_LISTED = 20  # cycles looked for; a broken schedule may have thousands of such reads


def explain_unwritten(unwritten: list[tuple[int, Ref]], checked: CheckedRole) -> None:
    """Report what is wrong with each (op, reference) that is read before any write."""
    if not unwritten:
        return
    program, report = checked.program, checked.report
    writers = _writers(program)
    for number, (index, ref) in enumerate(unwritten):
        what = checked.text(ref)
        key = (program.ops[index].number, ref.name)
        later = [i for i in writers.get(ref, ()) if i >= index]
        if not later:
            report("references", index, f"{what} written by an op before", "no op writes it", key)
            continue
        cycle = _cycle(index, later[0], program, writers, checked.schedule.tensors) if number < MAX_LISTED else None
        if cycle is None:
            by = title_of(program.ops[later[0]], program.calls[later[0]])
            report("references", index, f"{what} written by an op before", f"it is written later, by {by}", key)
        else:
            text = " → ".join(f"{short_title(program.ops[i])} ({place_of(program.calls[i])})" for i in cycle)
            report("references", index, f"{what} from an op that does not need this one", f"a cycle: {text}", key)


def _writers(program: UnrolledProgram) -> dict[Ref, list[int]]:
    out: dict[Ref, list[int]] = {}
    for index in range(program.num_ops):
        for ref in (*program.writes[index], *program.accumulates[index]):
            out.setdefault(ref, []).append(index)
    return out


def _cycle(
    reader: int, writer: int, program: UnrolledProgram, writers: dict[Ref, list[int]], tensors: Mapping[str, Tensor]
) -> list[int] | None:
    """The ops from `reader` to `writer` and back to it, each needed by the next; None where there is no such path."""
    previous: dict[int, int] = {writer: -1}  # op → the op that needs it
    waiting = deque([writer])
    while waiting:
        index = waiting.popleft()
        if index == reader:
            path = [index]
            while previous[path[-1]] >= 0:
                path.append(previous[path[-1]])
            return [*path, reader]
        for ref in (*program.reads[index], *program.accumulates[index]):
            by = writers.get(ref, [])
            needed = [i for i in by if i < index][-1:]
            if not needed and not tensors[ref.name].persistent:
                needed = [i for i in by if i > index][:1]
            for source in needed:
                if source not in previous:
                    previous[source] = index
                    waiting.append(source)
    return None


READ: Final = "read by an op later"


def check_unread(schedule: Schedule, roles: Sequence[CheckedRole]) -> None:
    """A value, gradient, sum or code that is written is read before the step ends, and before it is written again; a
    value, which the backward pass may need, is never written again.
    Tokens may be written for whoever asks; what a layer that is computed again passes on is left, and the mask of a
    dropout that is."""
    if not any(renews_weights(op) for op in schedule.distinct_ops()):
        return
    tensors = schedule.tensors
    watched = {name for name, tensor in tensors.items() if not tensor.persistent and tensor.role != "token"}
    values = {name for name in watched if tensors[name].role == "activation"}
    remade = {tensor.recomputes for tensor in tensors.values() if tensor.recomputes}
    again = {name for name in watched if tensors[name].form_of or tensors[name].recomputes}
    for checked in roles:
        program = checked.program
        waiting: dict[Ref, int] = {}
        written: set[Ref] = set()
        for index in range(program.num_ops):
            for ref in program.reads[index]:
                waiting.pop(ref, None)
            masks = program.writes[index][1:] if writes_mask(program.ops[index]) else ()
            for ref in program.writes[index]:
                if ref.name in values:
                    if ref in written:
                        _report(checked, index, ref, "written once", "written twice")
                    written.add(ref)
                if ref.name not in watched or (ref.name in again and ref.layer == program.calls[index].layer + 1):
                    continue
                if ref in masks and ref.name in remade:
                    continue
                if ref in waiting:
                    _report(checked, waiting[ref], ref, READ, "written again before it is")
                waiting[ref] = index
        for ref, index in waiting.items():
            _report(checked, index, ref, READ, "read by none")


def _report(checked: CheckedRole, index: int, ref: Ref, expected: str, got: str) -> None:
    key = (checked.program.ops[index].number, ref.name, got)
    checked.report("references", index, f"{checked.text(ref)} {expected}", got, key)
