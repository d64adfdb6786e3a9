"""What an algorithm loads on links, counted from its transfers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfrontier.collectives.lowering.recipe import Recipe
from simfrontier.errors import InputError
from simfrontier.limits import TRANSFERS
from simfrontier.network import Fabric, Pattern, messages_loads

if TYPE_CHECKING:
    from simfrontier.collectives.algorithms.base import Algorithm


def loads_of_transfers(
    by: Algorithm, fabric: Fabric, groups: NDArray[np.integer], shares: Mapping[str, float]
) -> Pattern:
    """The transfers of the first kind of call that the algorithm knows, over one channel, members in the order of their
    devices and equally many on each node; of other kinds the loads are taken as the same. Raises InputError."""
    order = np.argsort(fabric.device_of[groups], axis=1)
    ranks = np.take_along_axis(groups, order, axis=1)
    size, kind = ranks.shape[1], by.collectives[0]
    nodes = len(np.unique(fabric.device_of[ranks[0]] // fabric.machine.devices_per_node))
    recipe = Recipe(algorithm=by.name, orders=(tuple(range(size)),), per_node=size // nodes)
    if fault := TRANSFERS.fault(by.num_transfers(kind, recipe)):
        raise InputError(f"{by.name} {kind} over {size} ranks: {fault}")
    lowered = by.lowered(kind, recipe)
    moved = np.array([(t.src, t.dst, t.count) for t in lowered.transfers if t.src != t.dst], np.int64).reshape(-1, 3)
    volume = by.sent_part(kind, size) * lowered.num_message_chunks  # chunks that a rank sends: one byte of volume
    moved[:, 2] *= volume.denominator
    return messages_loads(fabric, ranks, moved, volume.numerator, shares)
