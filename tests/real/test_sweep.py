"""A sweep is replayed: every message of a probe is really handed over, on every rank."""

from simfrontier.core.program import Mesh
from simfrontier.core.program.expansion import expand
from simfrontier.core.program.sweep_calls import SweepCall, sweep
from simfrontier_real.ops.executor import run_together
from simfrontier_real.ranks.loopback import LoopbackWorld
from tests.real.test_units import replaying


def test_a_sweep_hands_over_the_messages_asked_for_step_after_step() -> None:
    mesh = Mesh((("node", 2), ("package", 1), ("gcd", 2)))
    kinds = ("all_gather", "reduce_scatter", "all_reduce")
    made = sweep(mesh, [SweepCall(kind=kind, axes=("node", "gcd"), num_bytes=4096) for kind in kinds])
    assert expand(made, made.roles[0]).num_ops == 3
    ranks = replaying(made, LoopbackWorld(mesh), "none")
    for _ in range(2):
        run_together([executor for executor, _ in ranks])
        assert [step.message_bytes for _, step in ranks] == [{0: 4096, 1: 4096, 2: 4096}] * 4
