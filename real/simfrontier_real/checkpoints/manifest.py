"""The manifest of a checkpoint: written last, it lists every file with its size and digest; without it, whole and
unchanged, there is no checkpoint.

It is JSON, and its bytes are the one way to write what it says: whatever is cut off or changed, blanks included, shows.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from simfrontier.errors import InputError
from simfrontier.io import read_json, typed

NAME: Final = "manifest.json"
FORMAT: Final = "simfrontier checkpoint 1"
Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOf:
    """A file of a checkpoint: the rank that wrote it, its size and its SHA-256."""

    name: str
    rank: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalTensor:
    """A tensor that a checkpoint holds, once for each layer: its type in the files and its shape, whatever the plan."""

    role: str
    name: str
    layers: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Steps that one schedule ran: up to which, of which plan, mesh (axes and sizes) and digest; and why it need not
    agree with the unsharded model (empty: nothing is lost)."""

    steps: int
    plan: str
    mesh: tuple[tuple[str, int], ...]
    schedule: str
    loses: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What is in a checkpoint. `steps`: optimizer steps that were run, `skipped` the numbers (from 0) of those that
    changed nothing because gradients overflowed, `losses` the mean losses of all (null: not finite), `counters` whole
    numbers that a model keeps beside its states. `model` and `training`: what a run must have in common with this one
    to go on. `history`: which schedules ran the steps, the last of which wrote the checkpoint."""

    format: str
    steps: int
    skipped: tuple[int, ...]
    losses: tuple[float | None, ...]
    counters: dict[str, int]
    model: dict[str, Value]
    training: dict[str, Value]
    history: tuple[Stretch, ...]
    tensors: tuple[LogicalTensor, ...]
    files: tuple[FileOf, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes of all files but the manifest."""
        return sum(each.bytes for each in self.files)


def manifest_text(manifest: Manifest) -> str:
    """A manifest as it is written: with the digest of all the rest at its end."""
    document = asdict(manifest)
    return json.dumps({**document, "sha256": _digest(document)}, indent=1) + "\n"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a step's folder. Raises InputError where there is none, or not as it was written."""
    path = folder / NAME
    if not path.is_file():
        raise InputError(f"has no {NAME}, which is written last: not finished", where=str(folder))
    document = read_json(path, "manifest of a checkpoint")
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        got = document.get("format") if isinstance(document, dict) else None
        raise InputError(f"format {got!r}; allowed: {FORMAT!r}", where=str(path))
    digest = document.pop("sha256", None)
    manifest = typed(document, Manifest, str(path))
    try:
        is_same = path.read_bytes() == manifest_text(manifest).encode()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
    if digest != _digest(asdict(manifest)) or not is_same:
        raise InputError("is not what was written (cut short or changed)", where=str(path))
    return manifest


def _digest(document: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(document, separators=(",", ":")).encode()).hexdigest()
