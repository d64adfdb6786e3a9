"""The files that are meant by paths of files and folders."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from simfrontier.errors import InputError
from simfrontier.io import reading


def files_in(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The files, each once; of a folder all that lie in it by their names, hidden ones and folders not. Raises
    InputError for a folder without files."""
    files: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            files |= dict.fromkeys(_of_folder(path))
        else:
            files[path] = None
    return tuple(files)


def _of_folder(folder: Path) -> list[Path]:
    with reading(folder, "folder"):
        inside = sorted(path for path in folder.iterdir() if not path.name.startswith(".") and path.is_file())
    if not inside:
        raise InputError("no files in this folder, allowed: a file, or a folder with files", where=str(folder))
    return inside
