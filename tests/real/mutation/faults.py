"""Faults of an executor, by name: wrong scales, moves that are left out or go astray, stale values, wrong sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from simfrontier.schedule.ir import Collective, Compute, Exchange, Op, Ref
from simfrontier.schedule.kinds import MOMENT_KINDS, WEIGHT_KINDS
from simfrontier_real.codecs import Encoded
from simfrontier_real.train import TrainingRank
from tests.real.mutation.seams import (
    Fault,
    Memory,
    Messages,
    Place,
    copied,
    is_compute,
    is_exchange,
    outputs,
    same,
    values_of,
)

GRADIENTS: Final = ("gradient", "step_reduction")  # names of moves
WEIGHTS: Final = ("weight_gather", "copy_gather", "publish")
ACTIVATIONS: Final = ("activation", "input_gradient", "input_gather")
STATISTICS: Final = ("statistic",)
LOSSES: Final = ("loss", "contrast", "cluster")
Change = Callable[[Place, Messages], Messages]


# ── what collectives send and bring ──


def _is(op: Op, names: tuple[str, ...], *kinds: str) -> bool:
    return isinstance(op, Collective) and op.name in names and (not kinds or op.kind in kinds)


def _is_maximum(at: Place) -> bool:
    """Whether a collective forms a maximum: that of logits may be anything, because the loss does not depend on it."""
    assert isinstance(at.op, Collective)
    partial = dict(at.context.schedule.tensors[at.op.src[0].name].placement.partial)
    return any(partial.get(axis) == "max" for axis in at.op.axes)


def _on(names: tuple[str, ...], change: Change, *kinds: str) -> Change:
    """A change of the messages of collectives of these names (and kinds), counted where it changes something."""

    def hook(at: Place, messages: Messages) -> Messages:
        if not _is(at.op, names, *kinds) or _is_maximum(at):
            return messages
        before = tuple(copied(each) for each in messages)
        return at.changed(before, change(at, messages))  # type: ignore[no-any-return]

    return hook


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


def _own_alone(at: Place, results: Messages) -> Messages:
    """What a rank has after a reduction that never ran: its own contribution."""
    (result, *more), (sent, *_) = results, at.sent
    if more or result.ndim == 2:
        return results
    return (sent.copy() if at.op.kind == "all_reduce" else sent[at.number].copy(),)


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
        return lambda op: _is(op, names, *kinds)

    def brings(what: str, change: Change, kinds: tuple[str, ...]) -> Fault:
        return Fault(f"{label}: {what}", brings=_on(names, change, *kinds), concerns=about(kinds))

    def sends(what: str, change: Change, kinds: tuple[str, ...]) -> Fault:
        return Fault(f"{label}: {what}", sends=_on(names, change, *kinds), concerns=about(kinds))

    yield brings("sum left out, own × members", _own, sums)
    yield brings("sum left out, own alone", _own_alone, sums)
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
        if not _is(at.op, names) or how == "max" or len(at.members) < 2:
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


def _after(kinds: tuple[str, ...], change: Callable[[Place], None]) -> Callable[[Place, Callable[[], None]], None]:
    """Change outputs once an op of these kinds has run."""

    def hook(at: Place, go: Callable[[], None]) -> None:
        go()
        if is_compute(at, *kinds):
            before = values_of(at, outputs(at))
            change(at)
            at.changed(before, values_of(at, outputs(at)))

    return hook


def _times(at: Place, factor: float) -> None:
    for ref in outputs(at):
        if at.context.schedule.tensors[ref.name].role == "activation":
            values = at.context.buffers[ref]
            at.context.buffers[ref] = at.context.backend.cast(values * factor, _dtype(at, ref))


def _batch_ranks(at: Place) -> float:
    """Among how many ranks the rows of the batch are divided."""
    assert isinstance(at.op, Compute)
    label, size = at.op.iteration[0]
    return size / at.op.local_sizes(at.context.schedule.mesh)[label]


def _left_out(at: Place, go: Callable[[], None]) -> None:
    """An op that changes nothing: what it writes stays as it was, or zero where nothing was."""
    refs = outputs(at)
    before = values_of(at, refs)
    go()
    after = values_of(at, refs)
    for ref, old, new in zip(refs, before, after, strict=True):
        at.context.buffers[ref] = at.context.backend.xp.zeros_like(new) if old is None else old
        at.changed(new, at.context.buffers[ref])


def _where(
    kinds: tuple[str, ...],
    does: Callable[[Place, Callable[[], None]], None],
    when: Callable[[Place], bool] = lambda at: True,
) -> Callable[[Place, Callable[[], None]], None]:
    """Something else than an op, for those of these kinds."""

    def hook(at: Place, go: Callable[[], None]) -> None:
        if is_compute(at, *kinds) and when(at):
            does(at, go)
        else:
            go()

    return hook


def _twice(at: Place, go: Callable[[], None]) -> None:
    go()
    before = values_of(at, outputs(at))
    go()
    at.changed(before, values_of(at, outputs(at)))


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


# ── the optimizer ──


def _gradients(at: Place) -> list[Ref]:
    """The gradients that an op of the optimizer reads."""
    reads = at.context.program.reads[at.index]
    return [ref for ref in reads if ref.name.endswith((".grad", ".grad.reduced"))]


def _with_gradients(change: Callable[[Place, Ref, Any], Any]) -> Callable[[Place, Callable[[], None]], None]:
    """Adam, or LAMB, with other gradients than those that are there."""

    def hook(at: Place, go: Callable[[], None]) -> None:
        if is_compute(at, *MOMENT_KINDS):
            for ref in _gradients(at):
                values = at.context.buffers[ref]
                new = change(at, ref, values)
                at.context.buffers[ref] = at.changed(values, at.context.backend.cast(new, _dtype(at, ref)))
        go()

    return hook


def _dtype(at: Place, ref: Ref) -> str:
    return at.context.schedule.tensors[ref.name].dtype


def _first_of_all(at: Place, ref: Ref) -> bool:
    """Whether a gradient is the one tensor that a fault is about: the widest matrix of the first layer."""
    return ref.name.startswith("h_to_4h.weight.") and ref.layer == 0


def _old_gradient(at: Place, ref: Ref, values: Any) -> Any:
    old, at.memory.kept[ref] = at.memory.kept.get(ref), copied(values)
    return values if old is None else old


def _adam_without_one(at: Place, go: Callable[[], None]) -> None:
    """Adam leaves one tensor as it is."""
    refs = [r for r in _gradients(at) if _first_of_all(at, r)]
    kept: dict[Ref, Any] = {}
    for ref in refs:
        name = ref.name.removesuffix(".reduced").removesuffix(".grad")
        reads = {each.name: each for each in at.context.program.reads[at.index] if each.layer == ref.layer}
        kept |= {reads[n]: copied(at.context.buffers[reads[n]]) for n in (f"{name}.moments", f"{name}.master")}
    go()
    for ref, values in kept.items():
        at.context.buffers[ref] = at.changed(at.context.buffers[ref], values)
        if ref.name.endswith(".master"):
            name = ref.name.removesuffix(".master")
            for out in outputs(at):
                if out.name in (name, f"{name}.new") and out.layer == ref.layer:
                    at.context.buffers[out] = at.context.backend.cast(values, _dtype(at, out))


def _adam_left_out_on_last(at: Place, go: Callable[[], None]) -> None:
    """The last rank leaves its moments and masters as they were, and publishes what it had."""
    refs = tuple(r for r in outputs(at) if r.name.endswith((".moments", ".master")))
    before = dict(zip(refs, values_of(at, refs), strict=True))
    go()
    for ref, values in before.items():
        at.context.buffers[ref] = at.changed(at.context.buffers[ref], values)
        name = ref.name.removesuffix(".master")
        for out in outputs(at):
            if out.name in (name, f"{name}.new") and out.layer == ref.layer:
                at.context.buffers[out] = at.context.backend.cast(values, _dtype(at, out))


def _publishes_old(at: Place, go: Callable[[], None]) -> None:
    """What is published are the weights from before the step."""
    reads = [ref for ref in at.context.program.reads[at.index] if ref.name.endswith(".master")]
    before = dict(zip(reads, values_of(at, tuple(reads)), strict=True))
    go()
    for ref, values in before.items():
        name = ref.name.removesuffix(".master")
        for out in outputs(at):
            if out.name in (name, f"{name}.new") and out.layer == ref.layer:
                old = at.context.backend.cast(values, _dtype(at, out))
                at.context.buffers[out] = at.changed(at.context.buffers[out], old)


def _is_last_rank(at: Place) -> bool:
    return at.context.rank == at.context.schedule.mesh.num_ranks - 1 > 0


def _no_moments(at: Place) -> None:
    for ref in outputs(at):
        if ref.name.endswith(".moments"):
            at.context.buffers[ref] = at.context.backend.xp.zeros_like(at.context.buffers[ref])


def _other_scale(at: Place, go: Callable[[], None]) -> None:
    trainer = at.rank.trainer
    trainer.loss_scale, right = trainer.loss_scale * 2, trainer.loss_scale
    go()
    trainer.loss_scale = right
    at.memory.fired += 1


def _own_norms(at: Place, results: Messages) -> Messages:
    """Of the norms of weights and updates alone."""
    is_of_weights = at.context.schedule.tensors[at.context.program.reads[at.index][0].name].role == "norms"
    return _own_alone(at, results) if is_of_weights else results


def _norms_read(at: Place) -> list[Ref]:
    tensors = at.context.schedule.tensors
    return [ref for ref in at.context.program.reads[at.index] if tensors[ref.name].role == "norms"]


def _with_norms(at: Place, go: Callable[[], None], new: list[Any]) -> None:
    """The op with other norms, which are put back after it."""
    refs = _norms_read(at)
    right = values_of(at, tuple(refs))
    for ref, values in zip(refs, new, strict=True):
        at.context.buffers[ref] = at.changed(at.context.buffers[ref], values)
    go()
    for ref, values in zip(refs, right, strict=True):
        at.context.buffers[ref] = values


def _norms_alike(at: Place, go: Callable[[], None]) -> None:
    _with_norms(at, go, [at.context.backend.xp.ones_like(at.context.buffers[ref]) for ref in _norms_read(at)])


def _norms_of_another(at: Place, go: Callable[[], None]) -> None:
    held = [copied(at.context.buffers[ref]) for ref in _norms_read(at)]
    _with_norms(at, go, [held[-1], *held[:-1]])


def _old_update(at: Place, go: Callable[[], None]) -> None:
    for ref in at.context.program.reads[at.index]:
        if at.context.schedule.tensors[ref.name].role == "update":
            at.context.buffers[ref] = at.changed(
                at.context.buffers[ref], _old_gradient(at, ref, at.context.buffers[ref])
            )
    go()


def _one_norm_left_out(at: Place) -> bool:
    """The norm of layer 1, on all ranks."""
    return at.layer == 1


# ── the data, the loss ──


def _labels_swapped(rank: TrainingRank, number: int, memory: Memory) -> None:
    labels = rank.trainer.labels
    if len(labels) > 1:
        memory.fired += not same(labels[0], labels[1])
        labels[0], labels[1] = labels[1], labels[0]


def _labels_of_the_first_step(rank: TrainingRank, number: int, memory: Memory) -> None:
    first = memory.kept.setdefault("labels", dict(rank.trainer.labels))
    memory.fired += any(not same(first[micro], each) for micro, each in rank.trainer.labels.items())
    rank.trainer.labels.update(first)


def _first_micro_batch_again(rank: TrainingRank, number: int, memory: Memory) -> None:
    held, labels = rank.context.buffers.by_ref, rank.trainer.labels
    inputs = {ref for ref in held if ref.micro == 1 and ref._replace(micro=0) in held and ref.name in rank.inputs}
    for ref in inputs:
        memory.fired += not same(held[ref], held[ref._replace(micro=0)])
        held[ref] = held[ref._replace(micro=0)]
    if 1 in labels:
        memory.fired += not same(labels[1], labels[0])
        labels[1] = labels[0]


def _later_step(rank: TrainingRank, number: int, memory: Memory) -> None:
    """Adam's bias correction as if a step had gone before."""
    if number == 0:
        rank.trainer.step += 1
        memory.fired += 1


