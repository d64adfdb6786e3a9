"""Faults of an executor, by name: wrong scales, moves that are left out or go astray, stale values, wrong sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from simfrontier.core.program.ir import Collective, Compute, Exchange, Op
from simfrontier_real.ops.codecs import Encoded
from simfrontier_real.train.train import TrainingRank
from tests.real.mutation.hooks import (
    Change,
    after,
    dtype_of,
    is_collective,
    left_out,
    on_messages,
    own_alone,
    twice,
    where,
)
from tests.real.mutation.optimizer_faults import OPTIMIZER
from tests.real.mutation.seams import Fault, Memory, Messages, Place, copied, is_exchange, outputs, same, values_of

GRADIENTS: Final = ("gradient", "step_reduction")  # names of moves
WEIGHTS: Final = ("weight_gather", "copy_gather", "publish")
ACTIVATIONS: Final = ("activation", "input_gradient", "input_gather")
STATISTICS: Final = ("statistic",)
LOSSES: Final = ("loss", "contrast", "cluster")


# ── what collectives send and bring ──


def _scaled(factor: Callable[[Place], float]) -> Change:
    """Numbers times a factor: plain ones, or the scales of coded ones."""

    def change(at: Place, messages: Messages) -> Messages:
        *above, last = messages
        if not np.issubdtype(np.asarray(last).dtype, np.floating):
            return messages
        return (*above, last * type(np.asarray(last).flat[0])(factor(at)))

    return change


def _own(at: Place, results: Messages) -> Messages:
    """Its own contribution in place of everybody's: as large, so that nothing looks amiss."""
    assert isinstance(at.op, Collective)
    out = []
    for result, sent in zip(results, at.sent, strict=True):
        if at.op.kind == "all_gather":
            mine = np.broadcast_to(sent.reshape(1, -1), (len(at.members), sent.size))
        elif result.shape == sent.shape and at.op.kind == "all_reduce":
            mine = sent * len(at.members)
        elif result.ndim == 2:  # coded: contributions that are still to be added up
            mine = np.broadcast_to(sent[at.number], (len(at.members), sent.shape[1]))
        else:
            mine = sent[at.number] * len(at.members)
        out.append(np.ascontiguousarray(mine).reshape(result.shape) if mine.size == result.size else result)
    return tuple(out)


def _zeros_of(which: Callable[[Place], bool]) -> Change:
    """Contributions of zero from some members (coded: by their scales, or as zfp writes zeros)."""

    def change(at: Place, messages: Messages) -> Messages:
        assert isinstance(at.op, Collective)
        if at.op.codec.is_measured or not which(at):
            return messages
        *above, last = messages
        return (*above, np.zeros_like(last))

    return change


def _last(at: Place) -> bool:
    return at.number == len(at.members) - 1 > 0


def _rolled_rows(at: Place, messages: Messages) -> Messages:
    return tuple(np.roll(each, 1, axis=0) if each.ndim == 2 else each for each in messages)


def _swapped_rows(at: Place, results: Messages) -> Messages:
    """The pieces of the first two members in each other's place."""
    order = [1, 0, *range(2, len(at.members))]
    return tuple(each.reshape(len(at.members), -1)[order].reshape(each.shape) for each in results)


def _transposed(at: Place, messages: Messages) -> Messages:
    """Pieces in the order of elements where elements in the order of pieces are due."""
    n = len(at.members)
    return tuple(np.ascontiguousarray(each.reshape(-1, n).T).reshape(each.shape) for each in messages)


def _narrowed(at: Place, results: Messages) -> Messages:
    narrower = {"float64": "float32", "float32": "float16"}
    return tuple(each.astype(narrower.get(str(each.dtype), each.dtype)).astype(each.dtype) for each in results)


def _stale(at: Place, results: Messages) -> Messages:
    """What the same call brought in the step before."""
    before = at.memory.kept.get(at.index)
    at.memory.kept[at.index] = tuple(copied(each) for each in results)
    fits = before is not None and [b.shape for b in before] == [r.shape for r in results]
    return before if fits else results


def _earlier(at: Place, results: Messages) -> Messages:
    """What the call of the same name for the layer before brought."""
    key = at.op.name, tuple(each.shape for each in results)
    before = at.memory.kept.get(key)
    at.memory.kept[key] = tuple(copied(each) for each in results)
    return before if before is not None and at.layer == 1 else results


