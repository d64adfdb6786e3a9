"""`simfrontier export`: the schedule files of a scenario's plans at one size, each with its simulated trace."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Final

import typer

from simfrontier.collectives import save_lowered
from simfrontier.errors import InputError, nearest, shown
from simfrontier.extras import added
from simfrontier.scenario import Scenario
from simfrontier.schedule import Schedule, digest, save
from simfrontier.simulation import Fidelity, SimulatedStep, lowered_schedule, trace_of
from simfrontier.study import ExportFormat, simulated
from simfrontier.trace import CALIBRATION, CALIBRATION_RESIDUAL, SHOWN_DIGITS, save_links, write_perfetto
from simfrontier.tuning import GridSearcher
from simfrontier.units import written
from simfrontier.wholefile import ensure_writable, filled

OWN: Final = "simfrontier"  # the format of schedules and traces that the other verbs read


def export_scenario(
    scenario: Scenario, out: Path, fidelity: Fidelity | None, exact: bool, format_name: str = OWN
) -> None:
    """Write schedule-PLAN.json and trace-PLAN.json (all rank classes) of every plan at the scenario's largest size, at
    fidelity chunk also lowered-PLAN.json and links-PLAN.json, or what another format has instead: all files, or
    none."""
    chosen_format = _format_of(format_name)
    if chosen_format is not None:
        chosen_format.check()
    ensure_writable(out)
    size, searcher, chosen = max(scenario.file.run.devices), GridSearcher(), fidelity or scenario.file.run.fidelity
    scenario, schedule_cache = searcher.resolved(scenario, (size,), tuple(scenario.plans)), searcher.schedule_cache
    parts = []
    with filled(out, "export") as new:
        for plan in scenario.plans:
            built = schedule_cache.get(scenario, plan, size)
            step = simulated(scenario.of(plan, size), built, chosen, exact)
            if chosen_format is not None:
                parts.append(f"{plan} on {size}: {chosen_format.write(scenario, plan, step, new)}")
                continue
            digested = write_simulated(scenario, plan, step, new)
            classes = step.cluster.folding.num_rank_classes
            parts.append(
                f"{plan} on {size}: digest {digested[:SHOWN_DIGITS]}, {_ops(built.schedule)}, "
                f"{classes} class{'es' if classes > 1 else ''} of ranks, step {written(step.step_s, 's')} ({chosen})"
            )
    for line in parts:
        typer.echo(line)
    if chosen_format is not None:
        typer.echo(f"Written to {out} ({chosen_format.name})")
        return
    more = ", lowered-*.json, links-*.json" if chosen == "chunk" else ""
    typer.echo(f"Written to {out}: schedule-*.json, trace-*.json (also for Perfetto){more}")


def _format_of(name: str) -> ExportFormat | None:
    """The format of that name; None for simfrontier's own. Raises InputError for one that is not known."""
    from simfrontier.kineto import KINETO

    formats = {each.name: each for each in (KINETO, *added("export_formats", ExportFormat))}
    if name != OWN and name not in formats:
        raise InputError(f"got {shown(name)}; {nearest(name, (OWN, *formats))}", where="--format")
    return formats.get(name)


def _ops(schedule: Schedule) -> str:
    """How many ops a rank runs, or the ranks of all roles together."""
    count = sum(len(call.ops) for role in schedule.roles for call in role.calls)
    return f"{count:,} ops" + (f" of {len(schedule.roles)} roles" if len(schedule.roles) > 1 else "")


def write_simulated(scenario: Scenario, name: str, step: SimulatedStep, folder: Path) -> str:
    """Write a schedule and the trace of its simulated step; where single messages were simulated also the recipes of
    its collectives and the bytes of every link; the recipes too of one that codes per hop, which runs by them only.
    Returns the schedule's digest."""
    digested = digest(step.schedule)
    title = f"{scenario.name} {name} {step.schedule.mesh.num_ranks}"
    save(step.schedule, folder / f"schedule-{name}.json")
    write_perfetto(trace_of(step, digested, title, notes=notes_of(scenario)), folder / f"trace-{name}.json")
    if step.link_bytes is not None or step.schedule.codes_per_hop:
        save_lowered(lowered_schedule(step.cluster, digested), folder / f"lowered-{name}.json")
    if step.link_bytes is not None:
        save_links(step.link_table(digested, title), folder / f"links-{name}.json")
    return digested


def notes_of(scenario: Scenario) -> dict[str, str]:
    """The notes of a simulated trace about its scenario."""
    notes = {"scenario": scenario.name}
    if scenario.file.library.calibration:
        notes[CALIBRATION] = Path(scenario.file.library.calibration).name
        residuals = [each.residual for each in scenario.library.tables.values() if each.residual is not None]
        if residuals:
            notes[CALIBRATION_RESIDUAL] = f"{median(residuals):.4g}"
    return notes
