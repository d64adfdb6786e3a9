"""Atomic writing of files and of folders of results.

A file is written under a temporary name in its folder and then renamed. The files of a folder are written to a
temporary folder inside it and then renamed into place; the manifest, which lists them, comes last.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from simfrontier.base.errors import InputError

MANIFEST: Final = "manifest.json"


def write_json(value: object, path: Path) -> None:
    """Write a value as a JSON file, atomically. Raises InputError if the file cannot be written."""
    write_whole(path, json.dumps(value, separators=(",", ":"), allow_nan=False) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Write a text as a UTF-8 file, atomically. Raises InputError if the file cannot be written."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise OSError(0, "is a device, not a file")
        part = path.parent / f".{path.name}.{os.getpid()}.part"
        try:
            part.write_text(text, encoding="utf-8", newline="")
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        what = f"cannot be written: {error.strerror or error}; allowed: a file in a folder you may write"
        raise InputError(what, where=str(path)) from None


def ensure_writable(folder: Path) -> None:
    """Raise InputError if a folder cannot be written; called before a simulation that may take hours."""
    try:
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise _not_writable(folder, error) from None


@contextmanager
def filled(folder: Path, manifest: str | None = None) -> Iterator[Path]:
    """Yield a temporary folder to write to. At the end its files are moved to `folder`; after an error, none of them
    is.

    `manifest`: name of the file that lists the written files under the key `files` (added here). Files in the previous
    manifest that were not written again are removed, and no others. Raises InputError if the folder cannot be written.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as name:
            new = Path(name)
            try:
                yield new
            except InputError as error:
                raise _renamed(error, new, folder) from None
            _move(new, folder, manifest)
    except BaseException as error:
        for place in made:
            with suppress(OSError):  # there is something in it
                place.rmdir()
        if isinstance(error, OSError) and _is_within(error, folder):
            raise _not_writable(folder, error) from None
        raise


def listed(folder: Path, manifest: str = MANIFEST) -> frozenset[str]:
    """Return the names of the files that a folder's manifest lists; empty without a manifest. Only plain file names
    count."""
    try:
        form = json.loads((folder / manifest).read_text(encoding="utf-8"))
        return frozenset(name for name in form["files"] if name == os.path.basename(name) and name[:1] not in ("", "."))
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset()


def _move(new: Path, folder: Path, manifest: str | None) -> None:
    """Move the files of the temporary folder `new` to the folder, remove files that only the previous manifest lists,
    and write the manifest last."""
    names = sorted(file.name for file in new.iterdir() if file.name != manifest)
    before = frozenset[str]() if manifest is None else listed(folder, manifest)
    for name in names:
        os.replace(new / name, folder / name)
    for name in sorted(before.difference(names)):
        (folder / name).unlink(missing_ok=True)
    if manifest is not None:
        own = new / manifest
        form = json.loads(own.read_text(encoding="utf-8")) if own.exists() else {}
        write_whole(folder / manifest, json.dumps({**form, "files": names}, indent=1, ensure_ascii=False) + "\n")


def _renamed(error: InputError, new: Path, folder: Path) -> InputError:
    """Return an error about a file in the temporary folder as an error about the final path of that file."""
    place = Path(error.where)
    if not place.is_relative_to(new):
        return error
    return InputError(error.what, where=str(folder / place.relative_to(new)))


def _is_within(error: OSError, folder: Path) -> bool:
    """Return whether an error concerns a file in the folder, or names no file (e.g. when the disk is full)."""
    if not isinstance(error.filename, str):
        return True
    return Path(error.filename).absolute().is_relative_to(folder.absolute())


def _not_writable(folder: Path, error: OSError) -> InputError:
    what = f"cannot be written: {error.strerror}; allowed: a folder that you may write, or a name for a new one"
    return InputError(what, where=f"--out {folder}")
