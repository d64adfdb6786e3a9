"""The small parts by hand: sizes, places, the executor, the loopback, and replay in one process."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.program import Collective, Issuer, Mesh, expand
from simfrontier.core.program.sweep_calls import SweepCall, sweep
from simfrontier.core.trace import Span, Trace
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.executor import Executor
from simfrontier_real.ops.lanes import InlineLanes
from simfrontier_real.ops.op_runner import LaneStep, OpRunner
from simfrontier_real.options import parse_sizes
from simfrontier_real.ranks.loopback import LoopbackWorld
from simfrontier_real.ranks.transport import Channel
from simfrontier_real.ranks.world import RankAddress, place_of
from simfrontier_real.replay.replay import ComputeMode, waits_of
from simfrontier_real.verify.verdict import scheduled_bytes
from tests.real.schedules import ENGINES, EXACT, FAMILIES, QUANTISED, schedule
from tests.real.together import bytes_sent, replaying
from tests.some import some

# ── sizes and places ──


def test_sizes_are_read_in_bytes_and_sorted() -> None:
    assert parse_sizes("1MiB, 4KiB,65536,64KiB,2kB") == (2000, 4096, 65536, 1 << 20)
    assert parse_sizes("3 B,1GiB,1GB") == (3, 10**9, 1 << 30)


TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "here", "MASTER_PORT": "123"}
SRUN = {"SLURM_PROCID": "9", "SLURM_NTASKS": "16", "SLURM_LOCALID": "1", "MASTER_ADDR": "there"}


def test_places_as_launchers_give_them() -> None:
    assert place_of(TORCHRUN) == RankAddress(rank=3, size=8, local_rank=1, address="here", port=123)
    assert place_of(SRUN) == RankAddress(rank=9, size=16, local_rank=1, address="there", port=29500)
    assert place_of({**SRUN, **TORCHRUN}).size == 8  # torchrun inside a Slurm job
    assert place_of({"PATH": "/bin"}) == RankAddress(rank=0, size=1, local_rank=0, address="127.0.0.1", port=0)


# ── the executor ──


@dataclass
class NoWork(OpRunner):
    """Ops that do nothing but leave their number, and messages of one number."""

    done_ops: list[int] = field(default_factory=list)

    def begin_step(self) -> None:
        self.done_ops.clear()

    def outgoing(self, index: int) -> tuple[Array, ...]:
        return (np.zeros(1),)

    def done(self, index: int) -> None:
        self.done_ops.append(index)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_executor_follows_the_issuer_and_ends_with_every_op(engine: str) -> None:
    """On one rank every op ends once, after all that the schedule makes it wait for."""
    made = schedule(FAMILIES["zero3"], (1, 1, 1), 2, engine=ENGINES[engine])
    program, work = expand(made, made.roles[0]), NoWork()
    step = LaneStep(program, made.mesh, work, LoopbackWorld(made.mesh).transport(0))
    executor = Executor(step, InlineLanes(step))
    for _ in range(2):
        executor.run_step(0.0)
        assert sorted(work.done_ops) == list(range(program.num_ops))
    done = [0] * len(program.lanes)
    for index in work.done_ops:
        lane = program.lane[index]
        assert done[lane] == program.position[index]
        assert all(done[other] >= count for other, count in program.waits[index]), index
        done[lane] += 1


@pytest.mark.parametrize("plan", ["zero3", "zero-topo", "three hops"])
def test_ranks_together_do_each_op_once(plan: str) -> None:
    made = schedule(EXACT[plan], (2, 1, 2), 2, engine=ENGINES["tight"])
    program, times = expand(made, made.roles[0]), replaying(made, "none").run_step()
    alone = Issuer(program)
    order = []
    while not alone.is_finished:
        order += (now := alone.startable())
        for index in now:
            alone.finish(index)
    assert sorted(order) == list(range(program.num_ops))
    for each in times:
        assert all(0 < ready <= end for ready, end in zip(each.ready_s, each.end_s, strict=True))


def test_stuck_ranks_in_one_process_raise_their_table() -> None:
    made = schedule(EXACT["zero3"], (1, 1, 2))
    together = replaying(made, "none")
    together.executors = together.executors[:1]
    with pytest.raises(SimfrontierError, match=r"^stuck: rank 0, .*gather: running op \d+, .*all_gather"):
        together.run_step()


def test_members_meet_call_by_call_in_the_order_of_the_axes() -> None:
    """Ranks 0 1 / 2 3 on (node, gcd): over (gcd, node) the group's order is 0, 2, 1, 3."""
    world = LoopbackWorld(Mesh((("node", 2), ("gcd", 2))))
    ends = [world.transport(rank) for rank in range(4)]
    channel = Channel("c", "lane", ("gcd", "node"))
    gathers = [end.call(channel, "all_gather", np.array([float(rank)])) for rank, end in enumerate(ends)]
    assert [pending.is_done() for pending in gathers] == [True] * 4
    assert gathers[3].wait().tolist() == [[0.0], [2.0], [1.0], [3.0]]
    rows = [np.arange(4.0)[:, None] + 10 * rank for rank in range(4)]
    late = [end.call(channel, "reduce_scatter", rows[rank]) for rank, end in enumerate(ends[:3])]
    assert not any(pending.is_done() for pending in late)
    late.append(ends[3].call(channel, "reduce_scatter", rows[3]))
    # the sum of row p over ranks is 4 p + 60; member 1 in the order is rank 2
    assert [pending.wait().tolist() for pending in late] == [[60.0], [68.0], [64.0], [72.0]]
    swapped = [end.call(channel, "all_to_all", rows[rank]) for rank, end in enumerate(ends)]
    assert swapped[2].wait().ravel().tolist() == [1.0, 21.0, 11.0, 31.0]


