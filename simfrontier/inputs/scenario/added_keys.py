"""Keys, tables and grid orders that extras add to scenario files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

from simfrontier.base.extras import added
from simfrontier.base.io import Strict, extended
from simfrontier.core.machine import Machine
from simfrontier.core.workload import Shape
from simfrontier.inputs.scenario.form import ScenarioFile
from simfrontier.inputs.scenario.usual_grid import USUAL_KEYS, usual_grids


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioKeys:
    """Tables that an extra adds to scenario files, registered by its module `scenario_keys`.

    `form`: the pydantic model with these tables as fields, each with a default. `machine`: function from the scenario
    file and the machine of its table `machine` to the machine that these tables define. `read`: function that reads and
    validates what these tables refer to, relative to the scenario's folder, for `Scenario.contents`; scenarios of sizes
    with tables of their own have no contents. Both functions raise InputError that names the key.
    """

    form: type[Strict]
    machine: Callable[[ScenarioFile, Machine], Machine] | None = None
    read: Callable[[ScenarioFile, Path], object] | None = None


SCENARIO_KEYS: Final = added("scenario_keys", ScenarioKeys)
FileForm: Final = extended(ScenarioFile, [keys.form for keys in SCENARIO_KEYS], "FileForm", __name__)


class GridJob(Protocol):
    """The training job for which grids are ordered: a `Scenario` whose plans are not known yet."""

    @property
    def where(self) -> str:
        """The scenario file that error messages name."""

    @property
    def file(self) -> ScenarioFile: ...

    @property
    def machine(self) -> Machine: ...

    @property
    def shape(self) -> Shape: ...


Listing = Callable[[GridJob, int | None, bool], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOrder:
    """An order of grids, as named by `search.by` of a plan and by `simfrontier tune --fidelity`.

    `keys`: the options that a grid sets in plans of `family`. `grids`: function that returns the values of these
    options for a job on a number of devices, best grid first; with `takes_first`, the first grid that fits into memory
    is taken, else the fastest. `listing`: function that prints the grids at the largest size of the job's scenario, all
    or a limited number of the best ones, as a table or JSON, and returns whether any grid can run; None if `tune` does
    not list them. Both functions raise InputError for a job that the model of the order does not cover, and
    SimfrontierError if no grid is allowed.
    """

    name: str
    family: str
    keys: tuple[str, ...]
    grids: Callable[[GridJob, int], Iterable[Mapping[str, Any]]]
    listing: Listing | None = None
    takes_first: bool = False


USUAL: Final = GridOrder(name="usual", family="megatron", keys=USUAL_KEYS, grids=usual_grids, takes_first=True)


@cache
def grid_orders() -> Mapping[str, GridOrder]:
    """Return all grid orders by name."""
    return {order.name: order for order in (USUAL, *added("grid_orders", GridOrder))}


def order_names() -> tuple[str, ...]:
    return tuple(grid_orders())
