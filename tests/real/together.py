"""All ranks of a schedule in this process: with kernels and buffers of a test, replaying, or training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from simfrontier.core.collectives import LoweredSchedule
from simfrontier.core.program import Schedule, check
from simfrontier_real.ops.arrays import Backend, numpy_backend
from simfrontier_real.ops.layout import block_of, coordinates
from simfrontier_real.ops.op_runner import LaneStep, RealOpRunner
from simfrontier_real.ops.operands import Kernel
from simfrontier_real.ops.programs import RankContext, programs_of, rank_context_of
from simfrontier_real.ranks.loopback import RanksInOneProcess
from simfrontier_real.ranks.transport import Transport
from simfrontier_real.replay.replay import ComputeMode, ReplayRunner, StandInKernels
from simfrontier_real.train.models import initial_weights
from simfrontier_real.train.states import model_dtype
from simfrontier_real.train.train import TrainingRank, train_in_one_process
from simfrontier_real.train.training_settings import BEGINNING, StartingPoint, TrainingSettings
from simfrontier_real.verify.verdict import why_inexact
from tests.real.schedules import distance, loss_distance, training, unsharded

EQUAL: Final = {"fp64": 1e-10, "fp32": 1e-5}  # relative differences that the verdict allows


def contexts_of(made: Schedule, backend: Backend | None = None) -> list[RankContext]:
    """Every rank's place in a schedule, with empty buffers."""
    programs, backend = programs_of(made), backend or numpy_backend()
    out = []
    for rank in range(made.mesh.num_ranks):
        program = programs.of(rank)
        out.append(rank_context_of(made, program, backend, rank))
    return out


def executing(
    contexts: Sequence[RankContext],
    kernels: Mapping[str, Kernel] | Sequence[Mapping[str, Kernel]],
    lowered: LoweredSchedule | None = None,
) -> RanksInOneProcess:
    """Ranks with these buffers, and these kernels or each with its own."""
    made = contexts[0].schedule

    def make(rank: int, transport: Transport) -> LaneStep:
        own = kernels if isinstance(kernels, Mapping) else kernels[rank]
        runner = RealOpRunner(contexts[rank], dict(own))
        return LaneStep(contexts[rank].program, made.mesh, runner, transport)

    return RanksInOneProcess(made, make, lowered)


def replaying(made: Schedule, mode: ComputeMode, waits: list[float] | None = None) -> RanksInOneProcess:
    contexts = contexts_of(made)

    def make(rank: int, transport: Transport) -> LaneStep:
        runner = ReplayRunner(contexts[rank], StandInKernels(mode, waits))
        return LaneStep(contexts[rank].program, made.mesh, runner, transport)

    return RanksInOneProcess(made, make)


class Training(RanksInOneProcess):
    """Ranks that train, `ranks`, from the beginning or from a checkpoint."""

    def __init__(
        self,
        made: Schedule,
        how: TrainingSettings,
        lowered: LoweredSchedule | None = None,
        start: StartingPoint = BEGINNING,
        backend: Backend | None = None,
    ) -> None:
        self.ranks: list[TrainingRank] = []
        programs = programs_of(made)

        def make(rank: int, transport: Transport) -> LaneStep:
            used = backend or numpy_backend()
            self.ranks.append(TrainingRank(made, programs.of(rank), used, rank, transport, how, start))
            return self.ranks[-1].step

        super().__init__(made, make, lowered)

    def train_step(self, number: int) -> None:
        """Load the data of a step, counted from 0, and run it."""
        for rank in self.ranks:
            rank.load(number)
        self.run_step()


def bytes_sent(together: RanksInOneProcess) -> list[int]:
    """Bytes of messages that each rank handed over in a step."""
    return [sum(step.message_bytes.values()) for step in together.steps]


def block(made: Schedule, name: str, whole: Any, rank: int) -> Any:
    """A rank's block of a whole value."""
    tensor = made.tensors[name]
    return whole[block_of(tensor.shape, tensor.placement, made.mesh, coordinates(made.mesh, rank), name)]


def agrees(made: Schedule, steps: int = 2, clip: float = 1.0) -> None:
    """The schedule is sound, need not excuse itself, and trains to the unsharded model's weights and losses: two steps,
    as `make mutants` takes, because the second reads the weights and moments of the first."""
    assert str(check(made)) == "no findings"
    assert {why_inexact(made, program) for program in programs_of(made).of_roles} == {""}
    how, precision = training(steps, clip), model_dtype(made)
    ours, theirs = train_in_one_process(made, how), unsharded(made, how, precision)
    assert distance(ours.weights, theirs.weights) <= EQUAL[precision]
    assert loss_distance(ours.losses, theirs.losses) <= EQUAL[precision]
    assert distance(ours.weights, initial_weights(made, 0)) > 1e-3  # it moved
