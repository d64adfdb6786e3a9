"""Training a small real model by a schedule: every rank's states, its share of the data, and step after step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from simfrontier.collectives import LoweredSchedule
from simfrontier.errors import SimfrontierError
from simfrontier.schedule import ExpandedProgram, Ref, Schedule
from simfrontier_real.arrays import Backend, numpy_backend
from simfrontier_real.arrivals import Calls, MessageDigests
from simfrontier_real.codec_check import check_codecs
from simfrontier_real.data import batch, input_names
from simfrontier_real.executor import Executor
from simfrontier_real.gradients import Digests, GradientDigests, StepGradients
from simfrontier_real.lane_step import LaneStep
from simfrontier_real.lanes import InlineLanes
from simfrontier_real.layout import layouts_of
from simfrontier_real.loopback import LoopbackWorld
from simfrontier_real.lowered import LoweredTransport
from simfrontier_real.models import model_of
from simfrontier_real.op_runner import RealOpRunner
from simfrontier_real.optimizer import Adam, Trainer, all_kernels
from simfrontier_real.per_hop import refuse_per_hop
from simfrontier_real.programs import Programs, programs_of
from simfrontier_real.rank_context import RankContext, rank_context_of
from simfrontier_real.record import RankTimes, clocked
from simfrontier_real.states import Weights, assembled, copy_difference, final_states, initial_weights, place, shard
from simfrontier_real.step_times import StepTimes
from simfrontier_real.transport import Transport
from simfrontier_real.updates import UpdateCheck
from simfrontier_real.weight_codes import WeightCodes, published


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """What to train: number of optimizer steps, seed of weights and of data (where it has none of its own), settings of
    Adam, scale of the loss, and settings of a model of an extra (None: its defaults)."""

    steps: int = 20
    seed: int = 0
    data: int | None = None
    adam: Adam = field(default_factory=Adam)
    loss_scale: float = 1.0
    of_model: object | None = None

    @property
    def data_seed(self) -> int:
        """Seed of the data."""
        return self.seed if self.data is None else self.data


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """The mean loss of every step, and the whole weights and states at the end, of which `copy_difference` is how far
    those are from each other that ranks should hold alike; of the unsharded model also the digests of every step's
    gradients before clipping, and in how many steps some gradient was clipped."""

    losses: tuple[float, ...]
    weights: Weights
    copy_difference: float = 0.0
    gradients: tuple[Digests, ...] = ()
    clipped_steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingPoint:
    """What training goes on from: `steps` that have been run, with the numbers, from 0, of those that were `skipped`
    because gradients overflowed, their mean `losses`, and the `counters` of the model's kernels; `restore` puts a
    rank's states of then into its buffers.
    `loses`: why these states need not agree with the unsharded model (empty: but for rounding they do), where another
    schedule led to them."""

    steps: int
    skipped: frozenset[int]
    losses: tuple[float, ...]
    restore: Callable[[RankContext], None]
    counters: Mapping[str, int] = field(default_factory=dict)
    loses: str = ""


@dataclass(frozen=True, slots=True)
class RankReport:
    """The report of one rank on its training: its part of every step's loss, what its optimizer was given in every
    step, its lines of the weights and states at the end, what it sent and got in the calls of every step, what
    publishing should make of its masters, and how far the codes of weights were from those in every step."""

    losses: tuple[float, ...]
    gradients: tuple[StepGradients, ...]
    states: dict[tuple[str, int], Any]
    calls: tuple[Calls, ...]
    published: dict[tuple[str, int], Any]
    code_errors: tuple[float, ...]

    @property
    def skipped(self) -> frozenset[int]:
        """The numbers, from 0, of the steps that were skipped because gradients overflowed."""
        return frozenset(number for number, step in enumerate(self.gradients) if step.was_skipped)


class TrainingRank:
    """One rank that trains."""

    def __init__(
        self,
        schedule: Schedule,
        program: ExpandedProgram,
        backend: Backend,
        rank: int,
        transport: Transport,
        training: TrainingSettings,
        start: StartingPoint | None = None,
    ) -> None:
        model = model_of(schedule)
        if model is not None:
            model.refuse(schedule)
        check_codecs(backend, schedule, program)
        self.context: RankContext = rank_context_of(schedule, program, layouts_of(schedule, program), backend, rank)
        self._training = training
        self._has_loss = any(op.kind == "loss" for op in program.ops)
        grad_accum = int(schedule.meta.get("grad_accum", 1))
        self.trainer = Trainer(training.adam, grad_accum, training.loss_scale)
        self._digests, self._weight_codes = MessageDigests(backend, schedule, rank), WeightCodes(self.context)
        kernels = all_kernels(self.trainer, model, training.of_model)
        op_runner = RealOpRunner(self.context, kernels, self._digests, self._weight_codes)
        self.step = LaneStep(program, schedule.mesh, op_runner, transport, time.monotonic)
        self.inputs = input_names(schedule)
        place(self.context, initial_weights(schedule, training.seed))
        if start is not None:
            start.restore(self.context)
            self.trainer.step = start.steps - len(start.skipped)
            self.trainer.counters.update(start.counters)
        self._gradient_digests = GradientDigests(self.context)
        self._updates = UpdateCheck(self.context, training.adam, self.trainer.step)
        self._steps: list[tuple[float, StepGradients]] = []
        self._calls: list[Calls] = []
        self._code_errors: list[float] = []

    def load(self, number: int) -> None:
        """Take in the data of a step, counted from 0: the inputs and the labels that this rank's program uses."""
        self.trainer.begin_step()
        backend = self.context.backend
        for micro in range(self.trainer.grad_accum):
            whole = batch(self.context.schedule, self._training.data_seed, number, micro)
            for name in self.inputs:
                ref = Ref(name, 0, micro)
                if ref in self.context.touched:
                    dtype = self.context.schedule.tensors[name].dtype
                    self.context.buffers[ref] = backend.array(shard(self.context, whole.by_name[name], name), dtype)
            if self._has_loss:
                self.trainer.labels[micro] = backend.array(shard(self.context, whole.labels, "logits"), "int64")

    def loss(self) -> float:
        """This rank's part of the mean loss of the step that has just run, which this ends; 0 where others count it."""
        self.trainer.end_step()
        return sum(float(loss) for loss in self.trainer.losses.values())

    def record_step(self) -> None:
        """End the step that has just run and keep its results for `report`."""
        was_skipped, trainer = self.trainer.overflowed, self.trainer
        digests = {} if was_skipped else self._gradient_digests.digests(trainer.gradients)
        norms = () if was_skipped else tuple(sorted(trainer.norms))
        each = self.context.schedule.meta.get("clip") == "each"
        norm = None if each else next(iter(norms), 0.0)
        update = self._updates.error_of(trainer.gradients, norm, was_skipped, trainer.scales)
        self._steps.append((self.loss(), StepGradients(digests, norms, was_skipped, update)))
        self._calls.append(self._digests.take_calls())
        self._code_errors.append(self._weight_codes.take_error())

    @property
    def losses(self) -> tuple[float, ...]:
        """This rank's part of the mean losses of the steps recorded so far."""
        return tuple(loss for loss, _ in self._steps)

    @property
    def skipped(self) -> tuple[int, ...]:
        """The numbers, from 0, of the recorded steps that were skipped."""
        return tuple(number for number, (_, step) in enumerate(self._steps) if step.was_skipped)

    def report(self) -> RankReport:
        """What this rank reports of its training at the end."""
        losses, gradients = self.losses, tuple(seen for _, seen in self._steps)
        code_errors = tuple(self._code_errors)
        return RankReport(
            losses, gradients, final_states(self.context), tuple(self._calls), published(self.context), code_errors
        )


