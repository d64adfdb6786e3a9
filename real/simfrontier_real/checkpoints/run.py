"""Checkpoints of a run on joined ranks: found and verified by all of them, and written while they train."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import typer

from simfrontier.errors import InputError
from simfrontier.schedule import Schedule, saved_states
from simfrontier.wholefile import write_durable
from simfrontier_real.checkpoints.folder import begin, prune, shard_name, step_folder, steps_in, verified
from simfrontier_real.checkpoints.manifest import (
    FORMAT,
    NAME,
    FileOf,
    Manifest,
    Stretch,
    Value,
    manifest_text,
    read_manifest,
)
from simfrontier_real.checkpoints.shard_file import Entry, entries_of, shard_bytes
from simfrontier_real.checkpoints.states_of_rank import Shards, difference, entries_of_rank, logical_tensors, restore
from simfrontier_real.heartbeat import print_line
from simfrontier_real.models import OF_MODEL
from simfrontier_real.rank_context import RankContext
from simfrontier_real.session import LoadedSchedule
from simfrontier_real.train import StartingPoint, TrainingRank, TrainingSettings
from simfrontier_real.verdict import WrittenCheckpoint, why_inexact
from simfrontier_real.world import World

OF_RUN: Final = (*OF_MODEL, "attention", "batch", "clip", "model", "sequence", "tied")
"""What a schedule's meta says of its model, data and optimizer, which a run has in common with the one it goes on
with."""


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


# ── reading ──


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
        _refuse_other_run(manifest, folder, loaded.schedule, training)
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


def _refuse_other_run(manifest: Manifest, folder: Path, schedule: Schedule, training: TrainingSettings) -> None:
    """Raise InputError where a run cannot go on with a checkpoint as the one that wrote it would have."""
    where = str(folder)
    for title, theirs, ours in (
        ("model", manifest.model, model_facts(schedule)),
        ("training", manifest.training, training_facts(training)),
    ):
        for key in dict.fromkeys((*theirs, *ours)):
            if theirs.get(key) != ours.get(key):
                there, here = (json.dumps(each.get(key)) for each in (theirs, ours))
                raise InputError(f"is of another {title}: {key} is {there} there, {here} here", where=where)
    other = difference(schedule, manifest.tensors)
    if other is not None:
        raise InputError(f"is of another model: {other}", where=where)
    if manifest.steps >= training.steps:
        raise InputError(
            f"got {training.steps}, but {folder} is after {manifest.steps} steps; allowed: more", where="--steps"
        )


def model_facts(schedule: Schedule) -> dict[str, Value]:
    """What a schedule says of its model and data, by keys of its meta; nothing of its plan."""
    meta: Mapping[str, str | int] = schedule.meta
    # fused attention drops no probabilities, else how it is computed is the plan's affair
    keys = [key for key in OF_RUN if key in meta and (key != "attention" or meta.get("dropout"))]
    return {key: meta[key] for key in sorted(keys)}


def training_facts(training: TrainingSettings) -> dict[str, Value]:
    """The settings of a run that decide what its weights become."""
    adam = training.adam
    return {
        "seed": training.seed,
        "data_seed": training.data_seed,
        "learning_rate": adam.learning_rate,
        "beta1": adam.beta1,
        "beta2": adam.beta2,
        "epsilon": adam.epsilon,
        "clip": adam.clip,
        "loss_scale": training.loss_scale,
        "of_model": None if training.of_model is None else repr(training.of_model),
    }


# ── writing ──


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
        counters=dict(rank.trainer.counters),
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
