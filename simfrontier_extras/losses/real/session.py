"""Recording of loss curves: the schedules of a session are trained from several seeds on the same data, and their
losses written as a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from simfrontier.base.errors import InputError
from simfrontier.base.wholefile import write_whole
from simfrontier.core.program import Compute, Schedule
from simfrontier_extras.losses.curves import COLUMNS
from simfrontier_real.ranks.session import LoadedSchedule, Session
from simfrontier_real.replay.timed import timed_steps
from simfrontier_real.train.train_session import training_rank
from simfrontier_real.train.training_settings import TrainingSettings


def curves(session: Session, training: TrainingSettings, seeds: Sequence[int], out: Path) -> None:
    """Train every schedule with initial weights from every seed; rank 0 writes the mean loss of each step."""
    refuse_misnamed([(loaded.name, loaded.schedule) for loaded in session.loaded])
    rows: list[tuple[str, str, int, int, str]] = []
    for loaded in session.loaded:
        for seed in seeds:
            losses = _losses(session, loaded, replace(training, seed=seed), f"{loaded.name}, seed {seed}")
            compression = str(loaded.schedule.meta.get("compression", "none"))
            rows += [(loaded.name, compression, seed, step, f"{loss:.9g}") for step, loss in enumerate(losses, 1)]
    if session.world.rank == 0:
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows(rows)
        write_whole(out, text.getvalue())


def _losses(session: Session, loaded: LoadedSchedule, training: TrainingSettings, title: str) -> Iterator[float]:
    """Yield the mean loss of every step, on rank 0."""
    rank = training_rank(session, loaded, training)
    own_losses: list[float] = []
    timed_steps(
        session, rank.step, training.steps, title, before=rank.load, after=lambda _: own_losses.append(rank.loss())
    )
    all_losses = session.world.gather(own_losses) or []
    return (sum(parts) for parts in zip(*all_losses, strict=True))


def parse_seeds(text: str) -> tuple[int, ...]:
    """Parse seeds such as `1,2,3`. Raises InputError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts) or len(set(parts)) < len(parts):
        raise InputError(f"got {text!r}; allowed: different whole numbers, e.g. 1,2,3", where="--seeds")
    return tuple(map(int, parts))


def refuse_misnamed(loaded: Sequence[tuple[str, Schedule]]) -> None:
    """Raise InputError if two schedules have the same compression policy, so that their curves could not be
    distinguished, or if a schedule compresses nothing despite its policy, or something without a policy."""
    first: dict[object, str] = {}
    for name, schedule in loaded:
        ops = [op for role in schedule.roles for _, op in role.instances() if not isinstance(op, Compute)]
        coded = frozenset((op.name, str(op.codec), getattr(op, "per_hop", False)) for op in ops if op.codec.is_opaque)
        text = str(schedule.meta.get("compression", "none"))
        if (text == "none") == bool(coded):
            does = (
                f"codes {len(coded)} kinds of moves" if coded else "codes nothing: all messages are below compress_from"
            )
            raise InputError(f"{name}: compresses by {text!r}, but {does}; allowed: plans that code what they say")
        other = first.setdefault(coded, name)
        if other != name:
            raise InputError(f"{other} and {name} compress alike ({text}); allowed: one schedule of each policy")