def _loss_counted_twice(at: Place, go: Callable[[], None]) -> None:
    go()
    losses = at.rank.trainer.losses
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
    yield Fault("codec: scales doubled", run=_after(("encode",), _double_scales))
    yield Fault("codec: scales of another block", brings=_on(coded, _rolled_scales))
    yield Fault("codec: levels off by one", brings=_on(coded, _shifted_levels))
    yield Fault("codec: codes of the step before", run=_where(("encode",), _old_codes))
    yield Fault(
        "codec: weights' codes of the step before",
        run=_where(("encode",), _old_codes, lambda at: at.op.name in WEIGHTS),
    )
    yield Fault("codec: one contribution of all", run=_where(("decode_sum",), _one_contribution))


def _states() -> Iterator[Fault]:
    yield Fault("teacher: does not follow", run=_where(("ema",), _left_out))
    yield Fault("teacher: follows twice", run=_where(("ema",), _twice))
    yield Fault("queues: nothing enters", run=_where(("enqueue",), _left_out))
    yield Fault("queues: rows enter twice", run=_where(("enqueue",), _twice))
    yield Fault("centre: does not move", run=_where(("centre",), _left_out))
    yield Fault("centre: moves twice", run=_where(("centre",), _twice))


def _about(concerns: Callable[[Op], bool], faults: Iterator[Fault]) -> Iterator[Fault]:
    return (replace(fault, concerns=concerns) for fault in faults)


