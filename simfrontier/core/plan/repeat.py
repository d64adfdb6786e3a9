"""Micro-batches that repeat: the calls of many out of the calls of few, where those in the middle are alike.

What a pass decides in one micro-batch depends on what it decided in the one before. Where two neighbours have equal
calls, which make as much as one micro-batch needs, so have all that would stand between them and the last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from simfrontier.core.program import Call, Compute, Op, Ref, Tensor

Calls = tuple[Call, ...]
Built = tuple[Calls, Mapping[str, Tensor]]
Build = Callable[[int], Built]
Axis = Literal["layer", "micro"]

FEW = 4  # the first, the last, and two between them


def repeated(build: Build, num_micro: int, hooks_back: int) -> Built:
    """The calls and tensors that `build` makes of so many micro-batches, built of fewer where they repeat; a hook may
    wait for the fetches of the one so many hooks before it."""
    few = FEW
    while few < num_micro:
        calls, tensors = build(few)
        middle = _middle(calls, tensors, few // 2 - 1)
        if middle is not None and hooks_wait(calls, middle.start, hooks_back):
            return _with_more(calls, middle, num_micro - few), tensors
        few *= 2
    return build(num_micro)


def _middle(calls: Calls, tensors: Mapping[str, Tensor], micro: int) -> range | None:
    """Where the calls of a micro-batch stand that the next one repeats; None where it does not."""
    first: dict[int, int] = {}
    for index, call in enumerate(calls):
        first.setdefault(call.micro, index)
    if not {micro, micro + 1, micro + 2} <= first.keys():
        return None
    own, after = range(first[micro], first[micro + 1]), range(first[micro + 1], first[micro + 2])
    if {calls[at].micro for at in own} != {micro} or {calls[at].micro for at in after} != {micro + 1}:
        return None
    forms = [[(calls[at].label, calls[at].layer, calls[at].block) for at in each] for each in (own, after)]
    if forms[0] != forms[1] or not is_whole(calls, tensors, set(own), "micro", range(micro, micro + 1)):
        return None
    at_end = [call for call in calls[own.stop :] if call.micro < micro]
    return None if any(ref.micro for call in at_end for ref in of_axis(call.ops, tensors, "micro")) else own


def _with_more(calls: Calls, middle: range, more: int) -> Calls:
    micro = calls[middle.start].micro
    own = calls[middle.start : middle.stop]
    out = list(calls[: middle.stop])
    for further in range(1, more + 1):
        out += [Call(call.label, call.layer, call.micro + further, call.ops, call.block) for call in own]
    for call in calls[middle.stop :]:
        later = call.micro + more if call.micro > micro else call.micro
        out.append(Call(call.label, call.layer, later, call.ops, call.block))
    return tuple(out)


def is_whole(
    calls: Calls,
    tensors: Mapping[str, Tensor],
    own: set[int],
    axis: Axis,
    places: range,
    of_all: frozenset[int] = frozenset(),
) -> bool:
    """Whether some calls change as many instances of every tensor as there are of some layers or micro-batches, but for
    those that are changed by calls `of_all` of them."""
    by_calls: Counter[str] = Counter()
    of_places: Counter[str] = Counter()
    for index, call in enumerate(calls):
        here: int = getattr(call, axis)
        for ref in of_axis(call.ops, tensors, axis, changed=True):
            if index not in of_all:
                by_calls[ref.name] += index in own
                of_places[ref.name] += here + getattr(ref, axis) in places
    return by_calls == of_places


def hooks_wait(calls: Calls, begin: int, hooks_back: int) -> bool:
    """Whether every hook from a call on waits, where there are hooks: so many ran before it as a wait reaches back."""
    of_block = {call.block: sum(isinstance(op, Compute) and op.kind == "hook" for op in call.ops) for call in calls}
    before = sum(of_block[call.block] for call in calls[:begin])
    return before >= hooks_back or not any(of_block.values())


def of_axis(ops: Sequence[Op], tensors: Mapping[str, Tensor], axis: Axis, changed: bool = False) -> Iterator[Ref]:
    """What ops touch, or change, of the tensors of which every layer or micro-batch has its own."""
    for op in ops:
        for ref in (*(() if changed else op.reads), *op.writes, *op.accumulates):
            if getattr(tensors[ref.name], f"per_{axis}"):
                yield ref
