"""Mugs' matrix products that are no linear modules: scores of pairs, similarities, and scores of prototypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from simfrontier_extras.mugs.real.features import of_length_backward
from simfrontier_extras.mugs.real.pairs import contrast_scores, contrast_scores_backward, similarity
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.operands import Operands


def crops_of(operands: Operands) -> tuple[int, int]:
    """(global, local) crops of an image."""
    meta = operands.context.schedule.meta
    return int(meta["global_crops"]), int(meta["local_crops"])


def _contrast(operands: Operands) -> None:
    (_, query), *keys = operands.activations()
    scores = contrast_scores(operands.xp, query, tuple(values for _, values in keys), _queue_of(operands))
    operands.put(scores)


def _queue_of(operands: Operands) -> Array:
    queue = operands.state()
    assert queue is not None
    return queue


def _contrast_dquery(operands: Operands) -> None:
    (_, gradient), *keys = operands.activations()
    views = tuple(values for _, values in keys)
    queue, crops = _queue_of(operands), sum(crops_of(operands))
    operands.put(contrast_scores_backward(operands.xp, gradient, views, queue, crops))


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
    of_directions, of_norms = of_length_backward(xp, of_rows, directions, norms)
    operands.gradient("last.weight", of_directions)
    if operands.gradient_of("last.norm") is not None:
        operands.gradient("last.norm", of_norms)


def _pairs(operands: Operands) -> None:
    kernels = {None: _contrast, "dquery": _contrast_dquery}
    kernels[operands.op.named.part](operands)


def _similarity(operands: Operands) -> None:
    operands.put(similarity(operands.xp, operands.one(), operands.weight("memory")))


def _prototypes(operands: Operands) -> None:
    kernels = {None: _scores, "dquery": _scores_dquery, "wgrad": _scores_wgrad}
    kernels[operands.op.named.part](operands)


PRODUCTS: Final[dict[str, Callable[[Operands], None]]] = {
    "pairs": _pairs,
    "similarity": _similarity,
    "prototypes": _prototypes,
}
