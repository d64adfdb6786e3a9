"""Verdict on a trained schedule: losses, differences from the unsharded model, and message bytes; as a table and as
JSON."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import typer

from simfrontier.base.wholefile import write_whole
from simfrontier.core.collectives import message_bytes
from simfrontier.core.dtypes import INTEGERS
from simfrontier.core.program import Collective, Compute, Exchange, ExpandedProgram, Op, Schedule
from simfrontier_real.ranks.session import LoadedSchedule
from simfrontier_real.replay.record import RankTimes, sent_bytes
from simfrontier_real.train.models import initial_weights
from simfrontier_real.train.states import assembled, copy_difference, model_dtype
from simfrontier_real.train.training_settings import (
    BEGINNING,
    CLIP,
    RankReport,
    StartingPoint,
    TrainingResult,
    TrainingSettings,
)
from simfrontier_real.verify.bounds import EXACT, bounds_of
from simfrontier_real.verify.checks import TrainingCheck, checks_of, distance
from simfrontier_real.verify.gradients import norm_of


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCheckpoint:
    """A checkpoint that was written after `steps` steps: total size of its files in bytes, and the time for writing
    it."""

    steps: int
    num_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingVerdict:
    """Verdict on training by one schedule. `weights_error` is the largest max |a - b| / max |b| of any parameter
    tensor, `loss_error` the largest relative error of the loss in any step, both relative to the unsharded model (None:
    not compared). `checks` are all comparisons with their limits; `allowed` gives the reason for the limits if
    something is lost. `gradient_norms` are the norms of every step before clipping, `clipped_steps` is the number of
    steps of the unsharded model in which a gradient was clipped to `clip`.

    Bytes are totals of all messages in one step over all ranks; `step_median_s` is the measured median time of a step.

    `must_agree`: nothing is quantised, narrowed or stale, so training must agree with the unsharded model up to
    rounding.

    `first_step` is the number of steps in the checkpoint from which training resumed; the losses cover all steps, the
    checks of gradients, norms and messages only the steps since then. `checkpoints` are the checkpoints written.
    """

    name: str
    digest: str
    precision: str
    codecs: tuple[str, ...]
    must_agree: bool
    reason: str
    losses: tuple[float, ...]
    reference_losses: tuple[float, ...] = ()
    weights_error: float | None = None
    worst: str = ""
    loss_error: float | None = None
    message_bytes: int
    scheduled_bytes: int
    step_median_s: float
    skipped_steps: int
    copies_differ: float = 0.0
    measured_bytes: int = 0  # bytes of messages whose lengths depend on the values
    codes_per_hop: bool = False
    checks: tuple[TrainingCheck, ...] = ()
    allowed: str = ""
    gradient_norms: tuple[float, ...] = ()
    reference_norms: tuple[float, ...] = ()
    clip: float = CLIP
    clipped_steps: int = 0
    first_step: int = 0
    before_loses: str = ""  # why a checkpoint's states need not agree, so that nothing is compared
    checkpoints: tuple[WrittenCheckpoint, ...] = ()

    @property
    def has_right_bytes(self) -> bool:
        """True if the number of bytes sent is as scheduled, over all ops whose bytes the schedule determines."""
        return self.message_bytes == self.scheduled_bytes

    @property
    def has_right_steps(self) -> bool:
        """True if steps were skipped only where gradients can overflow, and not all steps were skipped."""
        return self.skipped_steps == 0 or (self.precision == "fp16" and self.skipped_steps < len(self.losses))

    @property
    def missed(self) -> tuple[TrainingCheck, ...]:
        """The checks that exceed their limits, the largest excess first."""
        return tuple(sorted((each for each in self.checks if not each.holds), key=lambda each: -each.seen / each.limit))

    @property
    def is_good(self) -> bool:
        finite = all(map(math.isfinite, self.losses))
        return self.has_right_bytes and finite and self.has_right_steps and not self.missed


def verdict_of(
    loaded: LoadedSchedule,
    rank_reports: Sequence[RankReport],
    ranks: list[RankTimes],
    training: TrainingSettings,
    reference: TrainingResult | None,
    began: StartingPoint = BEGINNING,
) -> TrainingVerdict:
    """Return the verdict on training by a schedule from the reports of all ranks and the unsharded model (None: not
    compared); `ranks` are the times and bytes of the ranks. `began` is the starting point of training; the reference
    covers all steps. Raises SimfrontierError if copies on different ranks differ."""
    schedule, every = loaded.schedule, loaded.programs.of_roles
    lines = [each.states for each in rank_reports]
    losses = tuple(sum(parts) for parts in zip(*(each.losses for each in rank_reports), strict=True))
    reason = next(filter(None, (why_inexact(schedule, each) for each in every)), "")
    verdict = TrainingVerdict(
        name=loaded.name,
        digest=loaded.digest,
        precision=model_dtype(schedule),
        codecs=tuple(sorted({str(op.codec) for each in every for op in each.ops if not isinstance(op, Compute)})),
        must_agree=not reason,
        reason=reason,
        losses=(*began.losses, *losses),
        copies_differ=copy_difference(schedule, lines),
        message_bytes=_sent_bytes(loaded, ranks, exact=True),
        measured_bytes=_sent_bytes(loaded, ranks, exact=False),
        codes_per_hop=schedule.codes_per_hop,
        scheduled_bytes=_scheduled_bytes(loaded),
        step_median_s=statistics.median(
            max(float(rank.end_s[number].max() - rank.begin_s[number]) for rank in ranks)
            for number in range(len(losses))
        ),
        skipped_steps=len(rank_reports[0].skipped) + len(began.skipped),
        first_step=began.steps,
        before_loses=began.loses,
        clip=training.adam.clip,
    )
    weights = assembled(schedule, lines, may_differ=schedule.codes_per_hop)
    if reference is None:
        return verdict
    start = initial_weights(schedule, training.seed)
    bounds = bounds_of(schedule, every, verdict.precision, not reason, start, training.adam.learning_rate)
    sources = [{**each.states, **each.published} for each in rank_reports]
    masters = assembled(schedule, sources, may_differ=schedule.codes_per_hop, roles=("master",))
    checks = checks_of(
        schedule, loaded.programs, rank_reports, losses, weights, masters, reference, start, bounds, began.steps
    )
    error, worst = distance(weights, reference.weights)
    return replace(
        verdict,
        reference_losses=reference.losses,
        weights_error=error,
        worst=worst,
        loss_error=next(each.seen for each in checks if each.name == "losses"),
        checks=checks,
        allowed=bounds.text,
        # the first rank's norms: what it clips by, or would clip by if it did
        gradient_norms=tuple(next(iter(each.norms), math.nan) for each in rank_reports[0].gradients),
        reference_norms=tuple(norm_of(each) for each in reference.gradients[began.steps :]),
        clipped_steps=reference.clipped_steps,
    )


def why_inexact(schedule: Schedule, program: ExpandedProgram) -> str:
    """Return the reason why training by a schedule need not agree with the unsharded model, judged by one of the
    schedule's programs; empty if it must agree."""
    dtype = model_dtype(schedule)
    if dtype not in EXACT:
        return f"the model is {dtype}"
    for tensor in schedule.tensors.values():
        if tensor.codec is not None and not tensor.codec.is_exact_for(dtype):
            return f"moves are {'coded as' if tensor.codec.is_opaque else 'narrowed to'} {tensor.codec}"
    coded = next((op.codec for op in program.ops if isinstance(op, Collective) and op.per_hop), None)
    if coded is not None and not coded.is_lossless:
        return f"messages are coded per hop as {coded}"
    if any(isinstance(op, Compute) and op.max_age > 0 for op in program.ops):
        return "forward passes read the step before's weights"
    return ""


