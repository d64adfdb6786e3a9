"""Rank classes in partitions that have nothing to do with each other but in collectives of several partitions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from simfrontier.arrays import Ints
from simfrontier.cost import Cluster
from simfrontier.records import dataclass
from simfrontier.simulation.flow_rates import FlowRates
from simfrontier.simulation.op_tables import OpTables


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Partitions:
    """`of_class` [num_rank_classes] and `of_group` [num_groups] number partitions; a group of several has -1, is not
    `is_own` [num_groups], and has its rank classes in `members`."""

    num: int
    of_class: Ints
    of_group: Ints
    is_own: NDArray[np.bool_]
    members: Mapping[int, Ints]


def partitions_of(cluster: Cluster, tables: OpTables, rates: FlowRates) -> Partitions:
    """The nodes of a job, if every rank is a class and collectives within a node share no link with those within
    another; else one partition."""
    folding, fabric = cluster.folding, cluster.fabric
    num_classes = folding.num_rank_classes
    if num_classes == fabric.num_ranks:
        node = fabric.device_of[folding.representative] // fabric.machine.devices_per_node
        partitions = _of_nodes(np.unique(node, return_inverse=True)[1], cluster, tables)
        if _share_nothing(partitions, tables, rates):
            return partitions
    return _of_nodes(np.zeros(num_classes, np.int64), cluster, tables)


def _of_nodes(of_class: Ints, cluster: Cluster, tables: OpTables) -> Partitions:
    of_group, members = np.empty(len(tables.group_size), np.int64), dict[int, Ints]()
    for key, first in tables.first_group.items():
        for number, classes in enumerate(cluster.folding.members(key), first):
            mine = np.array(sorted(classes))
            of_group[number] = of_class[mine[0]]
            if (of_class[mine] != of_class[mine[0]]).any():
                of_group[number], members[number] = -1, mine
    return Partitions(
        num=int(of_class.max()) + 1, of_class=of_class, of_group=of_group, is_own=of_group >= 0, members=members
    )


def _share_nothing(partitions: Partitions, tables: OpTables, rates: FlowRates) -> bool:
    """Whether collectives of a partition use no link that those of another use."""
    links = [0] * partitions.num
    for priced in tables.priced:
        first = tables.first_group[priced.pattern]
        for number, work in enumerate(priced.works, first):
            if partitions.of_group[number] >= 0:
                for flow in (work.flow, work.starting):
                    if flow >= 0:
                        links[partitions.of_group[number]] |= rates.load(flow)
    every = 0
    for mine in links:
        if mine & every:
            return False
        every |= mine
    return True
