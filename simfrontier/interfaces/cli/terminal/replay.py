"""Output of `replay`: a simulated step of a schedule file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from simfrontier.answers.step import Exposure, exposure
from simfrontier.base.units import written
from simfrontier.core.engine import SimulatedStep, fullest
from simfrontier.core.program import Peak
from simfrontier.core.trace import SHOWN_DIGITS

_PARTS = {
    "compute": "compute",
    "inter_node": "communication between nodes",
    "intra_node": "communication inside a node",
    "package": "communication inside a package",
    "codec": "encoding and reordering",
    "idle": "idle",
}


def step_document(step: SimulatedStep, peaks: Sequence[Peak]) -> dict[str, str | int | float | bool]:
    """Return the step, its parts and its memory, under the names of the columns of results.csv."""
    spent, memory = exposure(step), fullest(step, peaks)
    return {
        "devices": step.schedule.mesh.num_ranks,
        "machine": step.pricing.machine.name,
        "library": step.pricing.library.name,
        "fidelity": step.fidelity,
        "step_time_s": step.step_s,
        "step_time_nominal_s": step.step_s,
        "compute_time_s": step.compute_s,
        "exposed_comm_s": step.step_s - step.compute_s,
        **{f"exposed_{part}_s": float(getattr(spent, part)) for part in _PARTS if part != "compute"},
        "peak_memory_bytes": memory.peak_bytes,
        "fits": memory.peak_bytes <= step.pricing.machine.device.hbm_bytes,
        "rank_classes": step.pricing.folding.num_rank_classes,
    }


def print_step(path: Path, digested: str, step: SimulatedStep, peaks: Sequence[Peak], out: Path | None) -> None:
    """Print a step, the parts of its critical rank, and the memory; `out`: the trace that was written."""
    row, machine = step_document(step, peaks), step.pricing.machine
    typer.echo(f"{path}: passed (digest {digested[:SHOWN_DIGITS]})")
    typer.echo(
        f"{row['devices']:,} devices of {machine.title}, library {row['library']}, {row['fidelity']}: "
        f"{written(step.step_s, 's')} per step"
    )
    typer.echo("\n".join(_spent(exposure(step), step.step_s)))
    need, have = (written(float(size), "bytes") for size in (row["peak_memory_bytes"], machine.device.hbm_bytes))
    typer.echo(f"  memory: {need} at most, of {have}{'' if row['fits'] else ': does not fit'}")
    if out is not None:
        typer.echo(f"Written: {out} (also for Perfetto)")


def _spent(spent: Exposure, step_s: float) -> list[str]:
    """Return lines for the non-zero parts of the critical rank's step."""
    parts = [(name, float(getattr(spent, part))) for part, name in _PARTS.items()]
    return [f"  {name + ':':<33}{written(s, 's'):>10} {100 * s / step_s:5.1f} %" for name, s in parts if s > 0]
