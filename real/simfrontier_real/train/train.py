"""Training of a small real model by a schedule: the states of every rank, its share of the data, and the loop over
steps."""

from __future__ import annotations

from collections.abc import Callable

from simfrontier.core.collectives import LoweredSchedule
from simfrontier.core.program import ExpandedProgram, Ref, Schedule
from simfrontier_real.ops.arrays import Backend, numpy_backend
from simfrontier_real.ops.executor import StepTimes
from simfrontier_real.ops.kernels import MODEL_KERNELS
from simfrontier_real.ops.losses import CrossEntropy
from simfrontier_real.ops.moves import LOCAL_KERNELS
from simfrontier_real.ops.op_runner import LaneStep, RealOpRunner
from simfrontier_real.ops.operands import Kernel
from simfrontier_real.ops.optimizer import Optimizer
from simfrontier_real.ops.programs import Programs, RankContext, programs_of, rank_context_of
from simfrontier_real.ranks.loopback import RanksInOneProcess
from simfrontier_real.ranks.lowered import refuse_per_hop
from simfrontier_real.ranks.transport import Transport
from simfrontier_real.replay.record import RankTimes, clocked
from simfrontier_real.train.models import RealModel, batch, initial_weights, input_names, model_of, place, shard
from simfrontier_real.train.states import assembled, copy_difference, final_states
from simfrontier_real.train.training_settings import (
    BEGINNING,
    RankReport,
    StartingPoint,
    TrainingResult,
    TrainingSettings,
    TrainingState,
)
from simfrontier_real.verify.arrivals import Calls, MessageDigests
from simfrontier_real.verify.codec_check import check_codecs
from simfrontier_real.verify.gradients import GradientDigests, StepGradients
from simfrontier_real.verify.updates import UpdateCheck, WeightCodes, published


class TrainingRank:
    """One rank of the training."""

    def __init__(
        self,
        schedule: Schedule,
        program: ExpandedProgram,
        backend: Backend,
        rank: int,
        transport: Transport,
        training: TrainingSettings,
        start: StartingPoint = BEGINNING,
    ) -> None:
        model = model_of(schedule)
        if model is not None:
            model.refuse(schedule)
        check_codecs(backend, schedule, program)
        self.context: RankContext = rank_context_of(schedule, program, backend, rank)
        self._training = training
        self._has_loss = any(op.kind == "loss" for op in program.ops)
        grad_accum = int(schedule.meta.get("grad_accum", 1))
        self.training_state = TrainingState(training.adam, grad_accum, training.loss_scale)
        self._digests, self._weight_codes = MessageDigests(backend, schedule, rank), WeightCodes(self.context)
        kernels = all_kernels(self.training_state, model, training.of_model)
        op_runner = RealOpRunner(self.context, kernels, self._digests, self._weight_codes)
        self.step = LaneStep(program, schedule.mesh, op_runner, transport)
        self.inputs = input_names(schedule)
        place(self.context, initial_weights(schedule, training.seed))
        start.restore(self.context)
        self.training_state.step = start.steps - len(start.skipped)
        self.training_state.counters.update(start.counters)
        self._gradient_digests = GradientDigests(self.context)
        self._updates = UpdateCheck(self.context, training.adam, self.training_state.step)
        self._steps: list[tuple[float, StepGradients]] = []
        self._calls: list[Calls] = []
        self._code_errors: list[float] = []

    def load(self, number: int) -> None:
        """Load the data of a step, counted from 0: the inputs and labels that this rank's program uses."""
        self.training_state.begin_step()
        backend = self.context.backend
        for micro in range(self.training_state.grad_accum):
            whole = batch(self.context.schedule, self._training.data_seed, number, micro)
            for name in self.inputs:
                ref = Ref(name, 0, micro)
                if ref in self.context.touched:
                    dtype = self.context.schedule.tensors[name].dtype
                    self.context.buffers[ref] = backend.array(shard(self.context, whole.by_name[name], name), dtype)
            for depth, labels in enumerate(whole.labels if self._has_loss else ()):
                self.training_state.labels[depth, micro] = backend.array(shard(self.context, labels, "logits"), "int64")

    def loss(self) -> float:
        """Return this rank's part of the mean loss of the step that has just run, and end the step; 0 if other ranks
        report it."""
        self.training_state.end_step()
        return sum(float(loss) for loss in self.training_state.losses.values())

    def record_step(self) -> None:
        """End the step that has just run and record its results for `report`."""
        was_skipped, training_state = self.training_state.overflowed, self.training_state
        digests = {} if was_skipped else self._gradient_digests.digests(training_state.gradients)
        norms = () if was_skipped else tuple(sorted(training_state.norms))
        each = self.context.schedule.meta.get("clip") == "each"
        norm = None if each else next(iter(norms), 0.0)
        update = self._updates.error_of(training_state.gradients, norm, was_skipped, training_state.scales)
        self._steps.append((self.loss(), StepGradients(digests, norms, was_skipped, update)))
        self._calls.append(self._digests.take_calls())
        self._code_errors.append(self._weight_codes.take_error())

    @property
    def losses(self) -> tuple[float, ...]:
        """This rank's part of the mean loss of each recorded step."""
        return tuple(loss for loss, _ in self._steps)

    @property
    def skipped(self) -> tuple[int, ...]:
        """The numbers, from 0, of the recorded steps that were skipped."""
        return tuple(number for number, (_, step) in enumerate(self._steps) if step.was_skipped)

    def report(self) -> RankReport:
        """Return this rank's report at the end of training."""
        losses, gradients = self.losses, tuple(seen for _, seen in self._steps)
        code_errors = tuple(self._code_errors)
        return RankReport(
            losses, gradients, final_states(self.context), tuple(self._calls), published(self.context), code_errors
        )


