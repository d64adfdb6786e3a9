"""How fast the groups of one call send when nothing else runs, and how long the call then takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simfrontier.collectives import GroupShape, Library, algorithm as algorithm_of, messages_of, sent_share
from simfrontier.errors import InputError
from simfrontier.network import Fabric, Folding, Pattern, fold, solve
from simfrontier.schedule import Collective, Mesh, Schedule

LONE = "alone"  # key of the one pattern


def group_shape(fabric: Fabric, mesh: Mesh, axes: tuple[str, ...]) -> GroupShape:
    """Ranks, nodes and packages of the groups over `axes`. Raises InputError where a group has unequal numbers of
    ranks on its nodes, which no algorithm here is written for."""
    machine = fabric.machine
    devices = np.sort(fabric.device_of[mesh.groups(axes)], axis=1)
    num_nodes = len(np.unique(devices[0] // machine.devices_per_node))
    per_node = devices.shape[1] // num_nodes
    nodes = devices // machine.devices_per_node
    if devices.shape[1] % num_nodes or (nodes[:, ::per_node] != nodes[:, per_node - 1 :: per_node]).any():
        raise InputError(
            f"groups over {'+'.join(axes)} of {devices.shape[1]} ranks lie unevenly on the nodes; use block placement, "
            "or a size whose groups divide over the nodes"
        )
    return GroupShape(
        size=devices.shape[1],
        num_nodes=num_nodes,
        num_packages=len(np.unique(devices[0] // machine.devices_per_package)),
    )


def speeds_alone(
    folding: Folding,
    key: str,
    cap: NDArray[np.float64],
    eased: NDArray[np.float64] | None = None,
    runs: Sequence[bool] | None = None,
) -> NDArray[np.float64]:
    """Max-min speeds of a pattern's activity classes on wires, with nothing else running; `cap` per class, `eased` the
    part of its load that counts per link class, `runs` the classes that run (None: all)."""
    columns = [folding.column(key, cls) for cls in range(len(folding.count(key)))]
    rows = np.unique(np.concatenate([column.rows for column in columns]))
    usage = np.zeros((len(rows), len(columns)))
    for cls, column in enumerate(columns):
        if runs is None or runs[cls]:
            usage[np.searchsorted(rows, column.rows), cls] = column.wire
    if eased is not None:
        usage *= eased[rows, None]
    return solve(usage, folding.capacity[rows], np.ones(len(columns)), cap)


def rates_alone(fabric: Fabric, pattern: Pattern, cap_bytes_per_s: float, exact: bool = False) -> NDArray[np.float64]:
    """Bytes per second that a rank sends in each class of groups; `exact`: in each group."""
    folding = fold(fabric, {LONE: pattern}, exact=exact)
    peaks = pattern.peak[np.unique(folding.activity_class[LONE], return_index=True)[1]]
    rates: NDArray[np.float64] = speeds_alone(folding, LONE, cap_bytes_per_s * peaks) / peaks
    return rates


def seconds_alone(
    op: Collective, algorithm: str, schedule: Schedule, library: Library, fabric: Fabric, pattern: Pattern
) -> float:
    """Time of a call by an algorithm when nothing but its pattern runs."""
    mesh = schedule.mesh
    shape = group_shape(fabric, mesh, op.axes)
    sent_per_s = float(rates_alone(fabric, pattern, algorithm_of(algorithm).cap_bytes_per_s(library, shape)).min())
    return seconds_at(op, algorithm, schedule, library, shape, sent_per_s) if sent_per_s else np.inf


def seconds_at(
    op: Collective, algorithm: str, schedule: Schedule, library: Library, shape: GroupShape, sent_per_s: float
) -> float:
    """The same of a group of that shape whose ranks send at a rate."""
    share = float(sent_share(op, algorithm, schedule.mesh))
    total = 0.0
    for message in messages_of(op, schedule.tensors, schedule.mesh):
        total += algorithm_of(algorithm).latency_s(library, op.kind, message.num_bytes, shape, sent_per_s)
        total += message.num_bytes * share / sent_per_s
    return total
