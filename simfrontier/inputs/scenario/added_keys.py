"""Tables that extras add to scenario files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from simfrontier.base.io import Strict
from simfrontier.core.machine import Machine
from simfrontier.inputs.scenario.form import ScenarioFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioKeys:
    """Tables that an extra adds to scenario files, by its module `scenario_keys`.

    `form`: has them as fields, each with a default. `machine`: the machine that a scenario means by them, out of that
    of its table `machine`. `read`: what they name, from the scenario's folder and checked, for `Scenario.contents`;
    sizes with tables of their own have none. Both raise InputError that names the key.
    """

    form: type[Strict]
    machine: Callable[[ScenarioFile, Machine], Machine] | None = None
    read: Callable[[ScenarioFile, Path], object] | None = None
