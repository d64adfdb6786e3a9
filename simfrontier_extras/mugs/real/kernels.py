"""Mugs' own kinds of ops computed for real: products of pairs, features, losses, and what keeps queues and averages."""

from __future__ import annotations

import math
from dataclasses import dataclass

from simfrontier_extras.mugs.real import arrays
from simfrontier_extras.mugs.real.states import MugsSettings
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.losses import counts
from simfrontier_real.ops.operands import Kernel, Operands
from simfrontier_real.train.training_settings import TrainingState

# ── matrix products that are no linear modules ──


def crops_of(operands: Operands) -> tuple[int, int]:
    """(global, local) crops of an image."""
    meta = operands.context.schedule.meta
    return int(meta["global_crops"]), int(meta["local_crops"])


def _pair_scores(operands: Operands) -> None:
    (_, query), *keys = operands.activations()
    scores = arrays.contrast_scores(operands.xp, query, tuple(values for _, values in keys), _queue_of(operands))
    operands.put(scores)


def _queue_of(operands: Operands) -> Array:
    queue = operands.state()
    assert queue is not None
    return queue


def _pair_scores_dquery(operands: Operands) -> None:
    (_, gradient), *keys = operands.activations()
    views = tuple(values for _, values in keys)
    queue, crops = _queue_of(operands), sum(crops_of(operands))
    operands.put(arrays.contrast_scores_backward(operands.xp, gradient, views, queue, crops))


def _scores(operands: Operands) -> None:
    xp = operands.xp
    operands.put(
        xp.matmul(operands.activation("cluster.query"), xp.permute_dims(operands.activation("last.rows"), (1, 0)))
    )


def _scores_dquery(operands: Operands) -> None:
    operands.put(operands.xp.matmul(operands.activation("d.cluster.scores"), operands.activation("last.rows")))


def _scores_wgrad(operands: Operands) -> None:
    """Gradients of the rows first, then of their directions and, where they are trained, their lengths."""
    xp = operands.xp
    of_rows = xp.matmul(
        xp.permute_dims(operands.activation("d.cluster.scores"), (1, 0)), operands.activation("cluster.query")
    )
    directions, norms = operands.weight("last.weight"), operands.weight("last.norm")
    of_directions, of_norms = arrays.of_length_backward(xp, of_rows, directions, norms)
    operands.gradient("last.weight", of_directions)
    if operands.gradient_of("last.norm") is not None:
        operands.gradient("last.norm", of_norms)


def _pairs(operands: Operands) -> None:
    kernels = {None: _pair_scores, "dquery": _pair_scores_dquery}
    kernels[operands.op.named.part](operands)


def _similarity(operands: Operands) -> None:
    operands.put(arrays.similarity(operands.xp, operands.one(), operands.weight("memory")))


def _prototypes(operands: Operands) -> None:
    kernels = {None: _scores, "dquery": _scores_dquery, "wgrad": _scores_wgrad}
    kernels[operands.op.named.part](operands)


# ── features ──


def _positions(operands: Operands) -> None:
    if not operands.is_backward:
        cls, table = operands.weight("positions.cls"), operands.weight("positions.table")
        assert cls is not None and table is not None
        operands.put(arrays.with_positions(operands.xp, operands.one(), cls, table))
        return
    table_of = operands.gradient_of("positions.table")
    assert table_of is not None
    patches, cls, table = arrays.with_positions_backward(operands.xp, operands.one(), table_of.shape[0])
    operands.put(patches)
    operands.gradient("positions.cls", cls)
    operands.gradient("positions.table", table)


def _pool(operands: Operands) -> None:
    if operands.is_backward:
        cls, mean = _values(operands)
        operands.put(arrays.pooled_backward(operands.xp, cls, mean, operands.sizes()["s"]))
    else:
        _put_all(operands, arrays.pooled(operands.xp, *_values(operands)))


def _join(operands: Operands) -> None:
    """Class tokens and mean tokens of both streams; backward they are split again, stream by stream."""
    xp, crops, values = operands.xp, crops_of(operands), _values(operands)
    if operands.is_backward:
        cls, mean = (arrays.taken_apart(xp, rows, crops) for rows in values)
        _put_all(operands, (cls[0], mean[0], cls[1], mean[1]))
    else:
        _put_all(operands, tuple(arrays.joined(xp, (values[kind], values[kind + 2]), crops) for kind in (0, 1)))


def _unit(operands: Operands) -> None:
    """Rows of length 1: of all crops together, or the rows of every view in an output of their own."""
    if operands.is_backward:
        operands.put(arrays.unit_backward(operands.xp, *_values(operands)))
        return
    (rows,) = _values(operands)
    rows, views = arrays.unit(operands.xp, rows), operands.num_outputs()
    if views == 1:
        operands.put(rows)
    else:
        _put_all(operands, arrays.taken_apart(operands.xp, rows, (1,) * views))


