"""Platform of a job: from a machine of the catalog, a machine's file, or a scenario."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from simfrontier.base.errors import InputError, nearest, shown
from simfrontier.base.io import read_toml
from simfrontier.base.units import written
from simfrontier.core.collectives import Library
from simfrontier.core.cost import Placement
from simfrontier.core.machine import HEALTHY, Machine, Perturbation
from simfrontier.inputs.profiler.rank_trace import DeviceModel
from simfrontier.inputs.scenario import Scenario, load_scenario, scenario_of

_PRODUCT: Final = re.compile(r"\b[A-Z]{1,2}\d{1,3}[A-Z]?\b")  # A100, GH200, MI250X, L40S; not SXM4, HBM3, 80GB
_SAME_SIZE: Final = 1.25  # 40 GB are said as 40e9, 39.4 GiB or 42.3e9 bytes

TABLES: Final = ("machine", "library", "run", "nodes", "perturbation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """A machine, its library, the placement of ranks and its degraded components."""

    machine: Machine
    library: Library
    placement: Placement = "block"
    perturbation: Perturbation = HEALTHY


def platform_of(named: str, settings: Mapping[str, Any], option: str) -> Platform:
    """Return the platform of a machine's name, or of the path of a machine's file or of a scenario; `settings`: dotted
    keys of a scenario, of tables that say what a job runs on. Raises InputError."""
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


def difference(machine: Machine, device: DeviceModel) -> str:
    """Return how the device of a trace differs from the machine's: product, memory or compute units, as far as both are
    known; empty if it does not."""
    products, known = (set(_PRODUCT.findall(text)) for text in (device.name, machine.title))
    if products and known and not products & known:
        return f"{device.name}, not {' or '.join(sorted(known))}"
    own = machine.device
    if device.num_bytes and not 1 / _SAME_SIZE <= device.num_bytes / own.hbm_bytes <= _SAME_SIZE:
        return (
            f"{device.name} with {written(device.num_bytes, 'bytes')} of memory, not {written(own.hbm_bytes, 'bytes')}"
        )
    if device.num_units and device.num_units != own.num_compute_units:
        return f"{device.name} with {device.num_units:,} compute units, not {own.num_compute_units:,}"
    return ""
