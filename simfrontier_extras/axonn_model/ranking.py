"""Ranking of all grids of a number of devices by their predicted communication, as in the search of AxoNN's authors;
and the list that `simfrontier tune --fidelity axonn-a` (or axonn-b) prints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import typer

from simfrontier.base.errors import InputError, SimfrontierError
from simfrontier.base.units import written
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
    """Return every grid that the authors' search allows, the fastest first, equally fast ones by (x, y, z, data).

    The search takes powers of two whose product is `num_devices`, with x y z of at least `min_tensor` (to fit into
    memory), where data z divides `batch` (sequences per step over all devices). It does not check whether the grid can
    split the model; the authors' launcher drops such grids afterwards. Here they keep their rank in the list, with the
    obstacle, so that ranks equal those in the authors' list; to get a grid that can run, take the first one that
    `runs`. Raises SimfrontierError if no grid is allowed, with the reason; InputError as comm_times.
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
    """Round to twelve digits: times that differ only by the order of floating-point sums are equal."""
    return float(f"{seconds:.11e}")


def _uneven(grid: Grid, batch: int, accumulation: int) -> str:
    shares = grid.data * grid.z * accumulation
    if batch % shares == 0:
        return ""
    return f"batch = {batch} does not divide into data x Z x accumulation = {shares}"


def _no_grid(num_devices: int, min_tensor: int) -> str:
    """Return the reason why no grid is allowed. There are only two possible reasons: the grid with X = `num_devices`
    divides every batch and has the most ranks sharing the weights."""
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


def rank_grids(scenario: GridJob, version: VersionName, devices: int) -> tuple[Ranked, ...]:
    """Return the grids of a scenario's model on a number of devices, by predicted communication, best first.

    Raises InputError if the model is no GPT, or the version has no formula for it or no table for the machine;
    SimfrontierError if no grid is allowed. Each error is one line with the scenario's file.
    """
    table, shape = _keys(scenario), scenario.shape
    try:
        if not isinstance(shape, GptShape):
            raise InputError(f"model.name: got {scenario.file.model.name!r}, an MLP; allowed: a GPT")
        return ranked(
            _bandwidths(scenario, version),
            transformer_of(shape, intermediate=table.intermediate, gqa=table.gqa, swiglu=table.swiglu),
            devices,
            _batch(scenario, devices),
            min_tensor=table.min_tensor,
            quirk=table.quirk,
            accumulation=table.accumulation,
        )
    except SimfrontierError as error:
        raise type(error)(f"{scenario.where}: {error}") from None


def _keys(scenario: GridJob) -> AxonnKeys:
    assert isinstance(scenario.file.tune, AxonnKeys)
    return scenario.file.tune


def _batch(scenario: GridJob, devices: int) -> int:
    """Return the number of sequences per step over all devices."""
    training = scenario.file.training
    return training.about(scenario.shape.sequence) or training.micro_batch * training.grad_accum * devices


def _bandwidths(scenario: GridJob, version: VersionName) -> Bandwidths:
    machine = _keys(scenario).bandwidth
    try:
        return load_bandwidths(version, machine or scenario.machine.name)
    except InputError as error:
        key = "machine.name" if machine is None else "tune.bandwidth"
        more = " (tune.bandwidth takes another machine's)" if machine is None else ""
        raise InputError(f"{key}: {error}{more}") from None


# ── the list ──

SHOWN = 20  # as many as the authors' launcher submits


def print_grids(scenario: GridJob, version: VersionName, top: int | None, as_json: bool) -> bool:
    """Print the ranking at the scenario's largest size, the best `top` grids (by default 20; all of them as JSON);
    return whether any grid can run."""
    devices = max(scenario.file.run.devices)
    entries = rank_grids(scenario, version, devices)
    if as_json:
        typer.echo(json.dumps([_row(place, one) for place, one in enumerate(entries[:top], start=1)], indent=1))
    else:
        typer.echo("\n".join(_lines(scenario, version, devices, entries, SHOWN if top is None else top)))
    return any(one.runs for one in entries)


def _row(place: int, one: Ranked) -> dict[str, int | float | bool | str]:
    sizes = dict(zip(("x", "y", "z", "data"), one.grid.sizes, strict=True))
    times = {f"{name}_time_s": getattr(one.times, f"{name}_s") for name in sizes}
    more = {"comm_time_s": one.times.total_s, **times, "runs": one.runs, "obstacle": one.obstacle}
    return {"rank": place, **sizes, **more}


def _lines(
    scenario: GridJob, version: VersionName, devices: int, entries: tuple[Ranked, ...], top: int
) -> Iterator[str]:
    import pandas as pd

    bandwidths, total, running = _bandwidths(scenario, version), len(entries), sum(one.runs for one in entries)
    title = f"{scenario.shape.name} on {devices:,} devices, grids by communication in a step"
    yield f"{scenario.file.title}: {title} ({version})"
    rows = []
    for place, one in enumerate(entries[:top], start=1):
        times = (one.times.total_s, one.times.x_s, one.times.y_s, one.times.z_s, one.times.data_s)
        cells = ("–" if time == 0.0 else written(time, "s") for time in times)
        rows.append((place, *one.grid.sizes, *cells, "" if one.runs else f"cannot run: {one.obstacle}"))
    head = ["", "X", "Y", "Z", "data", "comm. time", "in X", "in Y", "in Z", "in data", ""]
    yield pd.DataFrame(rows, columns=head).to_string(index=False)
    shown = f"The best {top} of {total} grids (--top, --json)" if top < total else f"All {total} grids"
    yield f"{shown}; {running} of {total} can run."
    widths = "as the authors' code has them" if _keys(scenario).quirk else "its own, not as in the authors' code"
    sequence = f"Batch {_batch(scenario, devices):,} of {scenario.shape.sequence:,} tokens"
    yield f"{sequence}; widths of the layer down: {widths}."
    yield f"Bandwidths of {bandwidths.machine}: {bandwidths.source}."
    yield "Communication alone: computing, overlap and memory are outside this model."
