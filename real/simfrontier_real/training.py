"""Training schedules on joined ranks, against the unsharded model; what a user sees: losses, distances, bytes."""

from __future__ import annotations

import json
import math
import os
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer

from simfrontier.collectives import messages_of
from simfrontier.errors import InputError
from simfrontier.schedule.expand import Expanded
from simfrontier.schedule.ir import Collective, Compute, Schedule
from simfrontier.trace import write_perfetto
from simfrontier_real.clock import offset_s
from simfrontier_real.data import input_name
from simfrontier_real.progress import progress
from simfrontier_real.record import clocked, trace_of
from simfrontier_real.reference import train_unsharded
from simfrontier_real.session import Loaded, Session
from simfrontier_real.states import Weights, assembled, weights_of
from simfrontier_real.train import Trained, Training, TrainingRank

TOLERANCE = {"fp64": 1e-10, "fp32": 1e-5}  # of weights and losses, relative, where nothing is quantised


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One schedule, trained. `weights_error` is the largest over the parameter tensors of max |a - b| / max |b|,
    `loss_error` the largest relative one over the steps, both against the unsharded model (None: not compared).

    Bytes are of all messages of one step, over all ranks; `step_median_s` is what a step really took.

    `must_agree`: nothing on the way is quantised, narrowed or stale, so the two have to be equal but for rounding.
    """

    name: str
    digest: str
    precision: str
    codecs: tuple[str, ...]
    must_agree: bool
    reason: str
    losses: tuple[float, ...]
    reference_losses: tuple[float, ...]
    weights_error: float | None
    worst: str
    loss_error: float | None
    message_bytes: int
    scheduled_bytes: int
    step_median_s: float
    skipped_steps: int

    @property
    def is_good(self) -> bool:
        if self.message_bytes != self.scheduled_bytes or not all(map(math.isfinite, self.losses)):
            return False
        if not self.must_agree or self.weights_error is None or self.loss_error is None:
            return True
        limit = TOLERANCE[self.precision]
        return self.weights_error <= limit and self.loss_error <= limit


def train_all(session: Session, training: Training, compare: bool, report: Path | None, out: Path | None) -> bool:
    """Train every schedule of a session; rank 0 prints a table and writes `report`. Whether all agree that must."""
    results: list[Result] = []
    known: dict[tuple[Any, ...], Trained] = {}
    offset, clock_error = offset_s(session.world, session.host)
    for loaded in session.loaded:
        result = _train(session, loaded, training, compare, known, out, (offset, clock_error))
        if result is not None:
            results.append(result)
        session.world.barrier()  # the others wait for rank 0's unsharded run here, not where torch's timeout counts
    if session.world.rank == 0:
        _print(results, compare, session.world.size)
        if report is not None:
            _write(report, results)
    return bool(session.world.shared(all(result.is_good for result in results))[0])


def _train(
    session: Session,
    loaded: Loaded,
    training: Training,
    compare: bool,
    known: dict[tuple[Any, ...], Trained],
    out: Path | None,
    clock: tuple[float, float],
) -> Result | None:
    world, schedule, program = session.world, loaded.schedule, loaded.program
    session.transport.prepare(schedule)
    rank = TrainingRank(
        schedule, program, session.backend, world.rank, session.transport, training, lanes=session.lanes
    )
    losses, times = [], []
    with progress(world.rank, training.steps, f"training by {loaded.name}") as advance:
        for number in range(training.steps):
            rank.load(number)
            world.barrier()
            times.append(rank.executor.run_step(session.timeout_s))
            losses.append(rank.loss())
            advance()
    rank.lanes.close()
    everybody = world.gathered((losses, rank.held(), rank.step.message_bytes, rank.trainer.num_skipped))
    timed = world.gathered(clocked(times, clock[0], session.host, rank.step.message_bytes))
    if everybody is None or timed is None:
        return None
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        notes = {"backend": world.backend, "mode": "train", "clock_error_s": f"{clock[1]:.9f}"}
        trace = trace_of(schedule, program, timed, f"{loaded.name}, trained, {world.size} ranks", notes)
        write_perfetto(trace, out / f"trace-{loaded.name}.json")
    mean = tuple(sum(parts) for parts in zip(*(each[0] for each in everybody), strict=True))
    weights = assembled(schedule, [each[1] for each in everybody])
    moved = sum(sum(each[2].values()) for each in everybody)
    trained = _unsharded(schedule, training, known) if compare else None
    longest = [
        max(rank.end_s[number].max() - rank.begin_s[number] for rank in timed) for number in range(training.steps)
    ]
    return _result(
        loaded, mean, weights, trained, moved, world.size, float(statistics.median(longest)), everybody[0][3]
    )


def _unsharded(schedule: Schedule, training: Training, known: dict[tuple[Any, ...], Trained]) -> Trained:
    """The reference of a schedule's model; schedules of one model, batch and precision share it."""
    meta = schedule.meta
    dtype = "fp64" if model_dtype(schedule) == "fp64" else "fp32"
    shapes = tuple((tensor.name, tensor.shape) for tensor in weights_of(schedule))
    inputs = schedule.tensors[input_name(schedule)].shape
    key = (shapes, inputs, meta.get("grad_accum"), meta.get("num_layers"), dtype)
    if key not in known:
        known[key] = train_unsharded(schedule, training, dtype)
    return known[key]


