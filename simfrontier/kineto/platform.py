"""What a job runs on: a machine of the catalog, a machine's file, or what a scenario says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from simfrontier.collectives import Library
from simfrontier.cost import Placement
from simfrontier.errors import InputError, nearest, shown
from simfrontier.io import read_toml
from simfrontier.machine import HEALTHY, Machine, Perturbation
from simfrontier.records import dataclass
from simfrontier.scenario import Scenario, load_scenario, scenario_of

TABLES: Final = ("machine", "library", "run", "nodes", "perturbation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """A machine, its library, where ranks are placed and what is wrong with it."""

    machine: Machine
    library: Library
    placement: Placement = "block"
    perturbation: Perturbation = HEALTHY


def platform_of(named: str, settings: Mapping[str, Any], option: str) -> Platform:
    """The platform of a machine's name, or of the path of a machine's file or of a scenario; `settings`: dotted keys of
    a scenario, of tables that say what a job runs on. Raises InputError."""
    for key in settings:
        if (table := key.partition(".")[0]) not in TABLES:
            raise InputError(
                f"{shown(key)}: {nearest(table, TABLES)}, the tables that a job's machine has", where="--set"
            )
    if named.endswith(".toml") and "plans" in read_toml(Path(named), "scenario or machine file"):
        return _of(load_scenario(Path(named), settings))
    document = {
        "name": "job",
        "title": "a job that is read from traces",
        "machine": {"name": named},
        "model": {"name": "tiny"},
        "run": {"devices": [1]},
        "plans": {"ddp": {}},
    }
    return _of(scenario_of(document, option, settings, laid_out=False))


def _of(scenario: Scenario) -> Platform:
    return Platform(
        machine=scenario.machine,
        library=scenario.library,
        placement=scenario.file.run.placement,
        perturbation=scenario.file.perturbation,
    )
