"""Training by the schedules of a session, one after the other, each compared with the unsharded model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from simfrontier.base.errors import InputError
from simfrontier.core.program import Schedule
from simfrontier_real.ranks.hosts import free_bytes
from simfrontier_real.ranks.session import LoadedSchedule, Session
from simfrontier_real.replay.timed import timed_steps, write_trace
from simfrontier_real.train.checkpoints.run import CheckpointSettings, CheckpointWriter, found_checkpoint
from simfrontier_real.train.models import OF_MODEL, input_names
from simfrontier_real.train.reference import narrow_states, train_unsharded
from simfrontier_real.train.states import model_dtype, weights_of
from simfrontier_real.train.train import TrainingRank
from simfrontier_real.train.training_settings import BEGINNING, StartingPoint, TrainingResult, TrainingSettings
from simfrontier_real.verify.verdict import TrainingVerdict, print_results, verdict_of, write_results


def train_all(
    session: Session,
    training: TrainingSettings,
    compare: bool,
    report: Path | None,
    out: Path | None,
    checkpoints: CheckpointSettings,
) -> bool:
    """Train by every schedule of a session; rank 0 prints a table and writes `report`. Return whether all schedules
    that must agree with the unsharded model do."""
    results: list[TrainingVerdict] = []
    known: dict[tuple[Any, ...], TrainingResult] = {}
    for loaded in session.loaded:
        result = _train(session, loaded, training, compare, known, out, checkpoints)
        if result is not None:
            results.append(result)
        session.world.barrier()  # the others wait for rank 0's unsharded run here, not where torch's timeout counts
    if session.world.rank == 0:
        print_results(results, compare, session.world.size)
        if report is not None:
            write_results(report, results)
    return bool(session.world.all_gather(all(result.is_good for result in results))[0])


def refuse_too_large(session: Session, loaded: LoadedSchedule) -> None:
    """Raise InputError, on all ranks, if a host has too little memory for its ranks according to the schedule's check.
    This concerns host memory only: a GPU out of memory raises its own error."""
    hosts = session.world.all_gather(session.host)

    def look() -> None:
        count, free = hosts.count(session.host), free_bytes()
        need = count * loaded.peak_bytes
        if session.world.device == "cpu" and need > free:
            raise InputError(
                f"{count} ranks on {session.host} would hold at least {need / 1e9:,.1f} GB; "
                f"allowed: what is free there, {free / 1e9:,.1f} GB",
                where=str(loaded.path),
            )

    session.world.run_on_all(look)


def training_rank(
    session: Session, loaded: LoadedSchedule, training: TrainingSettings, start: StartingPoint = BEGINNING
) -> TrainingRank:
    """Return this rank, ready for training, like all other ranks. Raises InputError for a schedule that cannot be
    trained or does not fit into memory."""
    refuse_too_large(session, loaded)
    rank = session.world.rank
    program = loaded.programs.of(rank)
    return session.ready(
        loaded,
        lambda transport: TrainingRank(loaded.schedule, program, session.backend, rank, transport, training, start),
    )


def _train(
    session: Session,
    loaded: LoadedSchedule,
    training: TrainingSettings,
    compare: bool,
    known: dict[tuple[Any, ...], TrainingResult],
    out: Path | None,
    checkpoints: CheckpointSettings,
) -> TrainingVerdict | None:
    world, schedule = session.world, loaded.schedule
    found = found_checkpoint(world, loaded, training, checkpoints)
    start = BEGINNING if found is None else found.start(loaded.digest)
    first = start.steps
    rank = training_rank(session, loaded, training, start)
    writer = CheckpointWriter(world=world, loaded=loaded, training=training, settings=checkpoints, before=found)

    def before(number: int) -> None:
        world.begin_step(number)
        rank.load(number)

    def after(number: int) -> None:
        rank.record_step()
        writer.write_if_due(rank, number + 1)

    timed, clock_error_s = timed_steps(
        session,
        rank.step,
        training.steps - first,
        f"training by {loaded.name}",
        before=before,
        after=after,
        first=first,
    )
    reports = world.gather(rank.report())
    if reports is None or timed is None:
        return None
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_trace(session, loaded, timed, clock_error_s, out, "trained", {"mode": "train"})
    skipped = frozenset(first + number for number in reports[0].skipped) | start.skipped
    # what another schedule has lost is within that one's bounds, which are not known here
    reference = unsharded(schedule, training, known, skipped) if compare and not start.loses else None
    verdict = verdict_of(loaded, reports, timed, training, reference, start)
    return replace(verdict, checkpoints=tuple(writer.written))


def unsharded(
    schedule: Schedule,
    training: TrainingSettings,
    known: dict[tuple[Any, ...], TrainingResult],
    skipped: frozenset[int] = frozenset(),
) -> TrainingResult:
    """Return the reference result of a schedule's model, with the same skipped steps; schedules with equal model,
    batch, optimizer and precision share one result."""
    meta = schedule.meta
    dtype = "fp64" if model_dtype(schedule) == "fp64" else "fp32"
    shapes = tuple((tensor.name, tensor.role, tensor.shape) for tensor in weights_of(schedule))
    inputs = tuple(schedule.tensors[name].shape for name in input_names(schedule))
    text = tuple(meta.get(key) for key in OF_MODEL)
    dropped = meta.get("attention") if meta.get("dropout") else None  # fused attention drops no probabilities
    narrow = tuple(sorted(narrow_states(schedule).items()))
    key = (shapes, inputs, text, dropped, dtype, narrow, skipped)
    if key not in known:
        known[key] = train_unsharded(schedule, training, dtype, skipped)
    return known[key]
