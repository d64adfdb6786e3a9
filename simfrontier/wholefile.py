"""Writing a file: whole or not at all, and one line that says why where it cannot be."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from simfrontier.errors import InputError


def write_whole(path: Path, text: str) -> None:
    """Write a file as UTF-8 by way of a neighbour that is renamed. Raises InputError where it cannot be written."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(text.encode())
        os.replace(part, path)
    except OSError as error:
        with suppress(OSError):  # a folder that is not there holds no leftover
            part.unlink(missing_ok=True)
        said = error.strerror or error
        raise InputError(f"{path}: cannot be written: {said}; allowed: a file in a folder you may write") from None
