"""The rankings of AxoNN's grids by both versions of its authors' model, registered for `simfrontier tune`."""

from __future__ import annotations

from collections.abc import Iterator

from simfrontier.inputs.scenario import GridJob, GridOrder
from simfrontier_extras.axonn_model.formulas import VERSIONS, VersionName


def _order(version: VersionName) -> GridOrder:
    def grids(scenario: GridJob, devices: int) -> Iterator[dict[str, int]]:
        from simfrontier_extras.axonn_model.ranking import rank_grids

        for one in rank_grids(scenario, version, devices):
            if one.runs:
                yield {"x": one.grid.x, "y": one.grid.y, "z": one.grid.z}

    def listing(scenario: GridJob, top: int | None, as_json: bool) -> bool:
        from simfrontier_extras.axonn_model.ranking import print_grids

        return print_grids(scenario, version, top, as_json)

    return GridOrder(name=version, family="axonn", keys=("x", "y", "z"), grids=grids, listing=listing)


ADDS = tuple(map(_order, VERSIONS))
