"""The folder of a run's checkpoints: one folder a step, of which the last are kept."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Final

from simfrontier.base.errors import InputError

_STEP: Final = re.compile(r"step-(\d{6,18})")
MANIFEST: Final = "manifest.json"  # of a finished checkpoint


def step_folder(folder: Path, steps: int) -> Path:
    """The folder of the checkpoint after so many steps."""
    return folder / f"step-{steps:06}"


def steps_in(folder: Path) -> list[tuple[int, Path]]:
    """The checkpoints of a folder, finished or not, the newest first, with the steps before each; of the folder of a
    step itself that one. Raises InputError where the folder is not there."""
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
    """Raise InputError for a folder to write that has checkpoints of a run that is not resumed."""
    if not folder.is_dir() or not (held := steps_in(folder)):
        return
    if resumed is not None and folder.resolve() in (resumed.resolve(), resumed.resolve().parent):
        return
    newest = held[0][1].name
    raise InputError(
        f"{folder} holds checkpoints ({newest}); allowed: a folder without, or --resume {folder}", where="--checkpoint"
    )


def prune(folder: Path, keep: int, refused: Collection[Path]) -> None:
    """Remove all checkpoints that are older than the newest `keep` finished ones; those that were refused do not
    count."""
    finished = 0
    for _, path in steps_in(folder):
        if finished >= keep:
            shutil.rmtree(path, ignore_errors=True)
        elif path not in refused and (path / MANIFEST).is_file():
            finished += 1
