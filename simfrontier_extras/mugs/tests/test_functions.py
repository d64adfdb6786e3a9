"""Mugs' functions worked by hand, and their gradients against torch's autograd, in numpy and torch alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simfrontier_extras.mugs.real import features, pairs, queues
from simfrontier_real.arrays import Backend, numpy_backend, torch_backend

BACKENDS = {"numpy": numpy_backend, "torch": torch_backend}
TOLERANCE = 1e-12


@pytest.fixture(params=sorted(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Backend:
    return BACKENDS[request.param]()


def arrays(backend: Backend, *shapes: tuple[int, ...], seed: int = 0) -> list[Any]:
    numbers = np.random.default_rng(seed)
    return [backend.array(numbers.normal(size=shape), "fp64") for shape in shapes]


def close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=TOLERANCE, atol=TOLERANCE)


def autograd(function: Callable[..., Any], inputs: list[Any], above: Any) -> list[Any]:
    """Gradients of the inputs, given that of the output."""
    import torch

    held = [torch.tensor(np.asarray(values), requires_grad=True) for values in inputs]
    function(*held).backward(torch.as_tensor(np.asarray(above)))
    return [values.grad.numpy() for values in held if values.grad is not None]


# ── features ──


def test_positions_and_pooling_agree_with_autograd(backend: Backend) -> None:
    import torch

    xp = backend.xp
    patches, cls, table, above = arrays(backend, (3, 4, 5), (5,), (7, 5), (3, 5, 5))
    ours = features.with_positions_backward(xp, above, 7)
    theirs = autograd(lambda *x: features.with_positions(torch, *x), [patches, cls, table], above)
    for one, other in zip(ours, theirs, strict=True):
        close(one, other)
    tokens, of_cls, of_mean = arrays(backend, (3, 4, 5), (3, 5), (3, 5))
    both = np.concatenate([np.asarray(of_cls), np.asarray(of_mean)])
    (theirs,) = autograd(lambda x: torch.cat([x[:, 0], x.mean(1)]), [tokens], both)
    close(features.pooled_backward(xp, of_cls, of_mean, 4), theirs)
    close(features.pooled(xp, tokens)[1], np.asarray(tokens).mean(1))


def test_joined_rows_lie_image_by_image_and_come_apart_again(backend: Backend) -> None:
    """Two images of two large crops (0 to 3) and three small ones (10 to 15)."""
    large, small = (backend.array(np.array(rows)[:, None], "fp64") for rows in (range(4), range(10, 16)))
    joined = features.joined(backend.xp, (large, small), (2, 3))
    assert np.asarray(joined)[:, 0].tolist() == [0, 1, 10, 11, 12, 2, 3, 13, 14, 15]
    for ours, theirs in zip(features.taken_apart(backend.xp, joined, (2, 3)), (large, small), strict=True):
        close(ours, theirs)


def test_unit_rows_and_rows_of_a_length_agree_with_autograd(backend: Backend) -> None:
    import torch

    rows, norms, above = arrays(backend, (4, 6), (4,), (4, 6))
    close(features.unit(backend.xp, backend.array(np.array([[3.0, 4.0]]), "fp64")), [[0.6, 0.8]])  # 3² + 4² = 5²
    (theirs,) = autograd(lambda x: torch.nn.functional.normalize(x, dim=-1), [rows], above)
    close(features.unit_backward(backend.xp, above, rows), theirs)

    def weight_norm(v: Any, g: Any) -> Any:
        return torch._weight_norm(v, g, 0)

    of_rows, of_norms = autograd(weight_norm, [rows, norms[:, None]], above)
    ours = features.of_length_backward(backend.xp, above, rows, norms)
    close(ours[0], of_rows)
    close(ours[1], of_norms[:, 0])
    close(
        features.of_length(backend.xp, rows, norms),
        weight_norm(*map(torch.tensor, map(np.asarray, (rows, norms[:, None])))),
    )


# ── losses ──


def test_contrast_scores_by_hand(backend: Backend) -> None:
    """One image, crops 1, 2, 3 (one feature), keys 10 and 20, queue 5 and 7.

    Pairs: view 0 with crops 1 and 2, view 1 with crops 0 and 2: queries 2, 3, 1, 3."""
    query, key0, key1, queue = (
        backend.array(np.array(values), "fp64") for values in ([[1.0], [2.0], [3.0]], [[10.0]], [[20.0]], [[5.0, 7.0]])
    )
    scores = pairs.contrast_scores(backend.xp, query, (key0, key1), queue)
    close(scores, [[20.0, 10.0, 14.0], [30.0, 15.0, 21.0], [20.0, 5.0, 7.0], [60.0, 15.0, 21.0]])
    # ones above: each pair gives its key + 5 + 7: crop 0 is in one pair (32), crop 1 in one (22), crop 2 in both (54)
    ones = backend.xp.ones_like(scores)
    close(pairs.contrast_scores_backward(backend.xp, ones, (key0, key1), queue, 3), [[32.0], [22.0], [54.0]])


def test_contrast_agrees_with_autograd(backend: Backend) -> None:
    import torch

    query, key0, key1, queue = arrays(backend, (3 * 4, 5), (3, 5), (3, 5), (5, 6))
    scores = pairs.contrast_scores(backend.xp, query, (key0, key1), queue)
    loss, gradient = pairs.contrast(backend.xp, scores, 0.2)

    def theirs(rows: Any) -> Any:
        target = torch.zeros(len(rows), dtype=torch.int64)
        return torch.nn.functional.cross_entropy(rows / 0.2, target, reduction="sum")

    close(loss, theirs(torch.tensor(np.asarray(scores))))
    close(gradient, autograd(theirs, [scores], 1.0)[0])
    held = [torch.tensor(np.asarray(values)) for values in (key0, key1, queue)]
    (of_query,) = autograd(
        lambda rows: theirs(pairs.contrast_scores(torch, rows, (held[0], held[1]), held[2])), [query], 1.0
    )
    close(pairs.contrast_scores_backward(backend.xp, gradient, (key0, key1), queue, 4), of_query)


def test_cluster_agrees_with_autograd(backend: Backend) -> None:
    import torch

    images, views, crops = 3, 2, 4
    student, teacher, centre = arrays(backend, (images * crops, 6), (images * views, 6), (6,))
    loss, gradient = pairs.cluster(backend.xp, student, teacher, centre, (0.1, 0.04), views, crops)
    target = torch.softmax(torch.tensor((np.asarray(teacher) - np.asarray(centre)) / 0.04), -1).view(images, views, -1)

    def theirs(rows: Any) -> Any:
        logs = torch.log_softmax(rows.view(images, crops, -1) / 0.1, -1)
        every = torch.einsum("ivw,icw->ivc", target, logs)
        return -(every.sum() - sum(every[:, view, view].sum() for view in range(views)))

    close(loss, theirs(torch.tensor(np.asarray(student))))
    close(gradient, autograd(theirs, [student], 1.0)[0])


# ── queues ──


def test_rows_enter_a_queue_that_wraps_around(backend: Backend) -> None:
    """Five places; three rows, three rows, none, five rows: 1 2 3 . . / 6 2 3 4 5 / the same / 14 10 11 12 13."""
    queue, at = backend.array(np.zeros((5, 1)), "fp64"), 0
    seen = []
    for rows in ([1, 2, 3], [4, 5, 6], [], [10, 11, 12, 13, 14]):
        queue, at = queues.entered(backend.xp, queue, backend.array(np.array(rows, float)[:, None], "fp64"), at)
        seen.append((np.asarray(queue)[:, 0].tolist(), at))
    assert seen == [([1, 2, 3, 0, 0], 3), ([6, 2, 3, 4, 5], 1), ([6, 2, 3, 4, 5], 1), ([14, 10, 11, 12, 13], 1)]


def test_the_nearest_rows_come_most_similar_first_and_of_equal_ones_the_first(backend: Backend) -> None:
    """Cosines with [2, 0] of rows [0, 1], [3, 0], [1, 1], [5, 0]: 0, 1, 0.71, 1: lengths count for nothing."""
    memory, row = (
        backend.array(np.array(values, float), "fp64") for values in ([[0, 1], [3, 0], [1, 1], [5, 0]], [[2, 0]])
    )
    cosines = queues.similarity(backend.xp, row, memory)
    close(cosines, [[0.0, 1.0, 0.5**0.5, 1.0]])
    near = queues.nearest(backend.xp, cosines, row, memory, 3)
    assert np.asarray(near).tolist() == [[[2, 0], [3, 0], [5, 0], [1, 1]]]
