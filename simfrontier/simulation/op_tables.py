"""A program's ops as arrays: where they stand, and what each asks of every rank class."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simfrontier.arrays import Floats, Ints
from simfrontier.cost import LOCAL, Cluster, OpWork, PricedOp
from simfrontier.records import dataclass
from simfrontier.schedule import Compute, ExpandedProgram, Op

KERNEL_LINKS = 2  # a kernel loads the memory and the compute units of its rank, in this order, and nothing else


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpTables:
    """Where ops stand, by their number in the program; `num_ops` is an op that never starts.

    op_at      [num_lanes, most ops of a lane + 1] the ops of each lane in order, then `num_ops`
    needs      [num_ops + 1, num_lanes] how many ops of each lane must be done before an op starts
    meets      [num_ops + 1] whether ranks run an op together: all but kernels
    distinct   [num_ops + 1] number of an op among the distinct ones

    What distinct ops ask of classes, arrays [num_distinct, num_rank_classes], `load` with KERNEL_LINKS before it:

    latency_s, amount, cap, flow, load  of kernels: their time alone, or else their amount, largest rate, number of
                                        the flow, and what it takes of each link per unit of rate
    group      of all others: the group that a class is in, numbered over all patterns

    group_size [num_groups] number of rank classes in each
    links      [KERNEL_LINKS, num_rank_classes] the link classes that kernels load
    """

    op_at: Ints
    needs: Ints
    meets: NDArray[np.bool_]
    distinct: Ints
    latency_s: Floats
    amount: Floats
    cap: Floats
    flow: Ints
    load: Floats
    group: Ints
    group_size: Ints
    links: Ints
    priced: tuple[PricedOp, ...]
    first_group: dict[str, int]

    def work(self, op: int, cls: int) -> OpWork:
        """What an op that ranks run together asks of the group that a class is in."""
        row = int(self.distinct[op])
        priced = self.priced[row]
        return priced.works[int(self.group[row, cls]) - self.first_group[priced.pattern]]


def op_tables(program: ExpandedProgram, cluster: Cluster) -> OpTables:
    """The tables of a program that all ranks run."""
    folding = cluster.folding
    lanes, num_ops, num_classes = program.by_lane, program.num_ops, folding.num_rank_classes
    op_at = np.full((len(lanes), max(map(len, lanes)) + 1), num_ops)
    for row, ops in zip(op_at, lanes, strict=True):
        row[: len(ops)] = ops
    needs = np.zeros((num_ops + 1, len(lanes)), np.int64)
    needs[num_ops] = num_ops + 1
    for op, waits in enumerate(program.waits):
        for lane, count in waits:
            needs[op, lane] = count
    row_of: dict[int, int] = {}
    distinct = [row_of.setdefault(op.number, len(row_of)) for op in program.ops]
    different = list({op.number: op for op in program.ops}.values())
    first_group, group_size = dict[str, int](), list[int]()
    for key in cluster.patterns:
        first_group[key] = len(group_size)
        group_size += [len(members) for members in folding.members(key)]
    shape = len(different), num_classes
    latency_s, amount, cap = np.zeros((3, *shape))
    tables = OpTables(
        op_at=op_at,
        needs=needs,
        meets=np.array([not isinstance(op, Compute) for op in program.ops] + [False]),
        distinct=np.array([*distinct, 0]),
        latency_s=latency_s,
        amount=amount,
        cap=cap,
        flow=np.full(shape, -1),
        load=np.zeros((KERNEL_LINKS, *shape)),
        group=np.zeros(shape, np.int64),
        group_size=np.array(group_size),
        links=np.array([cluster.column(LOCAL, cls).rows for cls in range(num_classes)]).T,
        priced=tuple(cluster.of(op) for op in different),
        first_group=first_group,
    )
    for number, each in enumerate(different):
        _fill(tables, number, each, cluster)
    return tables


def _fill(tables: OpTables, row: int, op: Op, cluster: Cluster) -> None:
    """Write what a distinct op asks of all classes."""
    priced = tables.priced[row]
    own = cluster.folding.activity_of(priced.pattern)
    tables.group[row] = tables.first_group[priced.pattern] + own
    if not isinstance(op, Compute):
        return
    works = [priced.works[group] for group in own.tolist()]
    if works[0].amount <= 0.0:
        tables.latency_s[row] = [work.latency_s for work in works]
        return
    assert not any(work.latency_s for work in works), f"{op.name}: a kernel takes time alone, or it flows"
    flows = [cluster.flows[work.flow] for work in works]
    tables.amount[row] = [work.amount for work in works]
    tables.flow[row] = [work.flow for work in works]
    tables.cap[row] = [flow.cap for flow in flows]
    tables.load[:, row] = np.array([flow.load for flow in flows]).T
