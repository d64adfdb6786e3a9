"""`simfrontier export`: the schedule files of a scenario's plans at one size, each with its simulated trace."""

from __future__ import annotations

from pathlib import Path

import typer

from simfrontier.commands.folder import ensure_writable, filled
from simfrontier.scenario import Scenario
from simfrontier.schedule.store import digest, save
from simfrontier.simulate import Fidelity
from simfrontier.study import Shop, simulated
from simfrontier.trace import write_perfetto
from simfrontier.units import written


def export_scenario(scenario: Scenario, out: Path, fidelity: Fidelity | None, exact: bool) -> None:
    """Write schedule-PLAN.json and trace-PLAN.json (all rank classes) of every plan at the scenario's largest size: all
    files, or none."""
    ensure_writable(out)
    size, shop, chosen = max(scenario.file.run.devices), Shop(), fidelity or scenario.file.run.fidelity
    said = []
    with filled(out) as new:
        for plan in scenario.plans:
            built = shop.get(scenario, plan, size)
            step, digested = simulated(scenario, built, chosen, exact), digest(built.schedule)
            save(built.schedule, new / f"schedule-{plan}.json")
            trace = step.trace(digested, f"{scenario.name} {plan} {size}", notes=notes_of(scenario))
            write_perfetto(trace, new / f"trace-{plan}.json")
            classes = step.cluster.folding.num_rank_classes
            said.append(
                f"{plan} on {size}: digest {digested[:16]}, {built.program.num_ops:,} ops, "
                f"{classes} class{'es' if classes > 1 else ''} of ranks, step {written(step.step_s, 's')} ({chosen})"
            )
    for line in said:
        typer.echo(line)
    typer.echo(f"Written to {out}: schedule-*.json, trace-*.json (also for Perfetto)")


def notes_of(scenario: Scenario) -> dict[str, str]:
    """What a simulated trace says of the scenario that it was made with."""
    calibration = scenario.file.library.calibration
    return {"scenario": scenario.name} | ({"calibration": Path(calibration).name} if calibration else {})