# ── replay ──


@pytest.mark.parametrize("mode", ["real", "wait", "none"])
@pytest.mark.parametrize("plan", [*FAMILIES, *QUANTISED])
def test_replayed_messages_have_the_bytes_of_the_schedule(plan: str, mode: ComputeMode) -> None:
    made = schedule({**FAMILIES, **QUANTISED}[plan], (2, 2, 2), 2, precision="fp16")
    program = expand(made, made.roles[0])
    together = replaying(made, mode, [0.0] * program.num_ops if mode == "wait" else None)
    for _ in range(2):
        together.run_step()
        assert bytes_sent(together) == [scheduled_bytes(made, program)] * 8
    collectives = {index for index, op in enumerate(program.ops) if isinstance(op, Collective)}
    assert set(together.steps[0].message_bytes) == collectives


def test_a_sweep_hands_over_the_messages_asked_for_step_after_step() -> None:
    mesh = Mesh((("node", 2), ("package", 1), ("gcd", 2)))
    kinds = ("all_gather", "reduce_scatter", "all_reduce")
    together = replaying(
        sweep(mesh, [SweepCall(kind=kind, axes=("node", "gcd"), num_bytes=4096) for kind in kinds]), "none"
    )
    for _ in range(2):
        together.run_step()
        assert [step.message_bytes for step in together.steps] == [{0: 4096, 1: 4096, 2: 4096}] * 4


def test_waiting_ops_last_as_long_as_they_are_told() -> None:
    """A lower bound: the machine may be slow, but no op may end early. Collectives are not waited for."""
    made = schedule(FAMILIES["ddp"], (1, 1, 1), model="mlp")
    program = expand(made, made.roles[0])
    waits = [0.002] * program.num_ops
    (times,) = replaying(made, "wait", waits).run_step()
    for ready, end in some(zip(times.ready_s, times.end_s, strict=True)):
        assert end - ready >= 0.002


def span(op: int, start_s: float, end_s: float) -> Span:
    return Span(
        op=op,
        lane="compute",
        kind="add",
        name="add",
        axes="",
        level="",
        call="step",
        layer=0,
        micro=0,
        num_bytes=0.0,
        message_bytes=0.0,
        ready_s=0.0,
        start_s=start_s,
        end_s=end_s,
    )


def folded() -> Trace:
    """Ranks 0 and 2 are alike, and so are 1 and 3."""
    return Trace(
        digest="",
        title="",
        ranks=("even", "odd"),
        members=((0, 2), (1, 3)),
        spans=((span(0, 1.0, 3.0), span(1, 3.0, 3.5)), (span(1, 0.0, 4.0), span(0, 4.0, 4.25))),
    )


def test_waits_come_from_the_spans_of_a_ranks_class() -> None:
    assert waits_of(folded(), 2, 2, "t.json") == [2.0, 0.5]
    assert waits_of(folded(), 3, 2, "t.json") == [0.25, 4.0]
    assert not any(math.isnan(wait) for wait in waits_of(folded(), 0, 2, "t.json"))
