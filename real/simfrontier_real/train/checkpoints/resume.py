"""The checkpoint that a run goes on with: the newest finished one, verified by all ranks together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import typer

from simfrontier.base.errors import InputError
from simfrontier_real.ranks.failure import print_line
from simfrontier_real.ranks.session import LoadedSchedule
from simfrontier_real.ranks.world import World
from simfrontier_real.train.checkpoints.manifest import Manifest, read_manifest, refuse_other_run, steps_in, verify
from simfrontier_real.train.checkpoints.states import restore
from simfrontier_real.train.training_settings import StartingPoint, TrainingSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings:
    """Where checkpoints are written (`folder`; None: nowhere), after every how many steps, and how many of the last are
    kept; the folder of those that training goes on from (`resume`; None: it starts), and whether it starts where that
    has no finished one."""

    folder: Path | None = None
    every: int = 1
    keep: int = 2
    resume: Path | None = None
    start_if_none: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCheckpoint:
    """A checkpoint that has been verified, and the folders of newer ones that were refused."""

    folder: Path
    manifest: Manifest
    refused: tuple[Path, ...] = ()

    def start(self, digest: str) -> StartingPoint:
        """Where a schedule of that digest goes on."""
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
    """The newest finished checkpoint that a run is to go on with, the same on all ranks; rank 0 prints a line for each
    that is refused. None where it is to start. Raises InputError where there is none, or it is another run's."""
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
    """The manifest of a checkpoint of which this rank has verified its share of the files."""
    manifest = read_manifest(folder)
    verify(folder, manifest, sorted(manifest.files)[world.rank :: world.size])
    return manifest
