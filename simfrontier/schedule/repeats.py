"""Repeats: calls as nested loops, operands as runs over layers, so that neither grows with layers or micro-batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from simfrontier.schedule.ir import Call, Op, Ref


class Step(NamedTuple):
    """One call, told from the call before it (the first from layer 0 of micro-batch 0)."""

    label: str
    block: int
    layer: int
    micro: int


@dataclass(frozen=True, slots=True)
class Loop:
    """A sequence that is run `times` times over."""

    times: int
    body: tuple[Item, ...]


Item = Step | Loop


def steps_of_calls(calls: Iterable[Call], number: dict[int, int]) -> list[Step]:
    """Each call as a step; `number` says which block the tuple of ops with this `id` is."""
    out = []
    layer = micro = 0
    for call in calls:
        out.append(Step(call.label, number[id(call.ops)], call.layer - layer, call.micro - micro))
        layer, micro = call.layer, call.micro
    return out


def folded(steps: Iterable[Step]) -> tuple[Item, ...]:
    """The steps with every sequence that follows itself as a loop; short periods first, so that the form is unique."""
    items: list[Item] = list(steps)
    period = 1
    while 2 * period <= len(items):
        items = _fold(items, period)
        period += 1
    return tuple(items)


def _fold(items: list[Item], period: int) -> list[Item]:
    """One pass: runs of at least two equal stretches of `period` items become loops."""
    out: list[Item] = []
    at, size = 0, len(items)
    while at < size:
        times = 1
        if at + 2 * period <= size and items[at] == items[at + period]:
            body = items[at : at + period]
            while items[at + times * period : at + (times + 1) * period] == body:
                times += 1
        if times > 1:
            out.append(Loop(times, tuple(body)))
            at += times * period
        else:
            out.append(items[at])
            at += 1
    return out


def num_steps(items: Iterable[Item]) -> int:
    """How many calls the loops mean, without running them."""
    return sum(1 if isinstance(item, Step) else item.times * num_steps(item.body) for item in items)


def unfolded(items: Iterable[Item]) -> Iterator[Step]:
    """The steps, loops run."""
    for item in items:
        if isinstance(item, Step):
            yield item
        else:
            for _ in range(item.times):
                yield from unfolded(item.body)


def calls_of_steps(steps: Iterable[Step], blocks: list[tuple[Op, ...]]) -> tuple[Call, ...]:
    """The calls that the steps mean; equal blocks stay the same object."""
    out = []
    layer = micro = 0
    for step in steps:
        layer, micro = layer + step.layer, micro + step.micro
        out.append(Call(step.label, layer, micro, blocks[step.block]))
    return tuple(out)


class Run(NamedTuple):
    """Operands that stand `times` times over, each time `layer_step` layers further."""

    times: int
    refs: tuple[Ref, ...]
    layer_step: int


MIN_RUN = 16  # shorter lists of operands are stored as they are


def runs_of_refs(refs: tuple[Ref, ...]) -> list[Ref | Run]:
    """Operands of a call over many layers, with the layers as runs; a short list stays as it is."""
    out: list[Ref | Run] = []
    at, size = 0, len(refs)
    while at < size:
        run = _run_at(refs, at) if size >= MIN_RUN else None
        out.append(run or refs[at])
        at += run.times * len(run.refs) if run else 1
    return out


def _run_at(refs: tuple[Ref, ...], at: int) -> Run | None:
    """The run that starts at a position: its period is the way to the next operand of the same name."""
    first = refs[at]
    again = next((i for i in range(at + 1, len(refs)) if refs[i].name == first.name), None)
    if again is None:
        return None
    period, step, times = again - at, refs[again].layer - first.layer, 1
    while refs[at + times * period : at + (times + 1) * period] == _shifted(refs[at : at + period], times * step):
        times += 1
    return Run(times, refs[at : at + period], step) if times > 1 else None


def _shifted(refs: tuple[Ref, ...], layers: int) -> tuple[Ref, ...]:
    return tuple(Ref(ref.name, ref.layer + layers, ref.micro) for ref in refs)


def refs_of_run(run: Run) -> Iterator[Ref]:
    """The operands that a run means."""
    for time in range(run.times):
        yield from _shifted(run.refs, time * run.layer_step)