def train_in_one_process(
    schedule: Schedule,
    training: TrainingSettings,
    backend: Backend | None = None,
    programs: Programs | None = None,
    lowered: LoweredSchedule | None = None,
) -> TrainingResult:
    """Train on all ranks of a schedule's mesh in this process, over the loopback transport, or (`lowered`) by explicit
    transfers within the process.

    Raises SimfrontierError with the table of all ranks where the schedule gets stuck.
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
    """The reports of all ranks on their training in this process, and their times and bytes; `adjust` is called with
    every rank before it starts. Raises as `train_in_one_process` does."""
    refuse_per_hop(schedule, str(schedule.meta.get("plan", "schedule")), lowered is not None)
    programs = programs_of(schedule) if programs is None else programs
    backend = numpy_backend() if backend is None else backend
    world = LoopbackWorld(schedule.mesh)
    ranks = [
        TrainingRank(schedule, programs.of(rank), backend, rank, _transport(world, schedule, rank, lowered), training)
        for rank in range(schedule.mesh.num_ranks)
    ]
    for rank in ranks:
        adjust(rank)
    executors = [inline(rank.step) for rank in ranks]
    times: list[list[StepTimes]] = [[] for _ in ranks]
    for number in range(training.steps):
        for rank in ranks:
            rank.load(number)
        run_together(executors)
        for rank, executor, spent in zip(ranks, executors, times, strict=True):
            rank.record_step()
            spent.append(executor.end())
    clocks = [
        clocked(spent, 0.0, "loopback", rank.step.message_bytes) for rank, spent in zip(ranks, times, strict=True)
    ]
    return [rank.report() for rank in ranks], clocks


def _transport(world: LoopbackWorld, schedule: Schedule, rank: int, lowered: LoweredSchedule | None) -> Transport:
    if lowered is None:
        return world.transport(rank)
    return LoweredTransport(schedule, lowered, rank, world.wires(rank), world.transport(rank))


def inline(step: LaneStep) -> Executor:
    """An executor that runs every op where it is started."""
    return Executor(step, InlineLanes(step))


def run_together(executors: list[Executor]) -> None:
    """One step of all ranks in one thread, in turn. Raises SimfrontierError where none can go on."""
    for executor in executors:
        executor.begin()
    waiting = list(enumerate(executors))
    while waiting:
        moved = [executor.advance(0.0) for _, executor in waiting]
        waiting = [(rank, executor) for rank, executor in waiting if not executor.is_finished]
        if waiting and not any(moved):
            lines = [f"rank {rank}, {line}" for rank, executor in waiting for line in executor.table()]
            raise SimfrontierError("stuck: " + "; ".join(lines[:8]))
