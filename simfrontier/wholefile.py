"""Writing files and folders of results: whole, or as they were, or told as unfinished; never through a planted link.

A file is made beside its name and renamed over it. A folder's files are made in a folder inside it and renamed one by
one: its manifest, which lists them, is removed before the first and written after the last, and a file `.unfinished-…`
stands there meanwhile. Who reads a folder refuses one that has it (`refuse_unfinished`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from simfrontier.errors import InputError
from simfrontier.inputfile import open_input

MANIFEST = "manifest.json"
MARK = ".unfinished-"  # and the manifest's name, or the command's
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)  # of `os.open`
_LEFT = re.compile(r"\.(?:new|part)-(?P<host>\w+)-(?P<pid>\d{1,9})-[0-9a-f]{8}")
_LONGEST_NAME = 255  # bytes; what systems take at most
_MOST_LISTED_BYTES = 1 << 24  # of a manifest that is read for the files that it lists


def write_json(value: object, path: Path) -> None:
    """Write a value as JSON, whole or not at all. Raises InputError where it cannot be written."""
    write_whole(path, json.dumps(value, separators=(",", ":"), allow_nan=False) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Write a file as UTF-8, whole or not at all; a link in its place is replaced, not followed. Raises InputError
    where it cannot be written."""
    _write(path, text.encode())


def _write(path: Path, content: bytes, lasts: bool = False) -> None:
    part = path.parent / _temporary("part")
    try:
        try:
            _refuse_devices(path)
            _remove_left(path.parent)
            _write_new(part, content, lasts)
            os.replace(part, path)
            if lasts:
                _sync_folder(path.parent)
        except BaseException:
            with suppress(OSError):  # a folder that is not there holds no leftover
                part.unlink(missing_ok=True)
            raise
    except OSError as error:
        message = error.strerror or error
        what = f"cannot be written: {message}; allowed: a file in a folder you may write"
        raise InputError(what, where=str(path)) from None


