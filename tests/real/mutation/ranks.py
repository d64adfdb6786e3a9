"""`python -m tests.real.mutation.ranks FAULT ARGUMENTS …`: a rank of `simfrontier-real` with a fault in it."""

from __future__ import annotations

import sys
from typing import Any

from simfrontier_real import cli
from simfrontier_real.train.train import TrainingRank
from tests.real.mutation.faults import BY_NAME
from tests.real.mutation.seams import Fault, Memory, codec_of, put_in


def put_in_every_rank(fault: Fault) -> None:
    """Every rank that will be made in this process has the fault in it."""
    sound = TrainingRank.__init__

    def faulty(self: TrainingRank, *arguments: Any) -> None:
        sound(self, *arguments)
        put_in(self, fault)

    TrainingRank.__init__ = faulty  # type: ignore[method-assign]


if __name__ == "__main__":
    name = sys.argv.pop(1)
    if name == "none":
        cli.main()
    put_in_every_rank(BY_NAME[name])
    with codec_of(BY_NAME[name], Memory()):
        cli.main()
