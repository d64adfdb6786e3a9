"""Predictor of calls that groups of devices of one node make at once: the time of the first group."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from simfrontier.base.errors import InputError
from simfrontier.core.collectives import Library, algorithm, candidate_algorithms
from simfrontier.core.cost import EqualGroups, FoldedPattern
from simfrontier.core.machine import Machine
from simfrontier.core.network import Fabric
from simfrontier.core.program import LIBRARY, RING, CollectiveKind

Devices = tuple[tuple[int, ...], ...]


def grouped_seconds(
    machine: Machine, library: Library, groups: Devices, kind: CollectiveKind, num_bytes: float
) -> float:
    """Time of the call in the first group, while all of them make it; devices by their numbers in the node.

    Raises InputError where the node has no such devices, and for calls that do not go by ring.
    """
    most = machine.devices_per_node
    if max(map(max, groups)) >= most:
        raise InputError(f"groups: got device {max(map(max, groups))}, allowed: 0..{most - 1}, of one node")
    shape = _laid_out(machine, groups).shape
    taken = candidate_algorithms(library, kind, False, LIBRARY, num_bytes, shape)
    if taken != (RING,):
        raise InputError(f"groups of devices: got {kind} by {', '.join(taken)}, allowed: rings")
    rate = _sent_per_s(machine, library, groups)
    return algorithm(RING).seconds_at(library, kind, num_bytes, shape, rate)


@lru_cache(maxsize=64)
def _laid_out(machine: Machine, groups: Devices) -> EqualGroups:
    devices = np.array(groups)
    fabric = Fabric.build(machine, 1, num_devices=devices.size, placement=devices.ravel())
    return EqualGroups.of(fabric, np.arange(devices.size).reshape(devices.shape))


def _sent_per_s(machine: Machine, library: Library, groups: Devices) -> float:
    """Rate at which a rank of the first group sends; the others may be slower, or faster."""
    at = _laid_out(machine, groups)
    pattern = algorithm(RING).loads(at.fabric, at.groups, library)
    cap = algorithm(RING).cap_bytes_per_s(library, at.shape)
    return float(FoldedPattern.alone(at.fabric, pattern, exact=True).sent_per_s(cap)[0])
