"""Orders in which grids of a family of plans are tried: models that extras add by their module `grid_orders`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from simfrontier.extras import added
from simfrontier.records import dataclass

if TYPE_CHECKING:
    from simfrontier.scenario.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOrder:
    """What a plan's `search.by` and `simfrontier tune --fidelity` name.

    `keys`: the options that it gives to plans of `family`. `grids`: their values for a scenario on so many devices, the
    best first. `listing`: prints all grids at the scenario's largest size, or the best so many, as a table or JSON;
    whether any can run. Both raise InputError for a scenario that the model does not know, and SimfrontierError where
    no grid is allowed.
    """

    name: str
    family: str
    keys: tuple[str, ...]
    grids: Callable[[Scenario, int], Iterable[Mapping[str, int]]]
    listing: Callable[[Scenario, int | None, bool], bool]


@cache
def grid_orders() -> Mapping[str, GridOrder]:
    """All orders by name."""
    return {order.name: order for order in added("grid_orders", GridOrder)}


def order_names() -> tuple[str, ...]:
    return tuple(grid_orders())
