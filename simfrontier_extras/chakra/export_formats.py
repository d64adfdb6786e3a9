"""The format `chakra` of `simfrontier export`."""

from __future__ import annotations

from pathlib import Path

from simfrontier.scenario import Scenario
from simfrontier.simulation import SimulatedStep
from simfrontier.study import ExportFormat
from simfrontier_extras.chakra.schema import ensure_protobuf


def write(scenario: Scenario, plan: str, step: SimulatedStep, folder: Path) -> str:
    """The traces of a plan's step, and what was written in words."""
    from simfrontier_extras.chakra.write import write_traces

    return write_traces(scenario, plan, step, folder)


ADDS = (
    ExportFormat(
        name="chakra",
        sentence="execution traces of MLCommons Chakra, one for each rank, for simulators such as ASTRA-sim",
        write=write,
        check=ensure_protobuf,
    ),
)
