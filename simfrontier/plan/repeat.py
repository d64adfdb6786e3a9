"""Micro-batches that repeat: the calls of many out of the calls of few, where those in the middle are alike.

What a pass decides in one micro-batch depends on what it decided in the one before. Where two neighbours have equal
calls, which make as much as one micro-batch needs, so have all that would stand between them and the last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from simfrontier.schedule import Call, Tensor

FEW = 4  # the first, the last, and two between them
Build = Callable[[int], tuple[tuple[Call, ...], Mapping[str, Tensor]]]


def repeated(build: Build, num_micro: int) -> tuple[tuple[Call, ...], Mapping[str, Tensor]]:
    """The calls and tensors that `build` makes of so many micro-batches, built of fewer where they repeat."""
    few = FEW
    while few < num_micro:
        calls, tensors = build(few)
        middle = _middle(calls, tensors, few)
        if middle is not None:
            return _with_more(calls, middle, num_micro - few), tensors
        few *= 2
    return build(num_micro)


def _middle(calls: tuple[Call, ...], tensors: Mapping[str, Tensor], few: int) -> range | None:
    """Where the calls of a micro-batch stand that the next one repeats; None where it does not."""
    micro = few // 2 - 1
    first: dict[int, int] = {}
    for index, call in enumerate(calls):
        first.setdefault(call.micro, index)
    if not {micro, micro + 1, micro + 2} <= first.keys():
        return None
    own, after = range(first[micro], first[micro + 1]), range(first[micro + 1], first[micro + 2])
    if {calls[at].micro for at in own} != {micro} or {calls[at].micro for at in after} != {micro + 1}:
        return None
    forms = [[(calls[at].label, calls[at].layer, calls[at].block) for at in each] for each in (own, after)]
    return own if forms[0] == forms[1] and _is_whole(calls, tensors, own, micro) else None


def _is_whole(calls: tuple[Call, ...], tensors: Mapping[str, Tensor], own: range, micro: int) -> bool:
    """Whether the calls of a micro-batch write as many instances of all tensors as there are of the micro-batch, and no
    call of the end of the step is about a later one."""
    by_calls: Counter[str] = Counter()
    of_micro: Counter[str] = Counter()
    for index, call in enumerate(calls):
        for op in call.ops:
            for ref in (*op.writes, *op.accumulates):
                if tensors[ref.name].per_micro:
                    by_calls[ref.name] += index in own
                    of_micro[ref.name] += call.micro + ref.micro == micro
            if index >= own.stop and call.micro < micro:
                refs = (*op.reads, *op.writes, *op.accumulates)
                if any(ref.micro and tensors[ref.name].per_micro for ref in refs):
                    return False
    return by_calls == of_micro


def _with_more(calls: tuple[Call, ...], middle: range, more: int) -> tuple[Call, ...]:
    micro = calls[middle.start].micro
    own = calls[middle.start : middle.stop]
    out = list(calls[: middle.stop])
    for further in range(1, more + 1):
        out += [Call(call.label, call.layer, call.micro + further, call.ops, call.block) for call in own]
    for call in calls[middle.stop :]:
        later = call.micro + more if call.micro > micro else call.micro
        out.append(Call(call.label, call.layer, later, call.ops, call.block))
    return tuple(out)
