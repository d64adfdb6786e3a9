"""All grids of a number of devices by their predicted communication, as AxoNN's authors search them."""

from __future__ import annotations

from dataclasses import dataclass

from simfrontier.base.errors import InputError, SimfrontierError
from simfrontier.core.workload import GptShape
from simfrontier.inputs.scenario import GridJob
from simfrontier_extras.axonn_model.formulas import (
    Bandwidths,
    CommTimes,
    Grid,
    Transformer,
    VersionName,
    comm_times,
    grids,
    load_bandwidths,
    transformer_of,
)
from simfrontier_extras.axonn_model.tune_keys import AxonnKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A grid, its predicted communication, and why it cannot run ("" where it can)."""

    grid: Grid
    times: CommTimes
    obstacle: str

    @property
    def runs(self) -> bool:
        return not self.obstacle


def ranked(
    bandwidths: Bandwidths,
    transformer: Transformer,
    num_devices: int,
    batch: int,
    *,
    min_tensor: int = 1,
    quirk: bool = True,
    accumulation: int = 1,
) -> tuple[Ranked, ...]:
    """Every grid that the authors' search allows, the fastest first, equally fast ones by (x, y, z, data).

    The search takes powers of two with the product `num_devices`, x y z of at least `min_tensor` (what memory needs)
    and a `batch` (sequences of a step over all devices) that data z divides. Whether the model can be cut like that it
    does not ask; the launcher leaves such grids out afterwards. So they keep their place in the order, with the
    obstacle: places are those of the authors' list, and who wants one to run takes the first that `runs`.
    Raises SimfrontierError where no grid is allowed, naming the condition; InputError as comm_times.
    """
    allowed = [grid for grid in grids(num_devices) if grid.tensor >= min_tensor and not batch % (grid.data * grid.z)]
    if not allowed:
        raise SimfrontierError(_no_grid(num_devices, min_tensor))
    entries = [
        Ranked(
            grid=grid,
            times=comm_times(bandwidths, transformer, grid, batch, quirk=quirk, accumulation=accumulation),
            obstacle=transformer.obstacle(grid) or _uneven(grid, batch, accumulation),
        )
        for grid in allowed
    ]
    return tuple(sorted(entries, key=lambda entry: (_rounded(entry.times.total_s), entry.grid)))


def _rounded(seconds: float) -> float:
    """Twelve digits: what is equal but for the order of the floating-point sums is equally fast."""
    return float(f"{seconds:.11e}")


def _uneven(grid: Grid, batch: int, accumulation: int) -> str:
    shares = grid.data * grid.z * accumulation
    if batch % shares == 0:
        return ""
    return f"batch = {batch} does not divide into data x Z x accumulation = {shares}"


def _no_grid(num_devices: int, min_tensor: int) -> str:
    """Only these two conditions can leave nothing: X = `num_devices` divides every batch and shares the weights
    furthest."""
    total = sum(1 for _ in grids(num_devices))
    if total:
        return (
            f"no grid of {num_devices} devices is allowed: X·Y·Z of at least min_tensor = {min_tensor} "
            f"excludes all {total}; allowed: min_tensor up to {num_devices}"
        )
    below = 1 << (num_devices.bit_length() - 1)
    nearest = below if num_devices - below <= 2 * below - num_devices else 2 * below
    return (
        f"no grid of {num_devices} devices is allowed: sizes are powers of two, so their product is none of that; "
        f"nearest number of devices: {nearest}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRanking:
    """All grids of a scenario at one size, best first, and what they were ranked for; `batch` is sequences of a step
    over all devices."""

    title: str
    model: str
    devices: int
    batch: int
    transformer: Transformer
    bandwidths: Bandwidths
    quirk: bool
    grids: tuple[Ranked, ...]


def rank_grids(scenario: GridJob, version: VersionName, devices: int) -> GridRanking:
    """The grids of a scenario's model on that many devices, by predicted communication.

    Raises InputError where the model is no GPT, the version has no formula for it or no table for the machine;
    SimfrontierError where no grid is allowed. One line each, with the scenario's file.
    """
    table, training, shape = scenario.file.tune, scenario.file.training, scenario.shape
    assert isinstance(table, AxonnKeys)
    try:
        if not isinstance(shape, GptShape):
            raise InputError(f"model.name: got {scenario.file.model.name!r}, an MLP; allowed: a GPT")
        bandwidths = _bandwidths(scenario, table.bandwidth, version)
        transformer = transformer_of(shape, intermediate=table.intermediate, gqa=table.gqa, swiglu=table.swiglu)
        batch = training.batch or training.micro_batch * training.grad_accum * devices
        grids = ranked(
            bandwidths,
            transformer,
            devices,
            batch,
            min_tensor=table.min_tensor,
            quirk=table.quirk,
            accumulation=table.accumulation,
        )
    except SimfrontierError as error:
        raise type(error)(f"{scenario.where}: {error}") from None
    return GridRanking(
        title=scenario.file.title,
        model=shape.name,
        devices=devices,
        batch=batch,
        transformer=transformer,
        bandwidths=bandwidths,
        quirk=table.quirk,
        grids=grids,
    )


def _bandwidths(scenario: GridJob, machine: str | None, version: VersionName) -> Bandwidths:
    try:
        return load_bandwidths(version, machine or scenario.machine.name)
    except InputError as error:
        key = "machine.name" if machine is None else "tune.bandwidth"
        more = " (tune.bandwidth takes another machine's)" if machine is None else ""
        raise InputError(f"{key}: {error}{more}") from None