def write_durable(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all, and wait until it and its name are on the disk. Raises InputError where it
    cannot be written."""
    _write(path, content, lasts=True)


def write_all(file: int, content: bytes) -> None:
    """Write all of it to an open file. Raises OSError."""
    left = memoryview(content)
    while left:
        left = left[os.write(file, left) :]


def ensure_writable(folder: Path, *names: str) -> None:
    """Refuse a folder that cannot be written, or that has folders with names of files to come, before hours of
    simulation, and leave no trace of having tried. Raises InputError."""
    import tempfile

    try:
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise _not_writable(folder, error) from None
    _refuse_folders(folder, names)


@contextmanager
def filled(folder: Path, command: str, manifest: str | None = None) -> Iterator[Path]:
    """A new folder to write into; at the end its files go into `folder`.

    `manifest`: the name of the file that lists them under the key `files` (added here); files that the one before lists
    and that were not written again are removed, and no others. Without one nothing is removed but what an interrupted
    `command` has left. After an error `folder` is as it was, or, where moving the files failed, is told as unfinished.
    Raises InputError where it cannot be written; what else could not be opened meanwhile is raised as it is.
    """
    elsewhere: OSError | None = None
    try:
        made = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        new = folder / _temporary("new")
        try:
            try:
                _remove_left(folder)
                os.mkdir(new, 0o700)
                try:
                    yield new
                except InputError as error:
                    place = Path(error.where)
                    if not place.is_relative_to(new):
                        raise
                    raise InputError(error.what, where=str(folder / place.relative_to(new))) from None
                except OSError as error:
                    elsewhere = None if _is_of(folder, error) else error
                    raise
                with _alone(folder):
                    _move(new, folder, command, manifest)
            finally:
                shutil.rmtree(new, ignore_errors=True)
        except BaseException:
            for place in made:
                with suppress(OSError):  # there is something in it
                    place.rmdir()
            raise
    except OSError as error:
        if error is elsewhere:
            raise
        raise _not_writable(folder, error) from None


def listed(folder: Path, manifest: str = MANIFEST) -> frozenset[str]:
    """The files of a folder that its manifest lists, and those that an interrupted command has put there; none where
    nothing is listed that can be read. Only plain names count: nothing outside the folder, nothing hidden."""
    return _listed_in(folder / manifest) | _listed_in(folder / (MARK + manifest))


def _listed_in(path: Path) -> frozenset[str]:
    try:
        with open_input(path) as file:
            form = json.loads(file.read(_MOST_LISTED_BYTES))
    except (OSError, ValueError, RecursionError):
        return frozenset()
    names = form.get("files") if isinstance(form, dict) else None
    return frozenset(filter(_is_plain, names)) if isinstance(names, list) else frozenset()


def refuse_unfinished(folder: Path) -> None:
    """Raise InputError for a folder whose files are partly old and partly new, because a command was ended while it put
    them there."""
    mark = next(iter(sorted(folder.glob(f"{MARK}*"))), None)
    if mark is not None:
        raise InputError(
            f"{folder}: is unfinished ({mark.name} is there): a command was ended while it wrote it; "
            "allowed: a whole folder, which the same command again makes of it"
        )


def remove_files(folder: Path, names: Iterable[str]) -> None:
    """Remove files of a folder by their names, those that are there; folders stay. Raises OSError."""
    for name in sorted(names):
        if not _is_folder(folder / name):
            (folder / name).unlink(missing_ok=True)


# ── how a folder is filled ──


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nobody else moves files into the folder meanwhile, where the system can tell."""
    held = None
    try:
        with suppress(ImportError, OSError):
            import fcntl

            held = os.open(folder, os.O_RDONLY)
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        if held is not None:
            os.close(held)


def _move(new: Path, folder: Path, command: str, manifest: str | None) -> None:
    """The files of `new` into `folder`: the mark, no manifest, the files, what was there before, the manifest."""
    names = sorted(file.name for file in new.iterdir())
    mark = MARK + (manifest or command)
    before = _listed_in(folder / mark) if manifest is None else listed(folder, manifest)
    if manifest is not None:
        names = sorted({*names, manifest})
        _list(new / manifest, [name for name in names if name != manifest])
    _refuse_folders(folder, names)
    gone = before.difference(names)
    if gone or len(names) > 1:
        write_whole(folder / mark, json.dumps({"files": sorted(before.union(names))}) + "\n")
    if manifest is not None:
        (folder / manifest).unlink(missing_ok=True)
    for name in names:
        if name != manifest:
            os.replace(new / name, folder / name)
    remove_files(folder, gone)
    if manifest is not None:
        os.replace(new / manifest, folder / manifest)
    (folder / mark).unlink(missing_ok=True)


def _list(manifest: Path, names: list[str]) -> None:
    """Write a manifest, or add the files to the one that is there."""
    form = json.loads(manifest.read_text(encoding="utf-8")) if manifest.exists() else {}
    write_whole(manifest, json.dumps({**form, "files": names}, indent=1, ensure_ascii=False) + "\n")


def _refuse_folders(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        if _is_folder(folder / name):
            raise InputError(f"--out {folder}: cannot be written: {name} is a folder there; allowed: a file, or none")


def _is_plain(name: object) -> bool:
    if not isinstance(name, str) or name != os.path.basename(name) or "\0" in name or name[:1] in ("", "."):
        return False
    try:
        return len(os.fsencode(name)) <= _LONGEST_NAME
    except UnicodeEncodeError:
        return False


def _is_folder(path: Path) -> bool:
    """A folder itself: a link to one is replaced as any other."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _is_of(folder: Path, error: OSError) -> bool:
    """Whether it is about a file in the folder, or does not say of which it is, as that of a full disk."""
    if not isinstance(error.filename, str):
        return True
    return Path(error.filename).absolute().is_relative_to(folder.absolute())


def _not_writable(folder: Path, error: OSError) -> InputError:
    with suppress(OSError):
        if any(folder.glob(f"{MARK}*")):
            return InputError(
                f"--out {folder}: cannot be written: {error.strerror}; it is unfinished: the same command again "
                "makes it whole"
            )
    allowed = "a folder that you may write, or a name for a new one"
    return InputError(f"--out {folder}: cannot be written: {error.strerror}; allowed: {allowed}")


# ── files and folders that are not finished ──


def _temporary(kind: str) -> str:
    """A name that nobody else has, and that says whose it is."""
    return f".{kind}-{_host()}-{os.getpid()}-{os.urandom(4).hex()}"


def _host() -> str:
    import socket

    return re.sub(r"\W|_", "", socket.gethostname())[:40] or "host"


def _remove_left(folder: Path) -> None:
    """Remove what processes of this host that have ended have left half-written in a folder."""
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            match = _LEFT.fullmatch(entry.name)
            if match is None or match["host"] != _host() or _runs(int(match["pid"])):
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


def _refuse_devices(path: Path) -> None:
    """Raise OSError for what is there and is neither a file nor a folder, as a terminal: it would be replaced."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(0, "is a device, not a file")


def _write_new(path: Path, content: bytes, lasts: bool = False) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINKS, 0o666)
    try:
        write_all(file, content)
        if lasts:
            os.fsync(file)
    finally:
        os.close(file)


def _sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system can."""
    with suppress(OSError):  # some file systems have no such thing for folders
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