def _nearest(operands: Operands) -> None:
    """Find a row's nearest entries in the memory; no gradient goes to the memory."""
    if operands.is_backward:
        operands.put(operands.one()[:, 0])
        return
    (similarity, rows), neighbours = _values(operands), int(operands.context.schedule.meta["neighbours"])
    operands.put(arrays.nearest(operands.xp, similarity, rows, operands.weight("memory"), neighbours))


def _first(operands: Operands) -> None:
    """Take the first token; backward, the others have no gradient."""
    values = operands.one()
    if not operands.is_backward:
        operands.put(values[:, 0])
        return
    rest = [operands.xp.zeros_like(values[:, None])] * (operands.sizes()["s"] - 1)
    operands.put(operands.xp.concat([values[:, None], *rest], axis=1))


def _pick(operands: Operands) -> None:
    """Take the row of the first view of every image."""
    views = (1,) * crops_of(operands)[0]
    operands.put(arrays.taken_apart(operands.xp, operands.one(), views)[0])


def _weight_norm(operands: Operands) -> None:
    operands.put(arrays.of_length(operands.xp, operands.weight("last.weight"), operands.weight("last.norm")))


def _centre_sum(operands: Operands) -> None:
    operands.put(operands.xp.sum(*_values(operands), axis=0))


@dataclass(frozen=True, slots=True)
class MugsKernels:
    """The kernels of Mugs; the counters of the training state are where the next row enters each queue."""

    training_state: TrainingState
    settings: MugsSettings

    def kernels(self) -> dict[str, Kernel]:
        return {
            "pairs": _pairs,
            "similarity": _similarity,
            "prototypes": _prototypes,
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

    # ── losses, averaged over all pairs of the step ──

    def _contrast(self, operands: Operands) -> None:
        (scores,) = _values(operands)
        total, gradient = arrays.contrast(operands.xp, scores, self.settings.contrast_temperature)
        self._lose(operands, total, gradient, dict(operands.op.iteration)["b"])

    def _cluster(self, operands: Operands) -> None:
        settings = self.settings
        views, crops = crops_of(operands)[0], sum(crops_of(operands))
        temperatures = settings.student_temperature, settings.teacher_temperature
        (student, teacher), centre = _values(operands), operands.weight("cluster.centre")
        total, gradient = arrays.cluster(operands.xp, student, teacher, centre, temperatures, views, crops)
        images = dict(operands.op.iteration)["b"] // crops
        self._lose(operands, total, gradient, images * len(arrays.pairs_of(views, crops)))

    def _lose(self, operands: Operands, total: Array, gradient: Array, num_pairs: int) -> None:
        count = num_pairs * self.training_state.grad_accum
        micro = operands.context.program.reads[operands.index][0].micro
        if counts(operands):
            self.training_state.losses[micro] = self.training_state.losses.get(micro, 0.0) + total / count
        operands.put(gradient * (self.training_state.loss_scale / count))

    # ── what stays from step to step ──

    def _centre(self, operands: Operands) -> None:
        """The running mean of the teacher's scores over all rows."""
        centre, momentum = operands.weight("cluster.centre"), self.settings.centre_momentum
        assert centre is not None
        num_rows = operands.context.schedule.tensors["teacher/cluster.scores"].shape[0]
        operands.keep("cluster.centre", momentum * centre + (1 - momentum) * (operands.one() / num_rows))

    def _enqueue(self, operands: Operands) -> None:
        """Enqueue rows of all ranks: view by view of the images, or those of the images whose flag is set. A memory's
        other entries, which no step needs, are written as they are (docs/model.md says why)."""
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
        places = self.training_state.counters
        by_entry, places[name] = arrays.entered(xp, by_entry, rows, places.get(name, 0))
        operands.keep(kept.quantity, xp.permute_dims(by_entry, (1, 0)) if is_turned else by_entry)
        for other in others:
            operands.keep(other.quantity, operands.weight(other.quantity))

    def _follow(self, operands: Operands) -> None:
        """Move a teacher's weight towards the student's."""
        context = operands.context
        (student, teacher), _, _ = context.operands(operands.index)
        held, momentum = context.buffers[teacher], self.settings.teacher_momentum
        size = math.prod(context.schedule.tensors[teacher.name].shape)
        wide = context.backend.wide
        moved = momentum * wide(held) + (1 - momentum) * wide(context.buffers[student][:size])
        context.buffers[teacher] = context.backend.cast(moved, context.schedule.tensors[teacher.name].dtype)


def _values(operands: Operands) -> list[Array]:
    """The activations that an op reads, in its order, in which sums may be formed."""
    return [operands.context.backend.wide(values) for _, values in operands.activations()]


def _put_all(operands: Operands, values: tuple[Array, ...]) -> None:
    for number, value in enumerate(values):
        operands.put(value, number)
