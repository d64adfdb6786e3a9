"""A rank of `simfrontier-real` that kills itself as `kill -9` does: in an op, or while it writes a checkpoint.

Arguments: `RANK op STEP OP`, `RANK bytes STEP COUNT` or `RANK manifest STEP COUNT` (steps counted from 1), then those
of the command line; only the rank of that number dies. COUNT: of its file, or of the manifest, of the checkpoint after
that step, so many bytes are written first."""

from __future__ import annotations

import os
import runpy
import signal
import sys
from pathlib import Path


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def in_op(step: int, op: int) -> None:
    """Before the op of that number starts in that step."""
    from simfrontier_real import train_session
    from simfrontier_real.op_runner import RealOpRunner

    at = [0]
    load = train_session.TrainingRank.load

    def loaded(self: train_session.TrainingRank, number: int) -> None:
        at[0] = number + 1
        load(self, number)

    def dying(name: str) -> None:
        original = getattr(RealOpRunner, name)

        def method(self: RealOpRunner, index: int, *more: object) -> object:
            if (at[0], index) >= (step, op):
                die()
            return original(self, index, *more)

        setattr(RealOpRunner, name, method)

    train_session.TrainingRank.load = loaded  # type: ignore[method-assign]
    dying("run")
    dying("outgoing")


def in_write(what: str, step: int, count: int) -> None:
    """When so many bytes of its file, or of the manifest, of the checkpoint after that step are written."""
    from simfrontier_real.checkpoints import writer

    write_durable = writer.write_durable

    def written(path: Path, content: bytes) -> None:
        if path.parent.name == f"step-{step:06}" and (path.name == writer.NAME) == (what == "manifest"):
            path.with_name(f".{path.name}.part").write_bytes(content[:count])
            die()
        write_durable(path, content)

    writer.write_durable = written


if __name__ == "__main__":
    victim, how, step, number = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    sys.argv = [sys.argv[0], *sys.argv[5:]]
    if os.environ["RANK"] == victim:
        if how == "op":
            in_op(step, number)
        else:
            in_write(how, step, number)
    runpy.run_module("simfrontier_real", run_name="__main__", alter_sys=True)
