"""Dispatchers of experts' rows: all-to-alls in which the rows of a position that go to the same place go there once.

DeepEP and HybridEP (deepseek-ai/DeepEP) send a position once to each node that has one of its experts, to the rank with
the same place on it, which forwards it once to each rank with one of its experts. X-MoE's redundancy-bypassing
dispatch (RBD, arXiv 2508.13337) sends it once to each node, to a rank with one of its experts, and the further rows
from there in an all-to-all inside the node. The combination goes the same ways backwards, adding rows on them.

The numbers of nodes and ranks are means over equally likely choices of experts (`Routing.distinct`); the volume is that
of an all-to-all of all rows. Not modelled: rows in FP8, as in inference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfrontier.core.collectives.algorithms.base import Algorithm
from simfrontier.core.collectives.algorithms.direct import MESSAGES, direct, direct_loads
from simfrontier.core.collectives.algorithms.two_level import shapes_of
from simfrontier.core.collectives.laws import Dispatcher, GroupShape
from simfrontier.core.network import Fabric, Pattern, lay_out
from simfrontier.core.program import DEEPEP, HYBRIDEP, RBD, CollectiveKind, Routing

if TYPE_CHECKING:
    from simfrontier.core.collectives.library import Library


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch(Algorithm):
    """Algorithm of a dispatcher, whose parameters a library's file gives under its name."""

    def latency_s(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        """Return the start-up; of messages inside nodes that follow those between nodes, the start-ups of both
        all-to-alls and the time of the second."""
        law = library.dispatchers[self.name]
        if not law.in_turn:
            return law.base_s
        seconds = law.base_s + MESSAGES.latency_s(library, kind, message_bytes, group, bytes_per_s)
        if group.num_nodes > 1:
            near = self._near_bytes(library, group) * message_bytes
            _, inside = shapes_of(group)
            seconds += MESSAGES.latency_s(library, kind, near, inside, law.bytes_per_s) + near / law.bytes_per_s
        return seconds

    def cap_bytes_per_s(self, library: Library, group: GroupShape) -> float:
        """Return the bytes of all rows divided by the time in which the kernels send what they do inside the node."""
        law = library.dispatchers[self.name]
        near = self._near_bytes(library, group)
        return np.inf if law.in_turn or not near else self.sent("all_to_all", group.size) * law.bytes_per_s / near

    def _near_bytes(self, library: Library, group: GroupShape) -> float:
        """Return the bytes that a rank sends inside its node, per byte of all its rows."""
        peers = group.size // group.num_nodes - 1
        near, _ = _parts(_routing(library), library.dispatchers[self.name], group.size, group.num_nodes)
        return near * peers / group.size

    def loads(
        self, fabric: Fabric, groups: NDArray[np.integer], library: Library, shares: Mapping[str, float] | None = None
    ) -> Pattern:
        at = lay_out(fabric, groups)
        near, far = _parts(_routing(library), library.dispatchers[self.name], at.size, len(at.group) // at.num_groups)
        return direct_loads(fabric, groups, shares or self.shares_on(library, fabric.machine), near, far)

    def shares(self, library: Library) -> Mapping[str, float]:
        return {**library.shares, **library.dispatchers[self.name].shares}

    def units(self, library: Library) -> float:
        return library.dispatchers[self.name].num_units

    def lacks(self, library: Library, kind: CollectiveKind) -> str:
        if self.name not in library.dispatchers:
            return f"dispatchers.{self.name}"
        return "" if library.routing is not None else "choice of experts: the model is dense"


def _routing(library: Library) -> Routing:
    assert library.routing is not None, "`lacks` refuses it for a dense model"
    return library.routing


def _parts(routing: Routing, law: Dispatcher, size: int, num_nodes: int) -> tuple[float, float]:
    """Return the bytes that a rank sends to each other rank of its node, and to all ranks of other nodes, relative to
    an all-to-all of k rows per position: with D(p) distinct ones of p parts, D(ranks) nodes / k and D(nodes) / k, or,
    where each node gets one row at its rank and the others follow, nodes (k - D(nodes) + D(nodes) / nodes) / k."""
    rows, nodes = routing.per_token, routing.distinct(num_nodes)
    if law.in_turn:
        return num_nodes * (rows - nodes + nodes / num_nodes) / rows, nodes / rows
    return num_nodes * routing.distinct(size) / rows, nodes / rows


ALGORITHMS = tuple(
    Dispatch(
        name=name,
        title=title,
        collectives=("all_to_all",),
        lowered=direct,
        adds_in_place=False,
        laws=("dispatchers",),
        in_plans=True,
        not_as_chunks=f"{name} merges rows, which no single messages show; allowed at fidelity chunk: "
        'dispatch = "all_to_all"',
    )
    for name, title in (
        (DEEPEP, "DeepEP: rows once to each node, and there once to each rank"),
        (HYBRIDEP, "HybridEP: as DeepEP, with fewer compute units"),
        (RBD, "X-MoE's dispatch: rows once to each node, and the others inside it"),
    )
)
