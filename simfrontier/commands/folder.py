"""A folder of results: refused before the work where it cannot be written, and filled as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from simfrontier.errors import InputError


def ensure_writable(folder: Path) -> None:
    """Refuse a folder that cannot be written, before hours of simulation, and leave no trace of having tried. Raises
    InputError."""
    try:
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        with tempfile.TemporaryFile(dir=there):
            return
    except OSError as error:
        raise _not_writable(folder, error) from None


@contextmanager
def filled(folder: Path, stale: tuple[str, ...] = ()) -> Iterator[Path]:
    """A new folder to write into; at the end its files go into `folder`, and files there that match `stale` and were
    not written again are removed. After an error `folder` is as it was. Raises InputError where it cannot be
    written; what else could not be opened meanwhile is raised as it is."""
    elsewhere: OSError | None = None
    try:
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as new:
                try:
                    yield Path(new)
                except InputError as error:
                    raise InputError(str(error).replace(new, str(folder))) from None
                except OSError as error:
                    elsewhere = None if _is_of(folder, error) else error
                    raise
                names = sorted(file.name for file in Path(new).iterdir())
                for name in names:
                    os.replace(Path(new) / name, folder / name)
                for old in (file for pattern in stale for file in folder.glob(pattern)):
                    if old.name not in names:
                        old.unlink(missing_ok=True)
        except BaseException:
            if made:
                with suppress(OSError):
                    folder.rmdir()
            raise
    except OSError as error:
        if error is elsewhere:
            raise
        raise _not_writable(folder, error) from None


def _is_of(folder: Path, error: OSError) -> bool:
    """Whether it is about a file in the folder, or does not say of which it is, as that of a full disk."""
    if not isinstance(error.filename, str):
        return True
    return Path(error.filename).absolute().is_relative_to(folder.absolute())


def _not_writable(folder: Path, error: OSError) -> InputError:
    allowed = "a folder that you may write, or a name for a new one"
    return InputError(f"--out {folder}: cannot be written: {error.strerror}; allowed: {allowed}")
