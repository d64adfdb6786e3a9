"""A rank of `simfrontier-real` that kills itself as `kill -9` does, before an op of a step.

Arguments: `RANK STEP OP` (steps counted from 1), then those of the command line; only the rank of that number dies."""

from __future__ import annotations

import os
import runpy
import signal
import sys


def die_in_op(step: int, op: int) -> None:
    """Die before the op of that number starts in that step."""
    from simfrontier_real.ops.op_runner import RealOpRunner
    from simfrontier_real.train.train import TrainingRank

    at = [0]
    load = TrainingRank.load

    def loaded(self: TrainingRank, number: int) -> None:
        at[0] = number + 1
        load(self, number)

    def dying(name: str) -> None:
        original = getattr(RealOpRunner, name)

        def method(self: RealOpRunner, index: int, *more: object) -> object:
            if (at[0], index) >= (step, op):
                os.kill(os.getpid(), signal.SIGKILL)
            return original(self, index, *more)

        setattr(RealOpRunner, name, method)

    TrainingRank.load = loaded  # type: ignore[method-assign]
    dying("run")
    dying("outgoing")


if __name__ == "__main__":
    victim, step, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    sys.argv = [sys.argv[0], *sys.argv[4:]]
    if os.environ["RANK"] == victim:
        die_in_op(step, number)
    runpy.run_module("simfrontier_real", run_name="__main__", alter_sys=True)
