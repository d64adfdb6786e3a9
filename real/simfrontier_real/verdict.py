"""The verdict on a trained schedule: losses, distances to the unsharded model, bytes; as a table and as JSON."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer

from simfrontier.collectives import messages_of
from simfrontier.schedule.codec import INTEGERS
from simfrontier.schedule.expand import Expanded
from simfrontier.schedule.ir import Collective, Compute, Exchange, Op, Schedule
from simfrontier.wholefile import write_whole
from simfrontier_real.record import Clocked, sent_bytes
from simfrontier_real.session import Loaded
from simfrontier_real.states import Weights
from simfrontier_real.train import Trained

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
    copies_differ: float = 0.0
    measured_bytes: int = 0  # of messages of which only the values say how long they are
    codes_per_hop: bool = False

    @property
    def has_right_bytes(self) -> bool:
        """Whether as much was sent as the schedule says, of all ops of which it can say that."""
        return self.message_bytes == self.scheduled_bytes

    @property
    def is_good(self) -> bool:
        if not self.has_right_bytes or not all(map(math.isfinite, self.losses)):
            return False
        if not self.must_agree or self.weights_error is None or self.loss_error is None:
            return True
        limit = TOLERANCE[self.precision]
        return self.weights_error <= limit and self.loss_error <= limit


def judged(
    loaded: Loaded,
    losses: tuple[float, ...],
    weights: Weights,
    copies_differ: float,
    reference: Trained | None,
    ranks: list[Clocked],
    skipped: int,
) -> Result:
    """What came of training a schedule: mean losses and whole weights, against the unsharded model's; how far copies of
    weights are apart on ranks that should hold the same; `ranks` are all ranks' times and bytes."""
    every = loaded.programs.of_roles
    reason = next((why for why in (why_inexact(loaded.schedule, each) for each in every) if why), "")
    error, worst, loss_error = None, "", None
    if reference is not None:
        error, worst = _distance(weights, reference.weights)
        errors = [abs(a - b) / abs(b) for a, b in zip(losses, reference.losses, strict=True)]
        loss_error = max(errors) if all(map(math.isfinite, errors)) else math.inf
    return Result(
        name=loaded.name,
        digest=loaded.digest,
        precision=model_dtype(loaded.schedule),
        codecs=tuple(sorted({str(op.codec) for each in every for op in each.ops if not isinstance(op, Compute)})),
        must_agree=not reason,
        reason=reason,
        losses=losses,
        reference_losses=() if reference is None else reference.losses,
        weights_error=error,
        worst=worst,
        copies_differ=copies_differ,
        loss_error=loss_error,
        message_bytes=_sent_bytes(loaded, ranks, exact=True),
        measured_bytes=_sent_bytes(loaded, ranks, exact=False),
        codes_per_hop=loaded.schedule.codes_per_hop,
        scheduled_bytes=_scheduled_bytes(loaded),
        step_median_s=statistics.median(
            max(float(rank.end_s[number].max() - rank.begin_s[number]) for rank in ranks)
            for number in range(len(losses))
        ),
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
    """Why a schedule need not agree with the unsharded model, going by one of its programs, or nothing."""
    dtype = model_dtype(schedule)
    if dtype not in TOLERANCE:
        return f"the model is {dtype}"
    for tensor in schedule.tensors.values():
        if tensor.codec is not None and tensor.codec.name not in (dtype, "mpc"):
            return f"moves are {'coded as' if tensor.codec.is_opaque else 'narrowed to'} {tensor.codec}"
    coded = next((op.codec for op in program.ops if isinstance(op, Collective) and op.per_hop), None)
    if coded is not None and not coded.is_measured:
        return f"messages are coded per hop as {coded}"
    if any(isinstance(op, Compute) and op.max_age > 0 for op in program.ops):
        return "forward passes read the step before's weights"
    return ""


def scheduled_bytes(schedule: Schedule, program: Expanded) -> int:
    """Bytes of all messages of one step of which the schedule says how many, for one rank of a program: of collectives
    whole ones, of exchanges what the rank sends."""
    sizes: dict[int, int] = {}
    total = 0
    for index, op in enumerate(program.ops):
        if not _is_exact(op):
            continue
        if isinstance(op, Collective):
            if id(op) not in sizes:
                sizes[id(op)] = sum(each.num_bytes for each in messages_of(op, schedule.tensors, schedule.mesh))
            total += sizes[id(op)]
        elif isinstance(op, Exchange):
            total += sent_bytes(schedule, op, program.reads[index])
    return total


def _sent_bytes(loaded: Loaded, ranks: list[Clocked], exact: bool) -> int:
    """Bytes that were handed over in a step, of the ops of which the schedule says how many or of the others."""
    return sum(
        sent
        for rank, clocked in enumerate(ranks)
        for index, sent in clocked.message_bytes.items()
        if _is_exact(loaded.programs.of(rank).ops[index]) == exact
    )


def _is_exact(op: Op) -> bool:
    """Whether the schedule says how many bytes an op sends: not of what is coded at every hop, which depends on how a
    ring cuts it, nor of what only its values say."""
    return not isinstance(op, Compute) and not op.codec.is_measured and not getattr(op, "per_hop", False)


def _scheduled_bytes(loaded: Loaded) -> int:
    """Over all ranks."""
    each = [scheduled_bytes(loaded.schedule, program) for program in loaded.programs.of_roles]
    return sum(each[number] for number in loaded.programs.by_rank)


def print_results(results: list[Result], compared: bool, ranks: int) -> None:
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
        counted = "as scheduled" if each.has_right_bytes else f"{each.message_bytes:,} of {each.scheduled_bytes:,}"
        counted += f", {each.measured_bytes:,} by their values" if each.measured_bytes else ""
        counted += ", not counted per hop" if each.codes_per_hop else ""
        rows.append(
            (
                each.name,
                each.precision,
                " ".join(codec for codec in each.codecs if codec not in (each.precision, *INTEGERS)) or "none",
                f"{each.losses[0]:.4f}",
                f"{each.losses[-1]:.4f}",
                "" if each.weights_error is None else f"{each.weights_error:.1e}",
                "" if each.loss_error is None else f"{each.loss_error:.1e}",
                f"{(each.message_bytes + each.measured_bytes) / ranks / 1e6:.3f} MB",
                counted,
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
    copies = f"; copies of weights differ by {result.copies_differ:.1e}" if result.copies_differ else ""
    skipped = f"; {result.skipped_steps} steps skipped (gradients overflowed)" if result.skipped_steps else ""
    return f"apart: {result.reason}{copies}{skipped}"


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


def write_results(path: Path, results: list[Result]) -> None:
    """Write the results as JSON. Raises InputError where the file cannot be written."""
    text = json.dumps([_finite({**asdict(result), "is_good": result.is_good}) for result in results], indent=1)
    write_whole(path, text + "\n")
