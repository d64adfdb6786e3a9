"""Digests of gradients: a few numbers per tensor and step, by which a step's gradients are compared with the unsharded
model's."""

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
    """Gradients that one rank's optimizer received in one step, before clipping: digests of its shares, and the norms
    of all gradients that it read; empty where the step was skipped. `update` is the distance of a master weight from
    where Adam should have moved it, relative to the length of that move."""

    digests: Digests
    norms: tuple[float, ...] = ()
    was_skipped: bool = False
    update: RelativeError = NOWHERE


def probes(key: Key, shape: tuple[int, ...]) -> Any:
    """[NUM_PROBES, *shape]: directions for the gradient of one weight, normal numbers that its name and layer seed.

    The mean square of a vector's products with them is, on average, its squared length, whatever its direction: the
    digest of a difference gives its length. A norm alone would not see that elements have changed places.
    """
    name, layer = key
    return np.random.default_rng([zlib.crc32(f"probes of {name}".encode()), layer]).normal(size=(NUM_PROBES, *shape))


def digest_of(line: Any, directions: Any) -> Any:
    """[1 + NUM_PROBES] of a gradient as a float64 numpy array, or of a rank's share of it."""
    flat = line.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.concatenate([[flat @ flat], directions.reshape(NUM_PROBES, -1) @ flat])


def own_probes(context: RankContext, key: Key) -> Any:
    """[NUM_PROBES, n]: a rank's share of the probes of a weight, laid out as its master weights and gradients are."""
    tensor, host = master_of(context.schedule, key[0]), numpy_backend()
    at = block_of(tensor.shape, tensor.placement, context.schedule.mesh, context.at, tensor.name)
    lines = (own_line(context, host, tensor, each[at]) for each in probes(key, tensor.shape))
    return np.stack([line.reshape(-1) for line in lines])


class GradientDigests:
    """Makes one rank's digests; keeps its shares of the probes, which are made when they are first needed."""

    def __init__(self, context: RankContext) -> None:
        self._context = context
        self._probes: dict[Key, Any] = {}

    def digests(self, gradients: Mapping[Key, Array]) -> dict[Key, Any]:
        """The digests of the gradients of one step, given as arrays of the rank's backend."""
        out = {}
        for key, values in gradients.items():
            if key not in self._probes:
                self._probes[key] = own_probes(self._context, key)
            out[key] = digest_of(self._context.backend.numpy(values).astype("float64"), self._probes[key])
        return out


def whole_digests(gradients: Iterable[tuple[Key, Any]], known: dict[Key, Any]) -> dict[Key, Any]:
    """The digests of whole gradients, float64 numpy arrays in the shapes of their weights; `known` keeps the probes."""
    out = {}
    for key, values in gradients:
        if key not in known:
            known[key] = probes(key, values.shape)
        out[key] = digest_of(values, known[key])
    return out


def norm_of(digests: Digests) -> float:
    """The norm of all gradients together."""
    return math.sqrt(sum(float(each[0]) for each in digests.values()))


def joined(schedule: Schedule, by_rank: Sequence[Digests]) -> tuple[dict[Key, Any], dict[Key, float]]:
    """Return (the digests of whole gradients, joined from those of the ranks' shares; the differences between the
    digests of copies of one share on ranks that should hold the same)."""
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
    """Compare one step: the gradients of all tensors together and of the tensor that is furthest with the unsharded
    ones; the norm that some rank clips by with that of the gradients that the ranks do have; and the master weights of
    some rank with where Adam should have taken them.

    A tensor's distance is the larger of the difference of the norms and the length of the difference, over its norm or
    a `share` of the norm of all; and the differences of its copies.
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
    """The largest error, infinite where one is not a number."""
    known = (RelativeError(finite(each.error), each.where) for each in errors)
    return max(known, key=lambda each: each.error, default=NOWHERE)


def _length(ours: Digests, copies: Mapping[Key, float], key: Key, reference: Any) -> float:
    if key not in ours:
        return math.inf
    by_norm = abs(math.sqrt(max(float(ours[key][0]), 0.0)) - math.sqrt(float(reference[0])))
    by_probes = math.sqrt(float(np.mean((ours[key][1:] - reference[1:]) ** 2)))
    return max(finite(each) for each in (by_norm, by_probes, copies[key]))


def finite(error: float) -> float:
    """An error, infinite where it is not a number."""
    return error if math.isfinite(error) else math.inf


def title(key: Key) -> str:
    """A weight in words."""
    return f"{key[0]} of layer {key[1]}"
