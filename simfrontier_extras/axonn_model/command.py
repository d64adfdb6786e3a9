"""`simfrontier tune --fidelity axonn-a` (or axonn-b): every grid of a scenario's model by its predicted communication,
as a table or JSON."""

from __future__ import annotations

import json

import typer

from simfrontier.base.units import written
from simfrontier.inputs.scenario import GridJob
from simfrontier_extras.axonn_model.formulas import VersionName
from simfrontier_extras.axonn_model.ranking import GridRanking, Ranked, rank_grids

SHOWN = 20  # as many as the authors' launcher submits


def print_grids(scenario: GridJob, fidelity: VersionName, top: int | None, as_json: bool) -> bool:
    """Print the ranking at the scenario's largest size, the best `top` grids (by default 20; all of them as JSON);
    returns whether any grid can run."""
    ranking = rank_grids(scenario, fidelity, max(scenario.file.run.devices))
    if as_json:
        typer.echo(json.dumps([_row(place, one) for place, one in enumerate(ranking.grids[:top], start=1)], indent=1))
    else:
        _print(ranking, SHOWN if top is None else top)
    return any(one.runs for one in ranking.grids)


def _row(place: int, one: Ranked) -> dict[str, int | float | bool | str]:
    x, y, z, data = one.grid.sizes
    times = one.times
    return {
        "rank": place,
        "x": x,
        "y": y,
        "z": z,
        "data": data,
        "comm_time_s": times.total_s,
        "x_time_s": times.x_s,
        "y_time_s": times.y_s,
        "z_time_s": times.z_s,
        "data_time_s": times.data_s,
        "runs": one.runs,
        "obstacle": one.obstacle,
    }


def _print(ranking: GridRanking, top: int) -> None:
    import pandas as pd

    title = f"{ranking.model} on {ranking.devices:,} devices, grids by communication in a step"
    typer.echo(f"{ranking.title}: {title} ({ranking.bandwidths.version})")
    rows = []
    for place, one in enumerate(ranking.grids[:top], start=1):
        times = (one.times.total_s, one.times.x_s, one.times.y_s, one.times.z_s, one.times.data_s)
        cells = ("–" if time == 0.0 else written(time, "s") for time in times)
        rows.append((place, *one.grid.sizes, *cells, "" if one.runs else f"cannot run: {one.obstacle}"))
    head = ["", "X", "Y", "Z", "data", "comm. time", "in X", "in Y", "in Z", "in data", ""]
    typer.echo(pd.DataFrame(rows, columns=head).to_string(index=False))
    for line in _notes(ranking, top):
        typer.echo(line)


def _notes(ranking: GridRanking, top: int) -> list[str]:
    total = len(ranking.grids)
    running = sum(one.runs for one in ranking.grids)
    shown = f"The best {top} of {total} grids (--top, --json)" if top < total else f"All {total} grids"
    widths = "as the authors' code has them" if ranking.quirk else "its own, not as in the authors' code"
    return [
        f"{shown}; {running} of {total} can run.",
        f"Batch {ranking.batch:,} of {ranking.transformer.sequence:,} tokens; widths of the layer down: {widths}.",
        f"Bandwidths of {ranking.bandwidths.machine}: {ranking.bandwidths.source}.",
        "Communication alone: computing, overlap and memory are outside this model.",
    ]
