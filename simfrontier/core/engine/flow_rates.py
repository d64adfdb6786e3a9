"""Max-min fair rates of concurrent flows, computed once for each distinct set of flows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np

from simfrontier.base.arrays import Floats, Ints
from simfrontier.core.cost import Flow
from simfrontier.core.network import solve

MOST_APART = 1_000_000  # flows in all cached `SharingSets`, some 200 MB
LEAST_UNITS = 1.0  # assumed: compute units of a device that calls leave to kernels however many run


@dataclass(frozen=True, slots=True, eq=False)
class SharingSets:
    """Partition of concurrent flows into sets that share links, directly or through other flows: the bit mask of the
    links that each set loads, and for each flow the number of its set and its rate."""

    loads: tuple[int, ...]
    rates: dict[int, tuple[int, float]]

    @property
    def load(self) -> int:
        """Bit mask of the links that any of the sets loads."""
        return reduce(or_, self.loads)


class FlowRates:
    """Max-min fair rates of flows that run together, and the links that each flow loads, for fixed capacities of links
    and devices.

    When capacities change within the step, the engine switches to another `FlowRates` and sets all rates anew.
    """

    def __init__(self, flows: list[Flow], capacity: Floats) -> None:
        """`capacity`: the capacity of each link class."""
        self.flows, self.capacity = flows, capacity
        self._of_set: dict[tuple[int, ...], list[float]] = {}  # in the order of the flows
        self._apart: dict[tuple[int, ...], SharingSets] = {}
        self._num_apart = 0  # flows in all of these
        self._loads: dict[int, int] = {}

    def add(self, flow: Flow) -> int:
        """Add a flow and return the number assigned to it."""
        self.flows.append(flow)
        return len(self.flows) - 1

    def load(self, flow: int) -> int:
        """Return the bit mask of the link classes that a flow loads or of which it reserves a part."""
        known = self._loads.get(flow)
        if known is None:
            one = self.flows[flow]
            known = self._loads[flow] = bits(one.rows[(one.load > 0.0) | (one.reserved > 0.0)])
        return known

    def apart(self, flows: tuple[int, ...]) -> SharingSets:
        """Return concurrent flows, passed in ascending order, partitioned into sets that share no link with each
        other."""
        known = self._apart.get(flows)
        if known is None:
            sets = sets_that_share(flows, self.load)
            keys = [tuple(sorted(mine)) for _, mine in sets]
            lacking = [key for key in keys if key not in self._of_set]
            if lacking:  # in one solve, as flows that share no link do not affect each other
                rates = self.solved(tuple(sorted(flow for key in lacking for flow in key)))
                self._of_set |= {key: [rates[flow] for flow in key] for key in lacking}
            self._num_apart += len(flows)
            if self._num_apart > MOST_APART:
                self._apart, self._num_apart = {}, len(flows)
            known = self._apart[flows] = SharingSets(
                loads=tuple(load for load, _ in sets),
                rates={
                    flow: (number, rate)
                    for number, key in enumerate(keys)
                    for flow, rate in zip(key, self._of_set[key], strict=True)
                },
            )
        return known

    def solved(self, numbers: tuple[int, ...]) -> dict[int, float]:
        """Return the rate of each of these flows, which share links only among themselves."""
        flows = [self.flows[number] for number in numbers]
        rows, at = np.unique(np.concatenate([flow.rows for flow in flows]), return_inverse=True)
        load = np.concatenate([flow.load for flow in flows])
        which = np.repeat(np.arange(len(flows)), [len(flow.rows) for flow in flows])
        held = np.zeros(len(rows))
        np.add.at(held, at, np.concatenate([flow.reserved for flow in flows]))
        usage = np.zeros((len(rows), len(flows)))
        usage[at, which] = load
        rates = solve(usage, not_held(self.capacity[rows], held), np.array([flow.cap for flow in flows]))
        return dict(zip(numbers, rates.tolist(), strict=True))


def sets_that_share(flows: Iterable[int], load_of: Callable[[int], int]) -> list[tuple[int, list[int]]]:
    """Partition flows into sets such that no two sets use a common link; return each set with the bit mask of its
    links. `load_of` returns the bit mask of the links of one flow."""
    sets: list[tuple[int, list[int]]] = []
    for flow in flows:
        load, together, apart = load_of(flow), [flow], []
        for other, others in sets:
            if other & load:
                load |= other
                together += others
            else:
                apart.append((other, others))
        sets = [*apart, (load, together)]
    return sets


def bits(links: Ints) -> int:
    """Return a set of link classes as a bit mask."""
    flags = np.zeros(int(links.max(initial=-1)) + 1, np.uint8)
    flags[links] = 1
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def not_held(capacity: Floats, held: Floats) -> Floats:
    """Return the capacity that is left for flows to share, on links of which collective calls reserve a part.

    If the calls together reserve all compute units, one unit is left, so that kernels do not stand still: a workgroup
    of a kernel can run as soon as a workgroup of a call ends.
    """
    left = np.maximum(capacity - held, np.minimum(capacity, LEAST_UNITS))
    shared: Floats = np.where(held > 0.0, left, capacity)
    return shared
