"""`simfrontier show`: a schedule, or a machine's links, as text."""

from __future__ import annotations

from pathlib import Path

import typer

from simfrontier.errors import InputError, nearest
from simfrontier.scenario import Scenario
from simfrontier.schedule.render import render
from simfrontier.schedule.store import load, save
from simfrontier.study import schedule_of
from simfrontier.units import written


def show_schedule(
    scenario: Scenario | None, path: Path, plan: str | None, devices: int | None, target: Path | None
) -> None:
    """Print the schedule of a file, or of a scenario's plan at a size; write it to `target` if given."""
    if scenario is None:
        schedule = load(path)
    else:
        chosen = plan or next(iter(scenario.plans))
        if chosen not in scenario.plans:
            raise InputError(f"--plan {chosen}: {nearest(chosen, scenario.plans)}")
        schedule = schedule_of(scenario, chosen, devices or min(scenario.file.run.devices))
    if target is not None:
        save(schedule, target)
    typer.echo(render(schedule))


def show_links(scenario: Scenario) -> None:
    """Print every link of a node by name, as `perturbation.links` takes them."""
    machine = scenario.machine
    typer.echo(f"{machine.title}: links of one node (directed; nominal bandwidth; share that a point-to-point copy achieves)")
    for link in machine.node.links:
        share = machine.link_classes[link.link_class].share
        typer.echo(f"  {link.name:<14} {link.link_class:<8} {written(link.bytes_per_s, 'bytes/s'):>10}  {share:.3f}")
