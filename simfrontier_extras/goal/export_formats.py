"""The format `goal` of `simfrontier export`."""

from __future__ import annotations

from pathlib import Path

from simfrontier.scenario import Scenario
from simfrontier.simulation import SimulatedStep
from simfrontier.study import ExportFormat


def _write(scenario: Scenario, plan: str, step: SimulatedStep, folder: Path) -> str:
    """The step of a plan as GOAL text."""
    from simfrontier_extras.goal.export import write_step

    return write_step(plan, step, folder)


ADDS = (
    ExportFormat(
        name="goal",
        sentence="GOAL text of the whole step for LogGOPSim (txt2bin), collectives as single messages",
        write=_write,
    ),
)
