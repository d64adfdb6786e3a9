"""The verb `losses` of simfrontier-real, with its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simfrontier.base.extras import Verb
from simfrontier_real.options import (
    BackendOption,
    CollectivesOption,
    JoinOption,
    Ranks,
    Schedules,
    TimeoutOption,
    launch_ranks,
)


def losses(
    schedules: Schedules,
    out: Annotated[Path, typer.Option(help="table (CSV) of the loss of every schedule, seed and step to write")],
    seeds: Annotated[str, typer.Option(help="seeds of the weights, e.g. 1,2,3")] = "1,2,3",
    data: Annotated[int, typer.Option(min=0, help="seed of the data, the same for all")] = 0,
    steps: Annotated[int, typer.Option(min=1, help="optimizer steps")] = 200,
    learning_rate: Annotated[float, typer.Option(help="Adam's")] = 3e-3,
    collectives: CollectivesOption = "native",
    backend: BackendOption = "gloo",
    timeout: TimeoutOption = 60.0,
    join_timeout: JoinOption = 15.0,
    ranks: Ranks = None,
) -> None:
    """Train a small real model by schedules that compress messages in different ways, from several seeds, and write
    their loss curves: `simfrontier losses` lists those that leave the band of the uncompressed one."""
    from simfrontier_extras.losses.real.session import curves, parse_seeds
    from simfrontier_real.options import refuse_number, refuse_places

    refuse_number("--learning-rate", learning_rate)
    refuse_places(None, out)
    chosen = parse_seeds(seeds)
    launch_ranks(ranks)
    from simfrontier_real.ranks.session import session
    from simfrontier_real.train.training_settings import Adam, TrainingSettings

    training = TrainingSettings(steps=steps, data=data, adam=Adam(learning_rate=learning_rate, epsilon=1e-5, clip=1.0))
    with session(schedules, backend, True, join_timeout, timeout, collectives) as opened:
        curves(opened, training, chosen, out)


ADDS = (Verb(function=losses),)
