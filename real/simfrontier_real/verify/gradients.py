"""Digests of gradients: a few numbers per tensor and step, by which the gradients of a step are compared with those of
the unsharded model."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from simfrontier.core.program import Schedule
from simfrontier_real.ops.arrays import Array, numpy_backend
from simfrontier_real.ops.layout import block_of
from simfrontier_real.ops.programs import RankContext
from simfrontier_real.train.states import by_place, master_of, own_line

NUM_PROBES: Final = 4
Key = tuple[str, int]  # (name of a weight, layer)
Digests = Mapping[Key, Any]  # float64 [1 + NUM_PROBES]: the sum of squares, then the products with the probes


class RelativeError(NamedTuple):
    """Relative error, and where it occurs."""

    error: float = 0.0
    where: str = ""


NOWHERE: Final = RelativeError()


@dataclass(frozen=True, slots=True)
class StepGradients:
    """Gradients that one rank's optimizer received in one step, before clipping: digests of the rank's shards, and the
    norms of all gradients that the optimizer read; empty if the step was skipped. `update` is the distance of a master
    weight from Adam's expected result, relative to the length of the expected update."""

    digests: Digests
    norms: tuple[float, ...] = ()
    was_skipped: bool = False
    update: RelativeError = NOWHERE


def probes(key: Key, shape: tuple[int, ...]) -> Any:
    """Return [NUM_PROBES, *shape]: random directions for the gradient of one weight, normally distributed numbers
    seeded by the weight's name and layer.

    The mean square of a vector's scalar products with these directions is on average its squared length, so the digest
    of a difference gives the length of the difference. A norm alone would not detect swapped elements.
    """
    name, layer = key
    return np.random.default_rng([zlib.crc32(f"probes of {name}".encode()), layer]).normal(size=(NUM_PROBES, *shape))


def digest_of(line: Any, directions: Any) -> Any:
    """Return the digest, [1 + NUM_PROBES], of a gradient or of a rank's shard of it, as a float64 numpy array."""
    flat = line.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.concatenate([[flat @ flat], directions.reshape(NUM_PROBES, -1) @ flat])


def own_probes(context: RankContext, key: Key) -> Any:
    """Return [NUM_PROBES, n]: a rank's shard of the probes of a weight, in the layout of the rank's master weights and
    gradients."""
    tensor, host = master_of(context.schedule, key[0]), numpy_backend()
    at = block_of(tensor.shape, tensor.placement, context.schedule.mesh, context.at, tensor.name)
    lines = (own_line(context, host, tensor, each[at]) for each in probes(key, tensor.shape))
    return np.stack([line.reshape(-1) for line in lines])


class GradientDigests:
    """Computes the digests of one rank; caches the rank's shards of the probes, which are created on first use."""

    def __init__(self, context: RankContext) -> None:
        self._context = context
        self._probes: dict[Key, Any] = {}

    def digests(self, gradients: Mapping[Key, Array]) -> dict[Key, Any]:
        """Return the digests of the gradients of one step, given as arrays of the rank's backend."""
        out = {}
        for key, values in gradients.items():
            if key not in self._probes:
                self._probes[key] = own_probes(self._context, key)
            out[key] = digest_of(self._context.backend.numpy(values).astype("float64"), self._probes[key])
        return out


def whole_digests(gradients: Iterable[tuple[Key, Any]], known: dict[Key, Any]) -> dict[Key, Any]:
    """Return the digests of whole gradients, float64 numpy arrays in the shapes of their weights; `known` caches the
    probes."""
    out = {}
    for key, values in gradients:
        if key not in known:
            known[key] = probes(key, values.shape)
        out[key] = digest_of(values, known[key])
    return out


def norm_of(digests: Digests) -> float:
    """Return the norm of all gradients together."""
    return math.sqrt(sum(float(each[0]) for each in digests.values()))


def joined(schedule: Schedule, by_rank: Sequence[Digests]) -> tuple[dict[Key, Any], dict[Key, float]]:
    """Return (digests of whole gradients, joined from the digests of the ranks' shards; differences between the digests
    of copies of the same shard on different ranks)."""
    total: dict[Key, Any] = {}
    copy_differences: dict[Key, float] = {}
    for key in dict.fromkeys(key for digests in by_rank for key in digests):
        name, layer = key
        master = master_of(schedule, name)
        lines = [{(master.name, layer): digests[key]} if key in digests else {} for digests in by_rank]
        places = by_place(schedule, master, layer, lines)
        total[key] = sum(next(iter(copies.values())) for copies in places.values())
        spread = [np.ptp(np.stack(list(copies.values()))[:, 1:], axis=0) for copies in places.values()]
        copy_differences[key] = math.sqrt(float(np.mean(np.sum(spread, axis=0) ** 2)))
    return total, copy_differences


def step_errors(
    schedule: Schedule, share: float, by_rank: Sequence[StepGradients], reference: Digests
) -> dict[str, RelativeError]:
    """Compare one step with the unsharded model: the gradients of all tensors together and of the tensor with the
    largest error; the norm that a rank uses for clipping with the norm of the ranks' gradients; and a rank's master
    weights with Adam's expected result.

    The error of a tensor is the larger of the difference of the norms and the norm of the difference, relative to the
    tensor's norm or to `share` of the norm of all tensors; differences between copies are errors, too.
    """
    ours, copies = joined(schedule, [each.digests for each in by_rank])
    whole, own = norm_of(reference), norm_of(ours) or 1.0
    errors = {key: _length(ours, copies, key, reference[key]) for key in reference}
    lengths = {key: max(math.sqrt(float(each[0])), share * whole) or 1.0 for key, each in reference.items()}
    one_tensor = largest(RelativeError(errors[key] / lengths[key], title(key)) for key in reference)
    together = math.sqrt(sum(each**2 for each in errors.values())) / (whole or 1.0)
    ranks = list(enumerate(by_rank))
    return {
        "gradients": RelativeError(finite(together), one_tensor.where),
        "gradient of one tensor": one_tensor,
        "norm to clip by": largest(
            RelativeError(abs(norm - own) / own, f"rank {rank}") for rank, each in ranks for norm in each.norms
        ),
        "Adam's moves": largest(
            RelativeError(each.update.error, f"rank {rank}, {each.update.where}") for rank, each in ranks
        ),
    }


def largest(errors: Iterable[RelativeError]) -> RelativeError:
    """Return the largest error, infinite if any is NaN."""
    known = (RelativeError(finite(each.error), each.where) for each in errors)
    return max(known, key=lambda each: each.error, default=NOWHERE)


def _length(ours: Digests, copies: Mapping[Key, float], key: Key, reference: Any) -> float:
    if key not in ours:
        return math.inf
    by_norm = abs(math.sqrt(max(float(ours[key][0]), 0.0)) - math.sqrt(float(reference[0])))
    by_probes = math.sqrt(float(np.mean((ours[key][1:] - reference[1:]) ** 2)))
    return max(finite(each) for each in (by_norm, by_probes, copies[key]))


def finite(error: float) -> float:
    """Return the error, or infinity if it is NaN."""
    return error if math.isfinite(error) else math.inf


def title(key: Key) -> str:
    """Return a readable name of a weight."""
    return f"{key[0]} of layer {key[1]}"
