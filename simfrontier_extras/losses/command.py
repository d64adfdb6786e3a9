"""`simfrontier losses`: loss curves of real training under policies of compression, against a baseline's band."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from simfrontier.cli import print_json
from simfrontier_extras.losses.curves import NUM_SD, LossCurves, read_losses


def print_losses(path: Path, baseline: str, last: int, as_json: bool) -> bool:
    """Print finals of every policy and seed, distances and the band; whether all stay within it."""
    curves = read_losses(path, baseline, last, str(path))
    rows = [_row(curves, policy) for policy in curves.policies]
    if as_json:
        document = {
            "baseline": baseline,
            "last": last,
            "steps": len(curves.steps),
            "band": curves.band,
            "policies": rows,
        }
        print_json(document)
    else:
        _print(curves, rows)
    return all(row["stays"] is not False for row in rows)


def _row(curves: LossCurves, policy: str) -> dict[str, Any]:
    distance, base = curves.distance(policy), curves.finals(curves.baseline)
    apart = [final - base[seed] for seed, final in curves.finals(policy).items()]
    return {
        "plan": curves.of(policy)[0].plan,
        "compression": policy,
        "finals": {str(seed): final for seed, final in curves.finals(policy).items()},
        "distance": distance,
        "distances": [min(apart), max(apart)],
        "stays": curves.stays(policy),
    }


def _print(curves: LossCurves, rows: list[dict[str, Any]]) -> None:
    band = curves.band
    typer.echo(f"{len(curves.steps)} steps; a final loss is the mean of the last {curves.last}.")
    if band is None or curves.half_band is None:
        typer.echo("One seed of the baseline says nothing of its band; allowed: several seeds.")
    else:
        typer.echo(
            f"Band of {curves.baseline!r}: {band[0]:.4f} to {band[1]:.4f}, {NUM_SD:g} standard deviations "
            f"({curves.half_band:.4f}) over {len(curves.of(curves.baseline))} seeds to either side of the mean."
        )
    seeds = sorted({int(seed) for row in rows for seed in row["finals"]})
    head = [f"seed {seed}" for seed in seeds]
    table = [["plan", "compression", *head, "distance", "seed by seed", "within the band"]]
    for row in rows:
        finals = [_number(row["finals"].get(str(seed)), "") for seed in seeds]
        within = {True: "yes", False: "NO", None: ""}[row["stays"]]
        ends = " to ".join(_number(end, "+") for end in row["distances"])
        table.append([row["plan"], row["compression"], *finals, _number(row["distance"], "+"), ends, within])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())


def _number(value: float | None, sign: str) -> str:
    return "diverged" if value is None else f"{value:{sign}.4f}"