def scheduled_bytes(schedule: Schedule, program: ExpandedProgram) -> int:
    """Return the scheduled message bytes of one step for one rank of a program, over all ops whose bytes the schedule
    determines: whole messages for collectives, sent messages for exchanges."""
    sizes: dict[int, int] = {}
    total = 0
    for index, op in enumerate(program.ops):
        if not _is_exact(op):
            continue
        if isinstance(op, Collective):
            if op.number not in sizes:
                sizes[op.number] = message_bytes(op, schedule.tensors, schedule.mesh)
            total += sizes[op.number]
        elif isinstance(op, Exchange):
            total += sent_bytes(schedule, op, program.reads[index])
    return total


def _sent_bytes(loaded: LoadedSchedule, ranks: list[RankTimes], exact: bool) -> int:
    """Return the bytes sent in a step by the ops whose bytes the schedule determines (`exact`), or by the other ops."""
    return sum(
        sent
        for rank, clocked in enumerate(ranks)
        for index, sent in clocked.message_bytes.items()
        if _is_exact(loaded.programs.of(rank).ops[index]) == exact
    )


def _is_exact(op: Op) -> bool:
    """Return whether the schedule determines the number of bytes that an op sends: with per-hop coding it depends on
    how a ring splits the message, with codecs of variable length on the values."""
    return not isinstance(op, Compute) and not op.codec.is_measured and not getattr(op, "per_hop", False)


