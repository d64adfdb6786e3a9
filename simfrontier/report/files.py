"""Writing a result file: whole or not at all, and one line that says why where it cannot be."""

from __future__ import annotations

import os
from pathlib import Path

from simfrontier.errors import InputError


def write_whole(path: Path, content: bytes) -> None:
    """Write a file by way of a neighbour that is renamed. Raises InputError where it cannot be written."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    except OSError as error:
        _remove(part)
        raise InputError(
            f"{path}: cannot be written: {error.strerror}; allowed: a file in a folder you may write"
        ) from None


def _remove(part: Path) -> None:
    try:
        part.unlink(missing_ok=True)
    except OSError:
        return  # a folder that is not there holds no leftover
