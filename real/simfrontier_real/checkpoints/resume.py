"""The checkpoint that a run goes on with: the newest whole one, found and verified by all ranks together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from simfrontier.errors import InputError
from simfrontier_real.checkpoints.facts import refuse_other_run
from simfrontier_real.checkpoints.folder import steps_in, verified
from simfrontier_real.checkpoints.manifest import FileOf, Manifest, read_manifest
from simfrontier_real.checkpoints.shard_file import Entry, entries_of
from simfrontier_real.checkpoints.states_of_rank import Shards, restore
from simfrontier_real.heartbeat import print_line
from simfrontier_real.rank_context import RankContext
from simfrontier_real.session import LoadedSchedule
from simfrontier_real.training_settings import StartingPoint, TrainingSettings
from simfrontier_real.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings:
    """Where checkpoints are written (`folder`; None: nowhere), after every how many steps, and how many of the last are
    kept; the folder of those that training goes on from (`resume`; None: it starts), and whether it starts where that
    has no whole one."""

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
    shards: Shards
    refused: tuple[Path, ...] = ()

    def start(self, digest: str) -> StartingPoint:
        """Where a schedule of that digest goes on."""
        manifest, shards = self.manifest, self.shards
        others = (each.loses for each in manifest.history if each.loses and each.schedule != digest)

        def put(context: RankContext) -> None:
            restore(context, shards)

        return StartingPoint(
            steps=manifest.steps,
            skipped=frozenset(manifest.skipped),
            losses=tuple(math.nan if loss is None else loss for loss in manifest.losses),
            restore=put,
            counters=manifest.counters,
            loses=next(others, ""),
        )


def found_checkpoint(
    world: World, loaded: LoadedSchedule, training: TrainingSettings, settings: CheckpointSettings
) -> FoundCheckpoint | None:
    """The newest whole checkpoint that a run is to go on with, the same on all ranks; rank 0 prints a line for each
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
        verdict = _verified_by_all(world, folder)
        if isinstance(verdict, str):
            faults.append((folder, verdict))
            continue
        manifest, shards = verdict
        refuse_other_run(manifest, folder, loaded.schedule, training)
        found = FoundCheckpoint(
            folder=folder, manifest=manifest, shards=shards, refused=tuple(path for path, _ in faults)
        )
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


def _verified_by_all(world: World, folder: Path) -> tuple[Manifest, Shards] | str:
    """A checkpoint of which every rank has verified some files; in words what is wrong with it."""
    manifest: Manifest | str = world.all_gather(_manifest(folder) if world.rank == 0 else "")[0]
    if isinstance(manifest, str):
        return manifest
    mine = {
        file.rank: _entries(folder, file)
        for number, file in enumerate(manifest.files)
        if number % world.size == world.rank
    }
    everybody: dict[int, list[Entry] | str] = {}
    for theirs in world.all_gather(mine):
        everybody |= theirs
    return joined(folder, manifest, everybody)


def read_checkpoint(folder: Path) -> tuple[Manifest, Shards] | str:
    """A checkpoint that this process verifies by itself; in words what is wrong with it."""
    manifest = _manifest(folder)
    if isinstance(manifest, str):
        return manifest
    return joined(folder, manifest, {file.rank: _entries(folder, file) for file in manifest.files})


def joined(folder: Path, manifest: Manifest, entries: Mapping[int, list[Entry] | str]) -> tuple[Manifest, Shards] | str:
    """A checkpoint out of the entries of its files by rank, or of what is wrong with the first that is not whole."""
    good: dict[int, tuple[Path, Sequence[Entry]]] = {}
    for file in manifest.files:
        held = entries[file.rank]
        if isinstance(held, str):
            return held
        good[file.rank] = (folder / file.name, held)
    return manifest, Shards(good)


def _manifest(folder: Path) -> Manifest | str:
    try:
        return read_manifest(folder)
    except InputError as error:
        return str(error)


def _entries(folder: Path, file: FileOf) -> list[Entry] | str:
    try:
        return entries_of(verified(folder, file), str(folder / file.name))
    except InputError as error:
        return str(error)
