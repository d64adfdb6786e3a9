"""Where the members of groups sit: one visit per (group, node), found without a loop over ranks."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Ints
from simfrontier.core.network.fabric import Fabric


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupLayout:
    """The groups of a pattern as visits, sorted by group, then by node.

    group_of   [num_ranks]   group of each rank
    group      [num_visits]  the group that visits
    node       [num_visits]  the node visited
    mask       [num_visits]  which positions of the node belong to the group, as bits
    following  [num_visits]  the visit of the same group to its next node, around to the first
    order      [num_visits]  running number of the visit within its group
    """

    num_groups: int
    size: int
    group_of: NDArray[np.int32]
    group: Ints
    node: Ints
    mask: Ints
    following: Ints
    order: Ints

    @property
    def spans_nodes(self) -> bool:
        """Whether the groups reach over several nodes; all groups of a pattern agree on that."""
        return len(self.group) > self.num_groups


def lay_out(fabric: Fabric, groups: NDArray[np.integer]) -> GroupLayout:
    """Sort the members of the groups ([num_groups, size] ranks, every rank in exactly one group) into visits."""
    num_groups, size = groups.shape
    assert groups.size == fabric.num_ranks, "the groups of a pattern hold every rank once"
    group_of = np.full(fabric.num_ranks, -1, np.int32)
    group_of[groups.ravel()] = np.repeat(np.arange(num_groups, dtype=np.int32), size)
    assert group_of.min() >= 0, "the groups of a pattern hold every rank once"

    node, position = np.divmod(np.sort(fabric.device_of[groups], axis=1), fabric.machine.devices_per_node)
    first = np.ones((num_groups, size), bool)  # the member opens a visit
    first[:, 1:] = node[:, 1:] != node[:, :-1]
    starts = np.flatnonzero(first)
    mask = np.bitwise_or.reduceat(np.int64(1) << position.ravel(), starts)
    group = starts // size
    opens = np.searchsorted(group, np.arange(num_groups))  # first visit of each group
    num_visits = np.diff(np.append(opens, len(group)))
    assert (num_visits == 1).all() or (num_visits > 1).all(), "groups within a node and over nodes in one pattern"
    following = np.arange(1, len(group) + 1)
    following[opens + num_visits - 1] = opens
    return GroupLayout(
        num_groups=num_groups,
        size=size,
        group_of=group_of,
        group=group,
        node=node.ravel()[starts],
        mask=mask,
        following=following,
        order=np.arange(len(group)) - opens[group],
    )
