"""Keys, tables and orders of grids that extras add to scenario files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Protocol

from simfrontier.base.extras import added
from simfrontier.base.io import Strict, extended
from simfrontier.core.machine import Machine
from simfrontier.core.workload import Shape
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


SCENARIO_KEYS: Final = added("scenario_keys", ScenarioKeys)
FileForm: Final = extended(ScenarioFile, [keys.form for keys in SCENARIO_KEYS], "FileForm", __name__)


class GridJob(Protocol):
    """The training job that grids are ordered for: a `Scenario`, before its plans are known."""

    @property
    def where(self) -> str:
        """The file that errors name."""

    @property
    def file(self) -> ScenarioFile: ...

    @property
    def machine(self) -> Machine: ...

    @property
    def shape(self) -> Shape: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOrder:
    """An order of grids, as `search.by` of a plan and `simfrontier tune --fidelity` name it.

    `keys`: the options that it sets in plans of `family`. `grids`: their values for a job on a number of devices, the
    best first. `listing`: prints grids at the largest size of the job's scenario, all or a limited number of the best,
    as a table or JSON; returns whether any can run. Both raise InputError for a job that the model does not know, and
    SimfrontierError where no grid is allowed.
    """

    name: str
    family: str
    keys: tuple[str, ...]
    grids: Callable[[GridJob, int], Iterable[Mapping[str, int]]]
    listing: Callable[[GridJob, int | None, bool], bool]


@cache
def grid_orders() -> Mapping[str, GridOrder]:
    """Return all orders by name."""
    return {order.name: order for order in added("grid_orders", GridOrder)}


def order_names() -> tuple[str, ...]:
    return tuple(grid_orders())
