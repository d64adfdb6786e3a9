"""Mugs' own kinds of ops computed for real: tokens and features, the losses, and what keeps queues and averages."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from simfrontier.core.program import Compute
from simfrontier_extras.mugs.real import features, pairs
from simfrontier_extras.mugs.real.products import PRODUCTS, crops_of
from simfrontier_extras.mugs.real.states import MugsSettings
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.losses import LossTargets, counts
from simfrontier_real.ops.operands import Operands
from simfrontier_real.ops.programs import Kernel, RankContext


def _positions(operands: Operands) -> None:
    if not operands.is_backward:
        cls, table = operands.weight("positions.cls"), operands.weight("positions.table")
        assert cls is not None and table is not None
        operands.put(features.with_positions(operands.xp, operands.one(), cls, table))
        return
    table_of = operands.gradient_of("positions.table")
    assert table_of is not None
    patches, cls, table = features.with_positions_backward(operands.xp, operands.one(), table_of.shape[0])
    operands.put(patches)
    operands.gradient("positions.cls", cls)
    operands.gradient("positions.table", table)


def _pool(operands: Operands) -> None:
    if operands.is_backward:
        cls, mean = _values(operands)
        operands.put(features.pooled_backward(operands.xp, cls, mean, operands.sizes()["s"]))
    else:
        _put_all(operands, features.pooled(operands.xp, *_values(operands)))


def _join(operands: Operands) -> None:
    """Class tokens and mean tokens of both streams; backward they are split again, stream by stream."""
    xp, crops, values = operands.xp, crops_of(operands), _values(operands)
    if operands.is_backward:
        cls, mean = (features.taken_apart(xp, rows, crops) for rows in values)
        _put_all(operands, (cls[0], mean[0], cls[1], mean[1]))
    else:
        _put_all(operands, tuple(features.joined(xp, (values[kind], values[kind + 2]), crops) for kind in (0, 1)))


def _unit(operands: Operands) -> None:
    """Rows of length 1: of all crops together, or the rows of every view in an output of their own."""
    if operands.is_backward:
        operands.put(features.unit_backward(operands.xp, *_values(operands)))
        return
    (rows,) = _values(operands)
    rows, views = features.unit(operands.xp, rows), operands.num_outputs()
    if views == 1:
        operands.put(rows)
    else:
        _put_all(operands, features.taken_apart(operands.xp, rows, (1,) * views))


def _nearest(operands: Operands) -> None:
    """Backward: what is taken out of the memory is not trained."""
    if operands.is_backward:
        operands.put(operands.one()[:, 0])
        return
    (similarity, rows), neighbours = _values(operands), int(operands.context.schedule.meta["neighbours"])
    operands.put(pairs.nearest(operands.xp, similarity, rows, operands.weight("memory"), neighbours))


def _first(operands: Operands) -> None:
    """The first token; backward, the others have no gradient."""
    values = operands.one()
    if not operands.is_backward:
        operands.put(values[:, 0])
        return
    rest = [operands.xp.zeros_like(values[:, None])] * (operands.sizes()["s"] - 1)
    operands.put(operands.xp.concat([values[:, None], *rest], axis=1))


def _pick(operands: Operands) -> None:
    """The row of the first view of every image."""
    views = (1,) * crops_of(operands)[0]
    operands.put(features.taken_apart(operands.xp, operands.one(), views)[0])


def _weight_norm(operands: Operands) -> None:
    operands.put(features.of_length(operands.xp, operands.weight("last.weight"), operands.weight("last.norm")))


def _centre_sum(operands: Operands) -> None:
    operands.put(operands.xp.sum(*_values(operands), axis=0))


@dataclass(frozen=True, slots=True)
class MugsKernels:
    """The kernels of Mugs; the counters of the targets are where the next row enters each queue."""

    targets: LossTargets
    settings: MugsSettings

    def kernels(self) -> dict[str, Kernel]:
        works: dict[str, Callable[[Operands], None]] = {
            **PRODUCTS,
            "positions": _positions,
            "pool": _pool,
            "join": _join,
            "unit": _unit,
            "nearest": _nearest,
            "first": _first,
            "pick": _pick,
            "weight_norm": _weight_norm,
            "contrast": self._contrast,
            "cluster": self._cluster,
            "centre_sum": _centre_sum,
            "centre": self._centre,
            "enqueue": self._enqueue,
            "ema": self._follow,
        }
        return {kind: partial(_run, work) for kind, work in works.items()}

    # ── losses, averaged over all pairs of the step ──

    def _contrast(self, operands: Operands) -> None:
        (scores,) = _values(operands)
        total, gradient = pairs.contrast(operands.xp, scores, self.settings.contrast_temperature)
        self._lose(operands, total, gradient, dict(operands.op.iteration)["b"])

    def _cluster(self, operands: Operands) -> None:
        settings = self.settings
        views, crops = crops_of(operands)[0], sum(crops_of(operands))
        temperatures = settings.student_temperature, settings.teacher_temperature
        (student, teacher), centre = _values(operands), operands.weight("cluster.centre")
        total, gradient = pairs.cluster(operands.xp, student, teacher, centre, temperatures, views, crops)
        images = dict(operands.op.iteration)["b"] // crops
        self._lose(operands, total, gradient, images * len(pairs.pairs_of(views, crops)))

    def _lose(self, operands: Operands, total: Array, gradient: Array, num_pairs: int) -> None:
        count = num_pairs * self.targets.grad_accum
        micro = operands.context.program.reads[operands.index][0].micro
        if counts(operands):
            self.targets.losses[micro] = self.targets.losses.get(micro, 0.0) + total / count
        operands.put(gradient * (self.targets.loss_scale / count))

    # ── what stays from step to step ──

    def _centre(self, operands: Operands) -> None:
        """The running mean of the teacher's scores over all rows."""
        centre, momentum = operands.weight("cluster.centre"), self.settings.centre_momentum
        assert centre is not None
        num_rows = operands.context.schedule.tensors["teacher/cluster.scores"].shape[0]
        operands.keep("cluster.centre", momentum * centre + (1 - momentum) * (operands.one() / num_rows))

    def _enqueue(self, operands: Operands) -> None:
        """Rows of all ranks enter: view by view of the images, or those of the images whose flag is set.
        A memory's other entries, which no step needs, are written as they are (docs/model.md says why)."""
        xp, name = operands.xp, operands.op.name
        values = dict(operands.activations())
        flags = values.pop("flags", None)
        rows = operands.context.backend.concat(list(values.values()))
        if flags is not None:
            rows = xp.take(rows, xp.nonzero(flags)[0], axis=0)
        kept, *others = operands.states()
        queue = operands.weight(kept.quantity)
        assert queue is not None
        is_turned = kept.dims[-1] == "k"  # entries are columns
        by_entry = xp.permute_dims(queue, (1, 0)) if is_turned else queue
        places = self.targets.counters
        by_entry, places[name] = pairs.entered(xp, by_entry, rows, places.get(name, 0))
        operands.keep(kept.quantity, xp.permute_dims(by_entry, (1, 0)) if is_turned else by_entry)
        for other in others:
            operands.keep(other.quantity, operands.weight(other.quantity))

    def _follow(self, operands: Operands) -> None:
        """A teacher's weight moves towards the student's."""
        context = operands.context
        (student, teacher), _, _ = context.operands(operands.index)
        held, momentum = context.buffers[teacher], self.settings.teacher_momentum
        size = math.prod(context.schedule.tensors[teacher.name].shape)
        wide = context.backend.wide
        moved = momentum * wide(held) + (1 - momentum) * wide(context.buffers[student][:size])
        context.buffers[teacher] = context.backend.cast(moved, context.schedule.tensors[teacher.name].dtype)


def _run(work: Callable[[Operands], None], context: RankContext, index: int, op: Compute) -> None:
    work(Operands(context, index, op))


def _values(operands: Operands) -> list[Array]:
    """The activations that an op reads, in its order, in which sums may be formed."""
    return [operands.context.backend.wide(values) for _, values in operands.activations()]


def _put_all(operands: Operands, values: tuple[Array, ...]) -> None:
    for number, value in enumerate(values):
        operands.put(value, number)
