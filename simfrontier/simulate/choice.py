"""Which algorithm carries a collective, its pattern on a machine, and its time alone by the library's own law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simfrontier.collectives import GroupShape, Library, messages_of, sent_share
from simfrontier.collectives import algorithm as algorithm_of
from simfrontier.errors import InputError
from simfrontier.network import Fabric, Folding, Pattern, fold, meeting, solve
from simfrontier.schedule.ir import Collective, Schedule
from simfrontier.schedule.mesh import Mesh

MEETING = "meeting"


def pattern_key(axes: tuple[str, ...], algorithm: str) -> str:
    return "+".join(axes) + "/" + algorithm


def refuse_alone(library: Library, names: Sequence[str]) -> None:
    """Raise InputError for an algorithm by which single calls are modelled, but no schedule."""
    for by in map(algorithm_of, names):
        if by.not_as_loads:
            raise InputError(f"library {library.name}: {by.not_as_loads}")


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


@dataclass
class Choices:
    """The library's choices for the ops of one mesh; patterns by axes and algorithm, built on first use."""

    fabric: Fabric
    mesh: Mesh
    library: Library
    known: dict[tuple[tuple[str, ...], str], Pattern] = field(default_factory=dict)
    shapes: dict[tuple[str, ...], GroupShape] = field(default_factory=dict)

    def shape(self, axes: tuple[str, ...]) -> GroupShape:
        """Of the groups over `axes`; InputError as `group_shape`, where no pattern is written for them."""
        if axes not in self.shapes:
            self.shapes[axes] = group_shape(self.fabric, self.mesh, axes)
        return self.shapes[axes]

    def get(self, axes: tuple[str, ...], algorithm: str) -> Pattern:
        if (axes, algorithm) not in self.known:
            groups = self.mesh.groups(axes)
            shape = self.shape(axes)
            if algorithm == MEETING:
                made = meeting(self.fabric, groups)
            else:
                refuse_alone(self.library, (algorithm,))
                by = algorithm_of(algorithm)
                self.library = by.knowing(self.library, self.fabric, groups, shape)
                made = by.loads(self.fabric, groups, self.library)
            self.known[axes, algorithm] = made
        return self.known[axes, algorithm]

    def choose(self, op: Collective, schedule: Schedule) -> str:
        """The algorithm the library takes: by its own rule, or else the one that is fastest alone, of those it has."""
        largest = max(message.num_bytes for message in messages_of(op, schedule.tensors, self.mesh))
        options = self.library.taken(op.kind, op.is_added_later, op.via, largest, self.shape(op.axes))
        if len(options) == 1:
            return options[0]
        patterns = {algorithm: self.get(op.axes, algorithm) for algorithm in options}
        return min(options, key=lambda a: seconds_alone(op, a, schedule, self.library, self.fabric, patterns[a]))


def seconds_alone(
    op: Collective, algorithm: str, schedule: Schedule, library: Library, fabric: Fabric, pattern: Pattern
) -> float:
    """Time of a call by an algorithm when nothing but its pattern runs."""
    mesh = schedule.mesh
    shape = group_shape(fabric, mesh, op.axes)
    folding = fold(fabric, {algorithm: pattern})
    cap = library.cap_bytes_per_s(algorithm, shape)
    peaks = pattern.peak[np.unique(folding.activity_class[algorithm], return_index=True)[1]]
    sent_per_s = float((speeds_alone(folding, algorithm, cap * peaks) / peaks).min())
    share = float(sent_share(op, algorithm, mesh))
    total = 0.0
    for message in messages_of(op, schedule.tensors, mesh):
        total += library.latency_s(algorithm, op.kind, message.num_bytes, shape, sent_per_s)
        total += message.num_bytes * share / sent_per_s
    return total
