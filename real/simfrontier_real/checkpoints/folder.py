"""The folder of a run's checkpoints: one folder a step, whole where it has a manifest; the last ones are kept."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from simfrontier.errors import InputError
from simfrontier_real.checkpoints.manifest import NAME, FileOf

DIGITS: Final = 6
_STEP: Final = re.compile(r"step-(\d{6,18})")
_SHARD: Final = re.compile(r"rank-\d{5,10}\.safetensors")

_BEGUN: Final = ".part-"  # how names of files begin that are being written (simfrontier.wholefile)


def step_folder(folder: Path, steps: int) -> Path:
    """The folder of the checkpoint after so many steps."""
    return folder / f"step-{steps:0{DIGITS}}"


def shard_name(rank: int) -> str:
    """The name of a rank's file."""
    return f"rank-{rank:05}.safetensors"


def steps_in(folder: Path) -> list[tuple[int, Path]]:
    """The checkpoints of a folder, whole or not, the newest first, with the steps before each; of the folder of a step
    itself that one. Raises InputError where the folder is not there."""
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
    """Raise InputError for a folder to write that has checkpoints of another run: of any that is not gone on with."""
    if not folder.is_dir() or not (held := steps_in(folder)):
        return
    if resumed is not None and folder.resolve() in (resumed.resolve(), resumed.resolve().parent):
        return
    newest = held[0][1].name
    raise InputError(
        f"{folder} holds checkpoints ({newest}); allowed: a folder without, or --resume {folder}", where="--checkpoint"
    )


def verified(folder: Path, file: FileOf) -> bytes:
    """The content of a file of a checkpoint. Raises InputError where it is not what was written."""
    path = folder / file.name
    if not _SHARD.fullmatch(file.name):
        raise InputError("is no name of a file of a checkpoint", where=str(path))
    try:
        with path.open("rb") as opened:
            content = opened.read(file.bytes + 1)
    except FileNotFoundError:
        raise InputError("is not there", where=str(path)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
    if len(content) < file.bytes:
        raise InputError(f"is cut short: {len(content):,} of {file.bytes:,} bytes", where=str(path))
    if len(content) > file.bytes:
        raise InputError(f"is longer than the {file.bytes:,} bytes that were written", where=str(path))
    digest = hashlib.sha256(content).hexdigest()
    if digest != file.sha256:
        raise InputError(f"is changed: SHA-256 {digest[:16]}…, written {file.sha256[:16]}…", where=str(path))
    return content


def begin(folder: Path) -> None:
    """Make the folder of a step that is about to be written: what one that ended early, or another run, has left of it
    no longer counts. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    _empty(folder)


def prune(folder: Path, keep: int, refused: Collection[Path]) -> None:
    """Remove all but the newest `keep` whole checkpoints, and older ones that are not whole; those that were refused
    count as such."""
    whole = 0
    for _, path in steps_in(folder):
        if whole >= keep:
            with suppress(OSError):  # somebody else's file is in it, or another run removes it, too
                _empty(path)
                path.rmdir()
        elif path not in refused and (path / NAME).is_file():
            whole += 1


def _empty(folder: Path) -> None:
    """Remove a checkpoint's files, the manifest first, and what killed ranks have begun to write."""
    (folder / NAME).unlink(missing_ok=True)
    for path in _files(folder):
        path.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in list(folder.iterdir()) if _SHARD.fullmatch(path.name) or path.name.startswith(_BEGUN))
