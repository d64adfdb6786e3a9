"""Manifest of a checkpoint, written last: its files, and the properties that a resuming run must have in common with
it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from simfrontier.base.errors import InputError
from simfrontier.base.io import read_json, typed
from simfrontier.core.program import Schedule
from simfrontier_real.train.checkpoints.states import described_tensors
from simfrontier_real.train.models import OF_MODEL
from simfrontier_real.train.training_settings import TrainingSettings

_STEP: Final = re.compile(r"step-(\d{6,18})")
MANIFEST: Final = "manifest.json"  # of a finished checkpoint


def step_folder(folder: Path, steps: int) -> Path:
    """Return the folder of the checkpoint that is written after `steps` steps."""
    return folder / f"step-{steps:06}"


def steps_in(folder: Path) -> list[tuple[int, Path]]:
    """Return the checkpoints in a folder, finished or not, newest first, each with its number of steps; for the folder
    of a single checkpoint, return only this one. Raises InputError if the folder does not exist."""
    match = _STEP.fullmatch(folder.absolute().name)
    try:
        if match is not None and folder.is_dir():
            return [(int(match[1]), folder)]
        found = [(match, path) for path in folder.iterdir() if (match := _STEP.fullmatch(path.name)) and path.is_dir()]
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror}; allowed: a folder of checkpoints", where=str(folder)
        ) from None
    return sorted(((int(match[1]), path) for match, path in found), reverse=True)


def refuse_others(folder: Path, resumed: Path | None) -> None:
    """Raise InputError if the output folder has checkpoints of a run other than the resumed one."""
    if not folder.is_dir() or not (held := steps_in(folder)):
        return
    if resumed is not None and folder.resolve() in (resumed.resolve(), resumed.resolve().parent):
        return
    newest = held[0][1].name
    raise InputError(
        f"{folder} holds checkpoints ({newest}); allowed: a folder without, or --resume {folder}", where="--checkpoint"
    )


def prune(folder: Path, keep: int, refused: Collection[Path]) -> None:
    """Remove all checkpoints older than the newest `keep` finished ones; refused checkpoints do not count."""
    finished = 0
    for _, path in steps_in(folder):
        if finished >= keep:
            shutil.rmtree(path, ignore_errors=True)
        elif path not in refused and (path / MANIFEST).is_file():
            finished += 1


FORMAT: Final = "simfrontier checkpoint 2"
OF_RUN: Final = (*OF_MODEL, "attention", "batch", "clip", "model", "sequence", "tied")
"""Keys of a schedule's meta about its model, data and optimizer."""

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedFile:
    """Size and SHA-256 of a file."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Steps that one schedule ran: the number of the last step, the schedule's plan, mesh (axes and sizes) and digest,
    and the reason why training need not agree with the unsharded model (empty: nothing is lost)."""

    steps: int
    plan: str
    mesh: tuple[tuple[str, int], ...]
    schedule: str
    loses: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Contents of a checkpoint's manifest. `steps`: number of optimizer steps so far; `skipped`: numbers (from 0) of
    the steps that were skipped because gradients overflowed; `losses`: mean loss of every step (null: not finite);
    `counters`: integers that a model keeps in addition to its states; `history`: the schedules that ran the steps, the
    last of which wrote the checkpoint; `tensors`: type and shape of each tensor by name."""

    format: str
    steps: int
    skipped: tuple[int, ...]
    losses: tuple[float | None, ...]
    counters: dict[str, int]
    model: dict[str, Value]
    training: dict[str, Value]
    history: tuple[Stretch, ...]
    tensors: dict[str, str]
    files: dict[str, SavedFile]

    @property
    def num_bytes(self) -> int:
        """Total size in bytes of all files except the manifest."""
        return sum(each.bytes for each in self.files.values())


def manifest_text(manifest: Manifest) -> str:
    """Return a manifest as JSON text."""
    return json.dumps(asdict(manifest), indent=1) + "\n"


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest in a checkpoint's folder. Raises InputError if there is none."""
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(f"has no {MANIFEST}, which is written last: not finished", where=str(folder))
    document = read_json(path, "manifest of a checkpoint")
    found = document.get("format") if isinstance(document, dict) else None
    if found != FORMAT:
        raise InputError(f"format {found!r}; allowed: {FORMAT!r}", where=str(path))
    return typed(document, Manifest, str(path))


def saved_file(path: Path) -> SavedFile:
    """Return the size and digest of a file."""
    with path.open("rb") as file:
        return SavedFile(bytes=path.stat().st_size, sha256=hashlib.file_digest(file, "sha256").hexdigest())


def verify(folder: Path, manifest: Manifest, names: Collection[str]) -> None:
    """Raise InputError if one of the named files differs from its size or digest in the manifest."""
    for name in names:
        path, written = folder / name, manifest.files[name]
        try:
            found = saved_file(path)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
        if found.bytes != written.bytes:
            raise InputError(f"has {found.bytes:,} bytes, written were {written.bytes:,}", where=str(path))
        if found != written:
            raise InputError("has been changed: its SHA-256 is another one", where=str(path))


# ── what runs have in common ──


def model_facts(schedule: Schedule) -> dict[str, Value]:
    """Return the entries of a schedule's meta that describe the model and data, without the plan."""
    meta = schedule.meta
    # fused attention drops no probabilities, else how it is computed is the plan's affair
    keys = [key for key in OF_RUN if key in meta and (key != "attention" or meta.get("dropout"))]
    return {key: meta[key] for key in sorted(keys)}


def training_facts(training: TrainingSettings) -> dict[str, Value]:
    """Return the training settings on which the weights depend."""
    return {
        "seed": training.seed,
        "data_seed": training.data_seed,
        **asdict(training.adam),
        "loss_scale": training.loss_scale,
        "of_model": None if training.of_model is None else repr(training.of_model),
    }


def refuse_other_run(manifest: Manifest, folder: Path, schedule: Schedule, training: TrainingSettings) -> None:
    """Raise InputError if a run cannot resume from a checkpoint because its model, data or settings differ from the run
    that wrote it."""
    for title, theirs, ours in (
        ("model", manifest.model, model_facts(schedule)),
        ("training", manifest.training, training_facts(training)),
        ("model", manifest.tensors, described_tensors(schedule)),
    ):
        for key in dict.fromkeys((*theirs, *ours)):
            if theirs.get(key) != ours.get(key):
                there, here = (json.dumps(each.get(key), ensure_ascii=False) for each in (theirs, ours))
                raise InputError(f"is of another {title}: {key} is {there} there, {here} here", where=str(folder))
    if manifest.steps >= training.steps:
        raise InputError(
            f"got {training.steps}, but {folder} is after {manifest.steps} steps; allowed: more", where="--steps"
        )
