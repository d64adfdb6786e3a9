"""Checkpoints of a run: finding the newest finished checkpoint, which all ranks verify together, and writing new
ones."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import typer
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_saver import save

from simfrontier.base.errors import InputError
from simfrontier.base.wholefile import write_whole
from simfrontier_real.ranks.failure import print_line
from simfrontier_real.ranks.session import LoadedSchedule
from simfrontier_real.ranks.world import World
from simfrontier_real.train.checkpoints.manifest import (
    FORMAT,
    MANIFEST,
    Manifest,
    SavedFile,
    Stretch,
    manifest_text,
    model_facts,
    prune,
    read_manifest,
    refuse_other_run,
    saved_file,
    step_folder,
    steps_in,
    training_facts,
    verify,
)
from simfrontier_real.train.checkpoints.states import ChunkSavePlanner, described_tensors, restore, state_dict
from simfrontier_real.train.train import TrainingRank
from simfrontier_real.train.training_settings import StartingPoint, TrainingSettings
from simfrontier_real.verify.verdict import WrittenCheckpoint, why_inexact


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings:
    """Settings of checkpoints: output `folder` (None: write none), number of steps between checkpoints (`every`),
    number of newest checkpoints to keep; folder to resume from (`resume`; None: start from the beginning), and whether
    to start from the beginning if that folder has no finished checkpoint."""

    folder: Path | None = None
    every: int = 1
    keep: int = 2
    resume: Path | None = None
    start_if_none: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCheckpoint:
    """A verified checkpoint, and the folders of newer checkpoints that were refused."""

    folder: Path
    manifest: Manifest
    refused: tuple[Path, ...] = ()

    def start(self, digest: str) -> StartingPoint:
        """Return the starting point for a schedule with this digest."""
        manifest = self.manifest
        others = (each.loses for each in manifest.history if each.loses and each.schedule != digest)
        is_same = manifest.history[-1].schedule == digest
        return StartingPoint(
            steps=manifest.steps,
            skipped=frozenset(manifest.skipped),
            losses=tuple(math.nan if loss is None else loss for loss in manifest.losses),
            restore=lambda context: restore(context, self.folder, is_same),
            counters=manifest.counters,
            loses=next(others, ""),
        )


def found_checkpoint(
    world: World, loaded: LoadedSchedule, training: TrainingSettings, settings: CheckpointSettings
) -> FoundCheckpoint | None:
    """Return the newest finished checkpoint from which to resume, the same on all ranks, or None to start from the
    beginning; rank 0 prints a line for each refused checkpoint. Raises InputError if there is none, or if it belongs to
    another run."""
    if settings.resume is None:
        return None
    resume = settings.resume

    def listed() -> list[tuple[int, Path]]:
        if world.rank or (settings.start_if_none and not resume.exists()):
            return []
        return steps_in(resume)

    steps: list[tuple[int, Path]] = world.all_gather(world.run_on_all(listed))[0]
    faults: list[tuple[Path, str]] = []
    found: FoundCheckpoint | None = None
    for _, folder in steps:
        try:
            manifest = world.run_on_all(partial(_verified, world, folder))
        except InputError as error:
            faults.append((folder, str(error)))
            continue
        refuse_other_run(manifest, folder, loaded.schedule, training)
        found = FoundCheckpoint(folder=folder, manifest=manifest, refused=tuple(path for path, _ in faults))
        break
    if found is None and not settings.start_if_none:
        why = "; ".join(fault for _, fault in faults) or "there is none"
        raise InputError(f"no whole checkpoint: {why}; allowed: one, or --start-if-none", where=f"--resume {resume}")
    if world.rank == 0:
        used = "training starts from the beginning" if found is None else f"{found.folder.name} is used"
        for _, fault in faults:
            print_line(f"{fault}; {used}")
        if found is not None:
            typer.echo(f"going on after step {found.manifest.steps}, from {found.folder}")
    return found


def _verified(world: World, folder: Path) -> Manifest:
    """Return the manifest of a checkpoint, after this rank has verified its share of the files."""
    manifest = read_manifest(folder)
    verify(folder, manifest, sorted(manifest.files)[world.rank :: world.size])
    return manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointWriter:
    """Writes the checkpoints of training by one schedule, on all ranks together; `before` is the checkpoint from which
    it resumed, `written` are the checkpoints of this run so far."""

    world: World
    loaded: LoadedSchedule
    training: TrainingSettings
    settings: CheckpointSettings
    before: FoundCheckpoint | None
    written: list[WrittenCheckpoint] = field(default_factory=list)

    def write_if_due(self, rank: TrainingRank, steps: int) -> None:
        """Write a checkpoint after `steps` steps, if one is due then. Raises InputError, on all ranks, where one of
        them cannot write."""
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
    """Return the manifest after `steps` steps; `losses` are those of the steps since `before` (None: of all steps), and
    `rank` is any rank."""
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
    """Create the folder of a checkpoint, without the remains of an earlier run that stopped while writing it."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror}; allowed: a folder of yours", where=str(folder)
        ) from None
