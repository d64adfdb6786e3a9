"""Checkpoints written while ranks train: each rank its file, then rank 0 the manifest that makes them one."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simfrontier.errors import InputError
from simfrontier.schedule import saved_states
from simfrontier.wholefile import write_durable
from simfrontier_real.checkpoints.facts import model_facts, training_facts
from simfrontier_real.checkpoints.folder import begin, prune, shard_name, step_folder
from simfrontier_real.checkpoints.manifest import FORMAT, NAME, FileOf, Manifest, Stretch, manifest_text
from simfrontier_real.checkpoints.resume import CheckpointSettings, FoundCheckpoint
from simfrontier_real.checkpoints.shard_file import shard_bytes
from simfrontier_real.checkpoints.states_of_rank import entries_of_rank, logical_tensors
from simfrontier_real.rank_context import RankContext
from simfrontier_real.session import LoadedSchedule
from simfrontier_real.train import TrainingRank
from simfrontier_real.training_settings import TrainingSettings
from simfrontier_real.verdict import WrittenCheckpoint, why_inexact
from simfrontier_real.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointWriter:
    """Writes the checkpoints of one schedule's training, on all ranks together; `before` is what it goes on from.
    `written` are those of this run so far."""

    world: World
    loaded: LoadedSchedule
    training: TrainingSettings
    settings: CheckpointSettings
    before: FoundCheckpoint | None
    written: list[WrittenCheckpoint] = field(default_factory=list)

    def write_if_due(self, rank: TrainingRank, steps: int) -> None:
        """Write a checkpoint after so many steps, if this is one of those after which there is one. Raises InputError,
        on all ranks, where one of them cannot write."""
        folder = self.settings.folder
        if folder is not None and (steps % self.settings.every == 0 or steps == self.training.steps):
            self.write(rank, steps, step_folder(folder, steps))

    def write(self, rank: TrainingRank, steps: int, folder: Path) -> None:
        """Write a checkpoint: every rank its file, then rank 0 the manifest; and remove the oldest ones."""
        world, begun = self.world, time.monotonic()
        world.run_on_all(lambda: _prepared(folder) if world.rank == 0 else None)
        file = world.run_on_all(lambda: write_shard(folder, rank.context, steps, self.loaded.digest))
        everybody = world.all_gather((file, rank.losses))
        files = [each for each, _ in everybody if each is not None]
        losses = [sum(parts) for parts in zip(*(parts for _, parts in everybody), strict=True)]
        before = None if self.before is None else self.before.manifest

        def finish() -> None:
            if world.rank == 0:
                manifest = manifest_of(self.loaded, self.training, steps, rank, losses, files, before)
                write_durable(folder / NAME, manifest_text(manifest).encode())
                prune(folder.parent, self.settings.keep, () if self.before is None else self.before.refused)

        world.run_on_all(finish)
        self.written.append(
            WrittenCheckpoint(
                steps=steps, num_bytes=sum(each.bytes for each in files), seconds=time.monotonic() - begun
            )
        )


def manifest_of(
    loaded: LoadedSchedule,
    training: TrainingSettings,
    steps: int,
    rank: TrainingRank,
    losses: Sequence[float],
    files: Sequence[FileOf],
    before: Manifest | None,
) -> Manifest:
    """The manifest after so many steps, of which those after `before` (None: all) had these losses, by any rank."""
    schedule = loaded.schedule
    first = 0 if before is None else before.steps
    loses = next(filter(None, (why_inexact(schedule, each) for each in loaded.programs.of_roles)), "")
    stretch = Stretch(
        steps=steps,
        plan=str(schedule.meta.get("plan", "")),
        mesh=schedule.mesh.axes,
        schedule=loaded.digest,
        loses=loses,
    )
    past = () if before is None else before.history
    if past and past[-1].schedule == loaded.digest:
        past = past[:-1]
    return Manifest(
        format=FORMAT,
        steps=steps,
        skipped=(*(() if before is None else before.skipped), *(first + number for number in rank.skipped)),
        losses=(*(() if before is None else before.losses), *_finite(losses)),
        counters=dict(rank.training_state.counters),
        model=model_facts(schedule),
        training=training_facts(training),
        history=(*past, stretch),
        tensors=logical_tensors(saved_states(schedule)),
        files=tuple(files),
    )


def _finite(losses: Iterable[float]) -> Iterable[float | None]:
    return (loss if math.isfinite(loss) else None for loss in losses)


def _prepared(folder: Path) -> None:
    try:
        begin(folder)
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror}; allowed: a folder of yours", where=str(folder)
        ) from None


def write_shard(folder: Path, context: RankContext, steps: int, digest: str) -> FileOf | None:
    """Write the file of a rank; None where others write all that it holds. Raises InputError."""
    entries = entries_of_rank(context)
    if not entries:
        return None
    about: dict[str, Any] = {
        "format": FORMAT,
        "steps": str(steps),
        "rank": str(context.rank),
        "plan": str(context.schedule.meta.get("plan", "")),
        "mesh": json.dumps(context.schedule.mesh.axes),
        "schedule": digest,
    }
    content = shard_bytes(entries, about)
    name = shard_name(context.rank)
    write_durable(folder / name, content)
    return FileOf(name=name, rank=context.rank, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