def _scheduled_bytes(loaded: LoadedSchedule) -> int:
    """Return the scheduled message bytes of one step over all ranks."""
    each = [scheduled_bytes(loaded.schedule, program) for program in loaded.programs.of_roles]
    return sum(each[number] for number in loaded.programs.by_rank)


def print_results(results: list[TrainingVerdict], compared: bool, ranks: int) -> None:
    """Print a table with one line per schedule, as wide as necessary: no cell is truncated."""
    cells = [_cells(each, compared, ranks) for each in results]
    rows = [tuple(cells[0]), *(tuple(each.values()) for each in cells)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for each in results:
        if compared and not each.must_agree and not each.before_loses:
            typer.echo(_bounds(each))
    for each in results:
        if each.checkpoints:
            typer.echo(_checkpoints(each))


def _cells(result: TrainingVerdict, compared: bool, ranks: int) -> dict[str, str]:
    """Return the cells of a schedule's line by column title."""
    counted = "as scheduled" if result.has_right_bytes else f"{result.message_bytes:,} of {result.scheduled_bytes:,}"
    counted += f", {result.measured_bytes:,} by their values" if result.measured_bytes else ""
    counted += ", not counted per hop" if result.codes_per_hop else ""
    return {
        "schedule": result.name,
        "precision": result.precision,
        "codecs": " ".join(each for each in result.codecs if each not in (result.precision, *INTEGERS)) or "none",
        "loss, first": f"{result.losses[0]:.4f}",
        "last": f"{result.losses[-1]:.4f}",
        "gradients differ": f"{result.checks[0].seen:.1e}" if result.checks else "",
        "weights differ": "" if result.weights_error is None else f"{result.weights_error:.1e}",
        "losses differ": "" if result.loss_error is None else f"{result.loss_error:.1e}",
        "per rank": f"{(result.message_bytes + result.measured_bytes) / ranks / 1e6:.3f} MB",
        "bytes": counted,
        "step": f"{result.step_median_s * 1e3:.1f} ms",
        "verdict": _verdict(result, compared),
    }


def _verdict(result: TrainingVerdict, compared: bool) -> str:
    if not compared:
        return ""
    if result.before_loses:
        return f"not compared: the checkpoint's steps ran by another schedule, in which {result.before_loses}"
    wrong = [str(each) for each in result.missed]
    if not result.has_right_bytes:
        wrong.append("bytes")
    if not all(map(math.isfinite, result.losses)):
        wrong.append("a loss that is not finite")
    if not result.has_right_steps:
        wrong.append(f"{result.skipped_steps} of {len(result.losses)} steps skipped (gradients overflowed)")
    if wrong:
        return f"DIFFERS: {'; '.join(wrong)}" + (f"; {result.reason}" if result.reason else "")
    clipped = f"; clipped to {result.clip:g} in {result.clipped_steps} steps" if result.clipped_steps else ""
    if result.must_agree:
        return f"equal{clipped}"
    copies = f"; copies of weights differ by {result.copies_differ:.1e}" if result.copies_differ else ""
    skipped = f"; {result.skipped_steps} steps skipped (gradients overflowed)" if result.skipped_steps else ""
    return f"apart within bounds: {result.reason}{copies}{skipped}{clipped}"


def _checkpoints(result: TrainingVerdict) -> str:
    """Return a line on the written checkpoints: their steps, size, and time for writing."""
    written = result.checkpoints
    steps = ", ".join(str(each.steps) for each in written)
    median_s = statistics.median(each.seconds for each in written)
    return (
        f"{result.name}: checkpoints after steps {steps}: {written[-1].num_bytes / 1e6:.3f} MB, "
        f"{median_s * 1e3:.1f} ms each"
    )


def _bounds(result: TrainingVerdict) -> str:
    """Return a line with the limits of a training with losses, and the largest differences."""
    return f"{result.name}: allowed for {result.allowed}: " + ", ".join(
        f"{each.name} {each.limit:.1e} (seen {each.seen:.1e})" for each in result.checks
    )


def _finite(value: Any) -> Any:
    """Return a value for JSON, in which infinity and NaN become null."""
    match value:
        case dict():
            return {key: _finite(part) for key, part in value.items()}
        case tuple() | list():
            return [_finite(part) for part in value]
        case float() if not math.isfinite(value):
            return None
    return value


def write_results(path: Path, results: list[TrainingVerdict]) -> None:
    """Write the results as JSON. Raises InputError where the file cannot be written."""
    text = json.dumps([_finite({**asdict(result), "is_good": result.is_good}) for result in results], indent=1)
    write_whole(path, text + "\n")