def _half(at: Place, results: Messages) -> Messages:
    """The second half never arrived: what was there before is zero."""
    out = tuple(copied(each) for each in results)
    for each in out:
        each.reshape(-1)[each.size // 2 :] = 0
    return out


def _shifted_levels(at: Place, results: Messages) -> Messages:
    """Levels of int8 and int4 taken to be one higher."""
    assert isinstance(at.op, Collective)
    if not at.op.codec.is_quantised:
        return results
    one = 1 if at.op.codec.name == "int8" else 0x11
    higher = np.minimum(np.asarray(results[0]).astype(np.uint16) + one, 255)
    return (at.context.backend.array(higher.astype(np.uint8), "uint8"), *results[1:])


def _rolled_scales(at: Place, results: Messages) -> Messages:
    """Every block read by the scale of its neighbour in the message; of short ones, of the next member."""
    assert isinstance(at.op, Collective)
    if not at.op.codec.is_quantised:
        return results
    data, scales = results
    return data, np.roll(scales.reshape(-1), 1).reshape(scales.shape)


def _moves(label: str, names: tuple[str, ...]) -> Iterator[Fault]:
    """Faults of the sums and gathers of one kind of values."""
    sums, gathers, scatters = ("reduce_scatter", "all_reduce"), ("all_gather",), ("reduce_scatter",)

    def about(kinds: tuple[str, ...]) -> Callable[[Op], bool]:
        return lambda op: is_collective(op, names, *kinds)

    def brings(what: str, change: Change, kinds: tuple[str, ...]) -> Fault:
        return Fault(f"{label}: {what}", brings=on_messages(names, change, *kinds), concerns=about(kinds))

    def sends(what: str, change: Change, kinds: tuple[str, ...]) -> Fault:
        return Fault(f"{label}: {what}", sends=on_messages(names, change, *kinds), concerns=about(kinds))

    yield brings("sum left out, own × members", _own, sums)
    yield brings("sum left out, own alone", own_alone, sums)
    yield brings("mean for sum", _scaled(lambda at: 1 / len(at.members)), sums)
    yield brings("sum × members", _scaled(lambda at: len(at.members)), sums)
    yield brings("sum × 1.0001", _scaled(lambda at: 1.0001), sums)
    yield sends("sum lacks the last member", _zeros_of(_last), sums)
    yield sends("sum counts the last member twice", _scaled(lambda at: 2.0 if _last(at) else 1.0), sums)
    yield Fault(f"{label}: maximum for sum", reduction=_maximum(names), concerns=about(("all_reduce",)))
    yield sends("slice of another member", _rolled_rows, scatters)
    yield sends("pieces to scatter transposed", _transposed, scatters)
    yield brings("sum in a narrower type", _narrowed, sums)
    yield brings("sum of the step before", _stale, sums)
    yield brings("second half of the sum lost", _half, sums)
    yield brings("gather left out", _own, gathers)
    yield brings("gathered pieces swapped", _swapped_rows, gathers)
    yield brings("gathered pieces transposed", _transposed, gathers)
    yield brings("gather of the step before", _stale, gathers)
    yield brings("gather of another layer", _earlier, gathers)
    yield brings("gathered × 1.0001", _scaled(lambda at: 1.0001), gathers)
    yield brings("second half of the gather lost", _half, gathers)


def _maximum(names: tuple[str, ...]) -> Callable[[Place, Any], Any]:
    def hook(at: Place, how: Any) -> Any:
        if not is_collective(at.op, names) or how == "max" or len(at.members) < 2:
            return how
        at.memory.fired += 1
        return "max"

    return hook


def _exchanges() -> Iterator[Fault]:
    def on(change: Change) -> Change:
        def hook(at: Place, results: Messages) -> Messages:
            if not is_exchange(at) or not results or results[0] is None:
                return results
            return at.changed(results, change(at, results))  # type: ignore[no-any-return]

        return hook

    def earlier(at: Place, results: Messages) -> Messages:
        key = at.op.name, results[0].shape
        before, at.memory.kept[key] = at.memory.kept.get(key), (results[0].copy(),)
        return results if before is None else before  # type: ignore[no-any-return]

    def scaled(at: Place, results: Messages) -> Messages:
        if results[0].dtype == np.uint8:
            return results
        return (results[0] * type(results[0].flat[0])(1.0001),)

    def halves(at: Place, results: Messages) -> Messages:
        return (np.roll(results[0], results[0].size // 2),)

    yield Fault("exchange: message of the micro-batch before", brings=on(earlier))
    yield Fault("exchange: message of the step before", brings=on(_stale))
    yield Fault("exchange: × 1.0001", brings=on(scaled))
    yield Fault("exchange: second half lost", brings=on(_half))
    yield Fault("exchange: halves swapped", brings=on(halves))


# ── ops ──


def _times(at: Place, factor: float) -> None:
    for ref in outputs(at):
        if at.context.schedule.tensors[ref.name].role == "activation":
            values = at.context.buffers[ref]
            at.context.buffers[ref] = at.context.backend.cast(values * factor, dtype_of(at, ref))


def _batch_ranks(at: Place) -> float:
    """Among how many ranks the rows of the batch are divided."""
    assert isinstance(at.op, Compute)
    label, size = at.op.iteration[0]
    return size / at.op.local_sizes(at.context.schedule.mesh)[label]


def _overwritten(at: Place, go: Callable[[], None]) -> None:
    """What it adds takes the place of what is there."""
    _, _, added = at.context.operands(at.index)
    held = values_of(at, added)
    for ref in added:
        at.context.buffers.by_ref.pop(ref, None)
    go()
    at.memory.fired += any(each is not None and bool(np.any(each)) for each in held)


def _uncleared(at: Place, go: Callable[[], None]) -> None:
    """Sums go on where the step before ended."""
    _, _, added = at.context.operands(at.index)
    for ref in added:
        old = at.memory.kept.get(ref)
        if old is not None and old[0] < at.step and ref not in at.context.buffers:
            at.context.buffers[ref] = copied(old[1])
            at.memory.fired += bool(np.any(old[1]))
    go()
    for ref in added:
        at.memory.kept[ref] = at.step, copied(at.context.buffers[ref])


# ── the data, the loss ──


def _labels_swapped(rank: TrainingRank, number: int, memory: Memory) -> None:
    labels = rank.training_state.labels
    if len(labels) > 1:
        memory.fired += not same(labels[0], labels[1])
        labels[0], labels[1] = labels[1], labels[0]


def _labels_of_the_first_step(rank: TrainingRank, number: int, memory: Memory) -> None:
    first = memory.kept.setdefault("labels", dict(rank.training_state.labels))
    memory.fired += any(not same(first[micro], each) for micro, each in rank.training_state.labels.items())
    rank.training_state.labels.update(first)


def _first_micro_batch_again(rank: TrainingRank, number: int, memory: Memory) -> None:
    held, labels = rank.context.buffers.by_ref, rank.training_state.labels
    inputs = {ref for ref in held if ref.micro == 1 and ref._replace(micro=0) in held and ref.name in rank.inputs}
    for ref in inputs:
        memory.fired += not same(held[ref], held[ref._replace(micro=0)])
        held[ref] = held[ref._replace(micro=0)]
    if 1 in labels:
        memory.fired += not same(labels[1], labels[0])
        labels[1] = labels[0]


def _loss_counted_twice(at: Place, go: Callable[[], None]) -> None:
    go()
    losses = at.rank.training_state.losses
    for micro, loss in losses.items():
        if micro not in at.memory.kept.setdefault(at.step, set()):
            at.memory.kept[at.step].add(micro)
            losses[micro] = at.changed(loss, loss * 2)


# ── codecs ──


def _double_scales(at: Place) -> None:
    for ref in outputs(at):
        held = at.context.buffers.by_ref.get(ref)
        if isinstance(held, Encoded) and held.scales is not None:
            at.context.buffers[ref] = Encoded(held.data, held.scales * np.float32(2))


def _old_codes(at: Place, go: Callable[[], None]) -> None:
    """What was coded in the step before."""
    go()
    for ref in outputs(at):
        new = at.context.buffers.by_ref.get(ref)
        if isinstance(new, Encoded):
            step, old = at.memory.kept.get(ref, (at.step, None))
            if step < at.step and same(old.data.shape, new.data.shape):
                at.context.buffers[ref] = at.changed(new, old)
            at.memory.kept[ref] = at.step, copied(new)


def _one_contribution(at: Place, go: Callable[[], None]) -> None:
    """Of coded contributions only the first is added up."""
    for ref in at.context.program.reads[at.index]:
        held = at.context.buffers.by_ref.get(ref)
        if isinstance(held, Encoded) and held.data.shape[0] > 1:
            data, scales = copied(held.data), copied(held.scales)
            if scales is not None:
                scales[1:] = 0
            elif data.dtype != np.uint8 or not at.op.name or at.context.schedule.tensors[ref.name].codec.name == "zfp":
                data[1:] = 0
            at.context.buffers[ref] = at.changed(held, Encoded(data, scales))
    go()


def _codecs() -> Iterator[Fault]:
    coded = (*GRADIENTS, *WEIGHTS, *ACTIVATIONS)
    yield Fault("codec: scales doubled", run=after(("encode",), _double_scales))
    yield Fault("codec: scales of another block", brings=on_messages(coded, _rolled_scales))
    yield Fault("codec: levels off by one", brings=on_messages(coded, _shifted_levels))
    yield Fault("codec: codes of the step before", run=where(("encode",), _old_codes))
    yield Fault(
        "codec: weights' codes of the step before",
        run=where(("encode",), _old_codes, lambda at: at.op.name in WEIGHTS),
    )
    yield Fault("codec: one contribution of all", run=where(("decode_sum",), _one_contribution))


def _quantised() -> Iterator[Fault]:
    """int8 and int4 that round or scale otherwise than they say."""

    def rounds(what: str, how: Callable[[Any, Any], Any]) -> Fault:
        return Fault(f"codec: {what}", codec={"_nearest": lambda sound, backend, values: how(backend.xp, values)})

    def scaled(by: int) -> Callable[..., Any]:
        return lambda sound, backend, peaks, largest: sound(backend, peaks * (largest / (largest + by)), largest)

    yield rounds("rounds down", lambda xp, values: xp.floor(values))
    yield rounds("rounds up", lambda xp, values: xp.ceil(values))
    yield rounds("rounds towards zero", lambda xp, values: xp.trunc(values))
    yield rounds("rounds a quarter of a step too high", lambda xp, values: xp.round(values + 0.25))
    yield rounds("saturates a level early", _early)
    yield Fault("codec: scale of a level more", codec={"_scales": scaled(1)})
    yield Fault("codec: scale of a level less", codec={"_scales": scaled(-1)})


def _early(xp: Any, values: Any) -> Any:
    """Levels up to 6 or 126."""
    highest = 6 if float(xp.max(xp.abs(values))) < 8 else 126
    return xp.clip(xp.round(values), -highest, highest)


def _states() -> Iterator[Fault]:
    yield Fault("teacher: does not follow", run=where(("ema",), left_out))
    yield Fault("teacher: follows twice", run=where(("ema",), twice))
    yield Fault("queues: nothing enters", run=where(("enqueue",), left_out))
    yield Fault("queues: rows enter twice", run=where(("enqueue",), twice))
    yield Fault("centre: does not move", run=where(("centre",), left_out))
    yield Fault("centre: moves twice", run=where(("centre",), twice))


def _about(concerns: Callable[[Op], bool], faults: Iterator[Fault]) -> Iterator[Fault]:
    return (replace(fault, concerns=concerns) for fault in faults)


ALL: Final[tuple[Fault, ...]] = (
    Fault("loss: gradient × 4", run=after(LOSSES, lambda at: _times(at, 4.0))),
    Fault("loss: gradient × 1.0001", run=after(LOSSES, lambda at: _times(at, 1.0001))),
    Fault("loss: not divided by ranks", run=after(LOSSES, lambda at: _times(at, _batch_ranks(at)))),
    Fault(
        "loss: not divided by micro-batches",
        run=after(LOSSES, lambda at: _times(at, at.rank.training_state.grad_accum)),
    ),
    Fault("loss: counted twice", run=where(LOSSES, _loss_counted_twice)),
    Fault("loss: labels of another micro-batch", loads=_labels_swapped),
    Fault("loss: labels of the first step", loads=_labels_of_the_first_step),
    Fault("data: first micro-batch twice", loads=_first_micro_batch_again),
    Fault("accumulate: first micro-batch dropped", run=where(("accumulate",), left_out, lambda at: at.micro == 0)),
    Fault("accumulate: second micro-batch twice", run=where(("accumulate",), twice, lambda at: at.micro == 1)),
    Fault("accumulate: overwritten", run=where(("accumulate", "matmul", "norm", "decode_sum"), _overwritten)),
    Fault("accumulate: not cleared", run=where(("accumulate", "matmul", "norm", "decode_sum"), _uncleared)),
    *OPTIMIZER,
    *_moves("gradients", GRADIENTS),
    *_moves("weights", WEIGHTS),
    *_moves("activations", ACTIVATIONS),
    *_moves("statistics", STATISTICS),
    *_about(lambda op: isinstance(op, Exchange), _exchanges()),
    *_about(lambda op: not isinstance(op, Compute) and op.codec.is_opaque, _codecs()),
    *_about(lambda op: not isinstance(op, Compute) and op.codec.is_quantised, _quantised()),
    *_about(lambda op: op.kind in ("ema", "enqueue", "centre"), _states()),
)
BY_NAME: Final = {fault.name: fault for fault in ALL}