ALL: Final[tuple[Fault, ...]] = (
    Fault("loss: gradient × 4", run=_after(LOSSES, lambda at: _times(at, 4.0))),
    Fault("loss: gradient × 1.0001", run=_after(LOSSES, lambda at: _times(at, 1.0001))),
    Fault("loss: not divided by ranks", run=_after(LOSSES, lambda at: _times(at, _batch_ranks(at)))),
    Fault("loss: not divided by micro-batches", run=_after(LOSSES, lambda at: _times(at, at.rank.trainer.grad_accum))),
    Fault("loss: counted twice", run=_where(LOSSES, _loss_counted_twice)),
    Fault("loss: labels of another micro-batch", loads=_labels_swapped),
    Fault("loss: labels of the first step", loads=_labels_of_the_first_step),
    Fault("data: first micro-batch twice", loads=_first_micro_batch_again),
    Fault("accumulate: first micro-batch dropped", run=_where(("accumulate",), _left_out, lambda at: at.micro == 0)),
    Fault("accumulate: second micro-batch twice", run=_where(("accumulate",), _twice, lambda at: at.micro == 1)),
    Fault("accumulate: overwritten", run=_where(("accumulate", "matmul", "norm", "decode_sum"), _overwritten)),
    Fault("accumulate: not cleared", run=_where(("accumulate", "matmul", "norm", "decode_sum"), _uncleared)),
    Fault("Adam: gradients × 4", run=_with_gradients(lambda at, ref, values: values * 4)),
    Fault("Adam: gradients × 1.0001", run=_with_gradients(lambda at, ref, values: values * 1.0001)),
    Fault("Adam: gradients × 0", run=_with_gradients(lambda at, ref, values: values * 0)),
    Fault("Adam: gradients of the step before", run=_with_gradients(_old_gradient)),
    Fault(
        "Adam: one gradient × 1.001",
        run=_with_gradients(lambda at, ref, values: values * (1.001 if _first_of_all(at, ref) else 1.0)),
    ),
    Fault(
        "Adam: one gradient with the other sign",
        run=_with_gradients(lambda at, ref, values: -values if _first_of_all(at, ref) else values),
    ),
    Fault(
        "Adam: one gradient reversed",
        run=_with_gradients(lambda at, ref, values: copied(values[::-1]) if _first_of_all(at, ref) else values),
    ),
    Fault("Adam: left out for one tensor", run=_where(("adam",), _adam_without_one)),
    Fault("Adam: left out on the last rank", run=_where(tuple(WEIGHT_KINDS), _adam_left_out_on_last, _is_last_rank)),
    Fault("Adam: publishes the weights before", run=_where(tuple(WEIGHT_KINDS), _publishes_old)),
    Fault("Adam: moments forgotten", run=_after(tuple(MOMENT_KINDS), _no_moments)),
    Fault("Adam: bias correction of a later step", loads=_later_step),
    Fault("Adam: another loss scale", run=_where(tuple(MOMENT_KINDS), _other_scale)),
    Fault("LAMB: norms not summed over ranks", brings=_on(("scalar",), _own_norms, "all_reduce")),
    Fault("LAMB: not scaled", run=_where(("lamb",), _norms_alike)),
    Fault("LAMB: scaled by the tensor before", run=_where(("lamb",), _norms_of_another)),
    Fault("LAMB: update of the step before", run=_where(("lamb",), _old_update)),
    Fault("norm: a layer left out", run=_where(("norm2",), _left_out, _one_norm_left_out)),
    Fault("norm: left out on the last rank", run=_where(("norm2",), _left_out, _is_last_rank)),
    Fault("norm: counted twice", run=_where(("norm2",), _twice)),
    Fault("norm: not summed over ranks", brings=_on(("scalar",), _own_alone, "all_reduce")),
    *_moves("gradients", GRADIENTS),
    *_moves("weights", WEIGHTS),
    *_moves("activations", ACTIVATIONS),
    *_moves("statistics", STATISTICS),
    *_about(lambda op: isinstance(op, Exchange), _exchanges()),
    *_about(lambda op: not isinstance(op, Compute) and op.codec.is_opaque, _codecs()),
    *_about(lambda op: op.kind in ("ema", "enqueue", "centre"), _states()),
)
BY_NAME: Final = {fault.name: fault for fault in ALL}
