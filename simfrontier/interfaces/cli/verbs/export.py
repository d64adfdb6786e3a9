"""`simfrontier export`: schedule files of a scenario's plans at one size, with their simulated traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from simfrontier.answers.forecast import forecast_export
from simfrontier.answers.search import GridSearcher
from simfrontier.answers.study import ExportFormat, simulated, write_simulated
from simfrontier.base.errors import InputError, nearest, shown
from simfrontier.base.extras import added
from simfrontier.base.units import counted, written
from simfrontier.base.wholefile import ensure_writable, filled
from simfrontier.core.program import Schedule
from simfrontier.core.trace import SHOWN_DIGITS
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.options import announce
from simfrontier.interfaces.exports.kineto.export import KINETO

OWN: Final = "simfrontier"  # the format of schedules and traces that the other verbs read


def export(
    scenario: options.ScenarioPath,
    out: Annotated[Path, typer.Option(help="folder for schedule-PLAN.json, trace-PLAN.json, or the files of --format")],
    set_: options.Settings = None,
    plans: options.Plans = None,
    devices: Annotated[int | None, typer.Option(help="size to export (default: the scenario's largest)")] = None,
    fidelity: options.Fidelity = None,
    exact: Annotated[bool, typer.Option("--exact", help="simulate every rank, without folding equal ranks")] = False,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            help="simfrontier: schedules and traces; kineto: PyTorch's traces; of extras: chakra, msccl, goal",
        ),
    ] = OWN,
    yes_large: options.YesLarge = False,
) -> None:
    """Write the schedule of every plan at one size and the trace of its simulated step with all ranks; with --fidelity
    chunk also the lowered collectives and the bytes of every link."""
    asked = options.load(scenario, set_, plans, devices)
    announce(forecast_export(asked, fidelity, exact), str(scenario), yes_large)
    chosen_format = _format_of(format_)
    if chosen_format is not None:
        chosen_format.check()
    ensure_writable(out)
    size, searcher, chosen = max(asked.file.run.devices), GridSearcher(), fidelity or asked.file.run.fidelity
    loaded = searcher.resolved(asked, (size,), tuple(asked.plans))
    parts = []
    with filled(out) as new:
        for plan in loaded.plans:
            built = searcher.schedule_cache.get(loaded, plan, size)
            step = simulated(loaded.of(plan, size), built, chosen, exact)
            if chosen_format is not None:
                parts.append(f"{plan} on {size}: {chosen_format.write(loaded, plan, step, new)}")
                continue
            digested = write_simulated(loaded, plan, step, new)
            classes = step.pricing.folding.num_rank_classes
            parts.append(
                f"{plan} on {size}: digest {digested[:SHOWN_DIGITS]}, {_ops(built.schedule)}, "
                f"{counted(classes, 'class', 'classes')} of ranks, step {written(step.step_s, 's')} ({chosen})"
            )
    for line in parts:
        typer.echo(line)
    if chosen_format is not None:
        typer.echo(f"Written to {out} ({chosen_format.name})")
        return
    more = ", lowered-*.json, links-*.json" if chosen == "chunk" else ""
    typer.echo(f"Written to {out}: schedule-*.json, trace-*.json (also for Perfetto){more}")


def _format_of(name: str) -> ExportFormat | None:
    """Return the export format of that name, or None for simfrontier's own format. Raises InputError for an unknown
    name."""
    formats = {each.name: each for each in (KINETO, *added("export_formats", ExportFormat))}
    if name != OWN and name not in formats:
        raise InputError(f"got {shown(name)}; {nearest(name, (OWN, *formats))}", where="--format")
    return formats.get(name)


def _ops(schedule: Schedule) -> str:
    """Return the number of ops of a rank as text; if ranks have several roles, of one rank of each role together."""
    count = sum(len(call.ops) for role in schedule.roles for call in role.calls)
    return f"{count:,} ops" + (f" of {len(schedule.roles)} roles" if len(schedule.roles) > 1 else "")