def _result(
    loaded: Loaded,
    losses: tuple[float, ...],
    weights: Weights,
    reference: Trained | None,
    moved: int,
    ranks: int,
    step_s: float,
    skipped: int,
) -> Result:
    reason = why_inexact(loaded.schedule, loaded.program)
    error, worst, loss_error = None, "", None
    if reference is not None:
        error, worst = _distance(weights, reference.weights)
        errors = [abs(a - b) / abs(b) for a, b in zip(losses, reference.losses, strict=True)]
        loss_error = max(errors) if all(map(math.isfinite, errors)) else math.inf
    return Result(
        name=loaded.name,
        digest=loaded.digest,
        precision=model_dtype(loaded.schedule),
        codecs=tuple(sorted({str(op.codec) for op in loaded.program.ops if isinstance(op, Collective)})),
        must_agree=not reason,
        reason=reason,
        losses=losses,
        reference_losses=() if reference is None else reference.losses,
        weights_error=error,
        worst=worst,
        loss_error=loss_error,
        message_bytes=moved,
        scheduled_bytes=ranks * scheduled_bytes(loaded.schedule, loaded.program),
        step_median_s=step_s,
        skipped_steps=skipped,
    )


def _distance(ours: Weights, theirs: Weights) -> tuple[float, str]:
    """The largest relative difference of a parameter tensor, and which tensor it is."""
    import numpy as np

    worst = (0.0, "")
    for key, values in theirs.items():
        largest = float(np.abs(values).max())
        error = float(np.abs(ours[key] - values).max()) / (largest if largest > 0 else 1.0)
        error = error if math.isfinite(error) else math.inf
        if error > worst[0]:
            worst = (error, f"{key[0]} of layer {key[1]}")
    return worst


def model_dtype(schedule: Schedule) -> str:
    """The type of the model's weights."""
    return next(tensor.dtype for tensor in schedule.tensors.values() if tensor.role == "weight")


def why_inexact(schedule: Schedule, program: Expanded) -> str:
    """Why a schedule need not agree with the unsharded model, or nothing."""
    dtype = model_dtype(schedule)
    if dtype not in TOLERANCE:
        return f"the model is {dtype}"
    for tensor in schedule.tensors.values():
        if tensor.codec is not None and tensor.codec.name != dtype:
            return "moves are quantised" if tensor.codec.is_quantised else f"moves are narrowed to {tensor.codec}"
    if any(isinstance(op, Compute) and op.max_age > 0 for op in program.ops):
        return "forward passes read the step before's weights"
    return ""


def scheduled_bytes(schedule: Schedule, program: Expanded) -> int:
    """Bytes of all messages of one step as the schedule says, counted once per rank."""
    sizes: dict[int, int] = {}
    total = 0
    for op in program.ops:
        if isinstance(op, Collective):
            if id(op) not in sizes:
                sizes[id(op)] = sum(each.num_bytes for each in messages_of(op, schedule.tensors, schedule.mesh))
            total += sizes[id(op)]
    return total


def _print(results: list[Result], compared: bool, ranks: int) -> None:
    """A table of one line per schedule, wide where it must be: no cell is cut."""
    header = (
        "schedule",
        "precision",
        "codecs",
        "loss, first",
        "last",
        "weights differ",
        "losses differ",
        "per rank",
        "bytes",
        "step",
        "verdict",
    )
    rows = [header]
    for each in results:
        as_scheduled = each.message_bytes == each.scheduled_bytes
        rows.append(
            (
                each.name,
                each.precision,
                " ".join(codec for codec in each.codecs if ":" in codec or codec != each.precision) or "none",
                f"{each.losses[0]:.4f}",
                f"{each.losses[-1]:.4f}",
                "" if each.weights_error is None else f"{each.weights_error:.1e}",
                "" if each.loss_error is None else f"{each.loss_error:.1e}",
                f"{each.message_bytes / ranks / 1e6:.3f} MB",
                "as scheduled" if as_scheduled else f"{each.message_bytes:,} of {each.scheduled_bytes:,}",
                f"{each.step_median_s * 1e3:.1f} ms",
                _verdict(each, compared),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())


def _verdict(result: Result, compared: bool) -> str:
    if not compared:
        return ""
    if result.must_agree:
        return "equal" if result.is_good else f"DIFFERS, most in {result.worst}"
    skipped = f"; {result.skipped_steps} steps skipped (gradients overflowed)" if result.skipped_steps else ""
    return f"apart: {result.reason}{skipped}"


def _finite(value: Any) -> Any:
    """What JSON cannot say (infinity, not a number) as null."""
    match value:
        case dict():
            return {key: _finite(part) for key, part in value.items()}
        case tuple() | list():
            return [_finite(part) for part in value]
        case float() if not math.isfinite(value):
            return None
    return value


def _write(path: Path, results: list[Result]) -> None:
    text = json.dumps([_finite({**asdict(result), "is_good": result.is_good}) for result in results], indent=1)
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text + "\n", encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
