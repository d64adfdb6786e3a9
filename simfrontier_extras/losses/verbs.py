"""The verb `losses`: loss curves of real training under compression policies, compared with a baseline's band."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simfrontier.base.extras import Verb

if TYPE_CHECKING:
    from simfrontier_extras.losses.curves import LossCurves


def losses(
    table: Annotated[Path, typer.Argument(help="table (CSV) of loss curves, from `simfrontier-real losses`")],
    baseline: Annotated[str, typer.Option(help="the compression that others are compared with")] = "none",
    last: Annotated[int, typer.Option(min=1, help="steps at the end that make a final loss")] = 20,
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
) -> None:
    """Report which compression policies leave the band of the uncompressed training's losses. Exit code 1 if one
    does."""
    raise typer.Exit(0 if print_losses(table, baseline, last, json) else 1)


def print_losses(path: Path, baseline: str, last: int, as_json: bool) -> bool:
    """Print the final losses of every policy and seed, their differences from the baseline, and the band; return
    whether all policies stay within it."""
    from simfrontier.interfaces.cli.console import print_json
    from simfrontier_extras.losses.curves import read_losses

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
    apart = curves.apart(policy)
    return {
        "plan": curves.texts[policy],
        "compression": policy,
        "finals": {str(seed): float(final) for seed, final in curves.finals(policy).items()},
        "distance": curves.distance(policy),
        "distances": [float(apart.min(skipna=False)), float(apart.max(skipna=False))],
        "stays": curves.stays(policy),
    }


def _print(curves: LossCurves, rows: list[dict[str, Any]]) -> None:
    import pandas as pd

    from simfrontier_extras.losses.curves import NUM_SD

    band, num_seeds = curves.band, len(curves.finals(curves.baseline))
    typer.echo(f"{len(curves.steps)} steps; a final loss is the mean of the last {curves.last}.")
    if band is None or curves.half_band is None:
        typer.echo("One seed of the baseline says nothing of its band; allowed: several seeds.")
    else:
        typer.echo(
            f"Band of {curves.baseline!r}: {band[0]:.4f} to {band[1]:.4f}, {NUM_SD:g} standard deviations "
            f"({curves.half_band:.4f}) over {num_seeds} seeds to either side of the mean."
        )
    seeds = sorted({int(seed) for row in rows for seed in row["finals"]})
    table = [
        {
            "plan": row["plan"],
            "compression": row["compression"],
            **{f"seed {seed}": _number(row["finals"].get(str(seed)), "") for seed in seeds},
            "distance": _number(row["distance"], "+"),
            "seed by seed": " to ".join(_number(end, "+") for end in row["distances"]),
            "within the band": {True: "yes", False: "NO", None: ""}[row["stays"]],
        }
        for row in rows
    ]
    typer.echo(pd.DataFrame(table).to_string(index=False))


def _number(value: float | None, sign: str) -> str:
    if value is None:
        return "–"
    return f"{value:{sign}.4f}" if math.isfinite(value) else "diverged"


ADDS = (Verb(function=losses),)