def all_kernels(training_state: TrainingState, model: RealModel | None, settings: object | None) -> dict[str, Kernel]:
    """Return the kernels for every kind of op in training; `model` is a model of an extra, with `settings` of its
    own."""
    own = {} if model is None else model.kernels(training_state, settings)
    return {
        **LOCAL_KERNELS,
        **MODEL_KERNELS,
        **CrossEntropy(training_state).kernels(),
        **Optimizer(training_state).kernels(),
        **own,
    }


def train_in_one_process(
    schedule: Schedule,
    training: TrainingSettings,
    backend: Backend | None = None,
    programs: Programs | None = None,
    lowered: LoweredSchedule | None = None,
) -> TrainingResult:
    """Train on all ranks of a schedule's mesh in this process, over the loopback transport; with `lowered`, by explicit
    transfers within the process.

    Raises SimfrontierError with a table of all ranks if the schedule deadlocks.
    """
    reports, _ = run_in_one_process(schedule, training, backend, programs, lowered)
    lines = [each.states for each in reports]
    losses = tuple(sum(parts) for parts in zip(*(each.losses for each in reports), strict=True))
    if schedule.codes_per_hop:
        return TrainingResult(losses, assembled(schedule, lines, may_differ=True), copy_difference(schedule, lines))
    return TrainingResult(losses, assembled(schedule, lines))


def run_in_one_process(
    schedule: Schedule,
    training: TrainingSettings,
    backend: Backend | None = None,
    programs: Programs | None = None,
    lowered: LoweredSchedule | None = None,
    adjust: Callable[[TrainingRank], None] = lambda _: None,
) -> tuple[list[RankReport], list[RankTimes]]:
    """Train in this process and return the reports of all ranks, with their times and bytes; `adjust` is called with
    every rank after its creation. Raises as `train_in_one_process` does."""
    refuse_per_hop(schedule, str(schedule.meta.get("plan", "schedule")), lowered is not None)
    programs = programs_of(schedule) if programs is None else programs
    backend = numpy_backend() if backend is None else backend
    ranks: list[TrainingRank] = []

    def make(rank: int, transport: Transport) -> LaneStep:
        ranks.append(TrainingRank(schedule, programs.of(rank), backend, rank, transport, training))
        adjust(ranks[-1])
        return ranks[-1].step

    together = RanksInOneProcess(schedule, make, lowered)
    times: list[list[StepTimes]] = [[] for _ in ranks]
    for number in range(training.steps):
        for rank in ranks:
            rank.load(number)
        for rank, spent, taken in zip(ranks, times, together.run_step(), strict=True):
            rank.record_step()
            spent.append(taken)
    clocks = [
        clocked(spent, 0.0, "loopback", rank.step.message_bytes) for rank, spent in zip(ranks, times, strict=True)
    ]
    return [rank.report() for rank in ranks], clocks
