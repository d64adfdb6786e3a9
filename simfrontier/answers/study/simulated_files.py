"""Files of a simulated step: its schedule, its trace, and what single messages add to them."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from simfrontier.core.collectives import save_lowered
from simfrontier.core.engine import SimulatedStep, lowered_schedule, trace_of
from simfrontier.core.program import digest, save
from simfrontier.core.trace import CALIBRATION, CALIBRATION_RESIDUAL, save_links, write_perfetto
from simfrontier.inputs.scenario import Scenario


def write_simulated(scenario: Scenario, name: str, step: SimulatedStep, folder: Path) -> str:
    """Write a schedule and the trace of its simulated step; where single messages were simulated also the recipes of
    its collectives and the bytes of every link; the recipes too of one that codes per hop, which runs by them only.
    Returns the schedule's digest."""
    digested = digest(step.schedule)
    title = f"{scenario.name} {name} {step.schedule.mesh.num_ranks}"
    save(step.schedule, folder / f"schedule-{name}.json")
    write_perfetto(trace_of(step, digested, title, notes=notes_of(scenario)), folder / f"trace-{name}.json")
    if step.link_bytes is not None or step.schedule.codes_per_hop:
        save_lowered(lowered_schedule(step.pricing, digested), folder / f"lowered-{name}.json")
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
