"""Orders in which grids of a family of plans are tried: models that extras add by their module `grid_orders`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from simfrontier.base.extras import added
from simfrontier.core.machine import Machine
from simfrontier.core.workload import Shape
from simfrontier.inputs.scenario.form import ScenarioFile


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
    """What a plan's `search.by` and `simfrontier tune --fidelity` name.

    `keys`: the options that it gives to plans of `family`. `grids`: their values for a job on so many devices, the best
    first. `listing`: prints all grids at the largest size of the job's scenario, or the best so many, as a table or
    JSON; whether any can run. Both raise InputError for a job that the model does not know, and SimfrontierError where
    no grid is allowed.
    """

    name: str
    family: str
    keys: tuple[str, ...]
    grids: Callable[[GridJob, int], Iterable[Mapping[str, int]]]
    listing: Callable[[GridJob, int | None, bool], bool]


@cache
def grid_orders() -> Mapping[str, GridOrder]:
    """All orders by name."""
    return {order.name: order for order in added("grid_orders", GridOrder)}


def order_names() -> tuple[str, ...]:
    return tuple(grid_orders())
