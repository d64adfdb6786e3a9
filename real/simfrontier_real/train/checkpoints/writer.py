"""Checkpoints written while ranks train: torch.distributed.checkpoint's files, then the manifest that lists them."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_saver import save

from simfrontier.base.errors import InputError
from simfrontier.base.wholefile import write_whole
from simfrontier_real.ranks.session import LoadedSchedule
from simfrontier_real.ranks.world import World
from simfrontier_real.train.checkpoints.chunks import ChunkSavePlanner
from simfrontier_real.train.checkpoints.manifest import (
    FORMAT,
    MANIFEST,
    Manifest,
    SavedFile,
    Stretch,
    manifest_text,
    model_facts,
    prune,
    saved_file,
    step_folder,
    training_facts,
)
from simfrontier_real.train.checkpoints.resume import CheckpointSettings, FoundCheckpoint
from simfrontier_real.train.checkpoints.states import described_tensors, state_dict
from simfrontier_real.train.train import TrainingRank
from simfrontier_real.train.training_settings import TrainingSettings
from simfrontier_real.verify.verdict import WrittenCheckpoint, why_inexact


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
            self._write(rank, steps, step_folder(folder, steps))

    def _write(self, rank: TrainingRank, steps: int, folder: Path) -> None:
        world, begun = self.world, time.monotonic()
        world.run_on_all(lambda: _cleared(folder) if world.rank == 0 else None)
        self._save(rank, folder)
        losses = [sum(parts) for parts in zip(*world.all_gather(rank.losses), strict=True)]
        before = None if self.before is None else self.before.manifest

        def finish() -> int:
            if world.rank:
                return 0
            files = {path.name: saved_file(path) for path in sorted(folder.iterdir())}
            manifest = manifest_of(self.loaded, self.training, steps, rank, losses, files, before)
            write_whole(folder / MANIFEST, manifest_text(manifest))
            prune(folder.parent, self.settings.keep, () if self.before is None else self.before.refused)
            return manifest.num_bytes

        num_bytes = world.run_on_all(finish)
        self.written.append(WrittenCheckpoint(steps=steps, num_bytes=num_bytes, seconds=time.monotonic() - begun))

    def _save(self, rank: TrainingRank, folder: Path) -> None:
        try:
            save(
                state_dict(rank.context),
                storage_writer=FileSystemWriter(folder),
                planner=ChunkSavePlanner(),
                process_group=self.world.control,
            )
        except CheckpointException as error:
            number, (why, _) = next(iter(error.failures.items()))
            raise InputError(f"cannot be written by rank {number}: {why}", where=str(folder)) from None


def manifest_of(
    loaded: LoadedSchedule,
    training: TrainingSettings,
    steps: int,
    rank: TrainingRank,
    losses: Sequence[float],
    files: Mapping[str, SavedFile],
    before: Manifest | None,
) -> Manifest:
    """The manifest after so many steps, of which those after `before` (None: all) had these losses, by any rank."""
    schedule = loaded.schedule
    first, skipped, known = (0, (), ()) if before is None else (before.steps, before.skipped, before.losses)
    stretch = Stretch(
        steps=steps,
        plan=str(schedule.meta.get("plan", "")),
        mesh=schedule.mesh.axes,
        schedule=loaded.digest,
        loses=next(filter(None, (why_inexact(schedule, each) for each in loaded.programs.of_roles)), ""),
    )
    past = () if before is None else before.history
    if past and past[-1].schedule == loaded.digest:
        past = past[:-1]
    return Manifest(
        format=FORMAT,
        steps=steps,
        skipped=(*skipped, *(first + number for number in rank.skipped)),
        losses=(*known, *(loss if math.isfinite(loss) else None for loss in losses)),
        counters=dict(rank.training_state.counters),
        model=model_facts(schedule),
        training=training_facts(training),
        history=(*past, stretch),
        tensors=described_tensors(schedule),
        files=dict(files),
    )


def _cleared(folder: Path) -> None:
    """Make the folder of a step, without what a run that ended early has left in it."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror}; allowed: a folder of yours", where=str(folder)
        ) from None
