"""Forecast of a large job, printed before it begins, and refused above a limit unless the user agrees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from simfrontier.base.errors import InputError

if TYPE_CHECKING:
    from simfrontier.answers.forecast import Forecast


def announce(forecast: Forecast, where: str, agreed: bool) -> None:
    """Print one line on standard error if a job is large. Raises InputError if it is too large and the user has not
    `agreed` (--yes-large)."""
    from simfrontier.answers.forecast import MOST_BYTES, MOST_S

    if forecast.is_too_large and not agreed:
        most = f"{MOST_S / 60:.0f} minutes and {MOST_BYTES / 1e9:.0f} GB"
        raise InputError(
            f"would take about {forecast}; allowed: up to {most}, or any size with --yes-large", where=where
        )
    if forecast.is_large:
        typer.echo(f"simfrontier: {where}: will take about {forecast}", err=True)
