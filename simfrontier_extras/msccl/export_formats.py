"""The format `msccl` of `simfrontier export`."""

from __future__ import annotations

from pathlib import Path

from simfrontier.scenario import Scenario
from simfrontier.simulation import SimulatedStep
from simfrontier.study import ExportFormat


def _write(scenario: Scenario, plan: str, step: SimulatedStep, folder: Path) -> str:
    """The collectives of a plan's schedule as MSCCL algorithm files."""
    from simfrontier_extras.msccl.export import write_collectives

    return write_collectives(plan, step.pricing, folder)


ADDS = (
    ExportFormat(
        name="msccl",
        sentence="MSCCL algorithm files of the plan's collectives, which RCCL executes; each is evaluated first",
        write=_write,
    ),
)
