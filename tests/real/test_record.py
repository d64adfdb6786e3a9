"""Times of all ranks as one trace, by hand: when collectives start, whose clock counts, and medians."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simfrontier.core.codecs import Plain
from simfrontier.core.program import Call, Collective, Compute, Mesh, Ref, Role, Schedule, Tensor, digest as digest_of
from simfrontier.core.program.placement import REPLICATE, flat
from simfrontier.core.trace import file_of
from simfrontier_real.ops.executor import StepTimes
from simfrontier_real.ops.programs import programs_of
from simfrontier_real.ranks.hosts import ProcessorTime, others_share
from simfrontier_real.replay.record import aligned, arrows_of, clocked, held_ranks, trace_of


def two_collectives() -> Schedule:
    """Four ranks (2 nodes of 2): local work, a gather over gcd (ranks 0 1 | 2 3), a gather over node (0 2 | 1 3)."""
    mesh = Mesh((("node", 2), ("gcd", 2)))
    nesting = ("node", "gcd")

    def tensor(name: str, axes: Sequence[str], persistent: bool = False) -> Tensor:
        return Tensor(
            name=name,
            shape=(8,),
            dtype="fp32",
            role="weight" if persistent else "gathered",
            placement=flat(axes) if axes else REPLICATE,
            nesting=nesting,
            persistent=persistent,
        )

    tensors = {"w": tensor("w", ("node", "gcd"), True), "v": tensor("v", ("node", "gcd")), "g": tensor("g", ("node",))}
    tensors["whole"] = tensor("whole", ())
    ops = (
        Compute(kind="slice", name="local", reads=(Ref("w"),), writes=(Ref("v"),)),
        Collective(
            kind="all_gather",
            name="pair",
            axes=("gcd",),
            src=(Ref("v"),),
            dst=(Ref("g"),),
            codec=Plain("fp32"),
            lane="gather",
            comm="gcd",
        ),
        Collective(
            kind="all_gather",
            name="cross",
            axes=("node",),
            src=(Ref("g"),),
            dst=(Ref("whole"),),
            codec=Plain("fp32"),
            lane="gather",
            comm="node",
        ),
    )
    return Schedule(
        mesh=mesh, tensors=tensors, roles=(Role("all", (Call("step", 0, 0, ops),)),), pools={}, meta={"num_layers": 1}
    )


def test_a_collective_starts_when_the_last_rank_of_its_group_is_ready() -> None:
    """Rank 0's clock is 100 s ahead of rank 2's and rank 3's host: they add 100. The first rank sets out at 10.0 of
    rank 0's clock, and all times count from there. Pair: ranks 0 and 1 are ready at 1 and 3, so both start at 3; ranks
    2 and 3 at 2 and 1, so both at 2. Cross: ranks 0 and 2 at 5 and 7: 7; ranks 1 and 3 at 6 and 6: 6."""
    made = two_collectives()
    programs = programs_of(made)
    ready = [(0.0, 1.0, 5.0), (0.5, 3.0, 6.0), (0.25, 2.0, 7.0), (0.5, 1.0, 6.0)]
    end = [(1.0, 4.0, 8.0), (2.0, 4.0, 8.0), (1.0, 3.0, 8.0), (1.0, 3.0, 9.0)]
    ranks = []
    for rank in range(4):
        shift = 10.0 if rank < 2 else -90.0
        times = StepTimes(
            shift + (0.0 if rank == 0 else 0.25),
            tuple(shift + value for value in ready[rank]),
            tuple(shift + value for value in end[rank]),
        )
        ranks.append(clocked([times], 0.0 if rank < 2 else 100.0, "a" if rank < 2 else "b", {1: 16, 2: 32}))
    was_ready, start, ended = (np.stack(each) for each in zip(*aligned(made, programs, ranks), strict=True))
    assert was_ready[:, 0, :].tolist() == [list(row) for row in ready]
    assert ended[:, 0, :].tolist() == [list(row) for row in end]
    assert start[:, 0, 0].tolist() == [0.0, 0.5, 0.25, 0.5]  # local work starts when it is ready
    assert start[:, 0, 1].tolist() == [3.0, 3.0, 2.0, 2.0]
    assert start[:, 0, 2].tolist() == [7.0, 6.0, 7.0, 6.0]
    trace = trace_of(made, programs, ranks, "by hand", {"backend": "none"})
    assert trace.digest == digest_of(made)
    assert trace.ranks == ("rank 0 on a", "rank 1 on a", "rank 2 on b", "rank 3 on b")
    assert trace.members == ((0,), (1,), (2,), (3,))
    assert trace.step_s == 9.0
    assert (trace.notes["iterations"], trace.notes["step_median_s"]) == ("1", "9.000000000")
    assert trace.notes["backend"] == "none"
    assert "step_iqr_s" not in trace.notes  # one step has no spread
    local, pair, cross = trace.spans[2]
    assert (local.level, local.message_bytes, local.lane) == ("", 0.0, "compute")
    assert (pair.axes, pair.level, pair.message_bytes) == ("gcd", "intra_node", 16.0)
    assert (cross.axes, cross.level, cross.message_bytes) == ("node", "inter_node", 32.0)
    assert (pair.ready_s, pair.start_s, pair.end_s) == (2.0, 2.0, 3.0)
    # the pair's message is 8 / 2 = 4 elements of 4 bytes = 16, of which a rank puts half on the wire; cross: 32, half
    assert (pair.num_bytes, cross.num_bytes) == (8.0, 16.0)
    assert local.num_bytes > 0
    # who was ready last: in the pairs ranks 1 and 2, across ranks 2 and, of 1 and 3 that are ready at once, the lowest
    joined = [(arrow.source, arrow.target) for arrow in arrows_of(made, programs, file_of(trace).processes)]
    assert joined == [((1, 1), (0, 1)), ((1, 2), (3, 2)), ((2, 1), (3, 1)), ((2, 2), (0, 2))]


def test_a_trace_holds_medians_over_the_iterations() -> None:
    """Three iterations that set out at 0, 100, 200 and take 4, 5 and 9: medians of each op, quartiles of the step."""
    made = two_collectives()
    times = []
    for number, length in enumerate((4.0, 9.0, 5.0)):
        at = 100.0 * number
        times.append(StepTimes(at, (at, at + 1, at + 2), (at + 1, at + 2, at + length)))
    trace = trace_of(made, programs_of(made), [clocked(times, 0.0, "a", {})] * 4, "by hand", {})
    assert trace.spans[0][2].end_s == 5.0
    assert trace.spans[0][1].start_s == 1.0
    assert trace.notes["step_median_s"] == "5.000000000"
    assert trace.notes["step_iqr_s"] == "2.500000000"  # quartiles 4.5 and 7.0
    assert trace.notes["steps_s"] == "4.000000 9.000000 5.000000"
    assert trace.notes["iterations"] == "3"


def test_a_trace_may_hold_some_ranks_of_whole_hosts() -> None:
    """Six hosts of two ranks. At most five ranks are two hosts, evenly apart: numbers 0·6/2 = 0 and 1·6/2 = 3."""
    hosts = [f"host{rank // 2}" for rank in range(12)]
    assert held_ranks(hosts, 5) == [0, 1, 6, 7]
    assert held_ranks(hosts, 1) == [0, 1]  # one host at least
    assert held_ranks(hosts, 12) == held_ranks(hosts, None) == list(range(12))


def test_the_step_of_a_trace_with_some_ranks_is_that_of_all() -> None:
    """Two hosts of two ranks: ranks 0 and 1 end after 4 s, ranks 2 and 3 after 9 s."""
    made = two_collectives()
    ends = (4.0, 4.0, 9.0, 9.0)
    ranks = [
        clocked([StepTimes(0.0, (0.0, 1.0, 2.0), (1.0, 2.0, end))], 0.0, f"host{rank // 2}", {})
        for rank, end in enumerate(ends)
    ]
    trace = trace_of(made, programs_of(made), ranks, "by hand", {}, most_ranks=2)
    assert (trace.members, trace.ranks) == (((0,), (1,)), ("rank 0 on host0", "rank 1 on host0"))
    assert trace.notes["held_ranks"] == "0-1" and trace.notes["step_median_s"] == "9.000000000"
    assert trace.spans[0][2].level == "inter_node"  # levels still know all hosts


def test_the_share_by_hand() -> None:
    """Two ranks on host a, 10 s on two processors: 20 s in all, 12 s busy, of which the ranks took 4 and 3 s: others
    5 of 20 s, a quarter. On host b 1 of 20 s. The busiest counts."""
    a = [ProcessorTime(4.0, 12.0, 20.0), ProcessorTime(3.0, 12.0, 20.0)]
    b = [ProcessorTime(9.0, 10.0, 20.0)]
    assert others_share(["a", "a"], a) == 0.25
    assert others_share(["a", "b", "a"], [a[0], b[0], a[1]]) == 0.25
    assert others_share(["b"], b) == 0.05
    assert others_share(["b"], [ProcessorTime(10.5, 10.0, 20.0)]) == 0.0  # counted in ticks of 10 ms
