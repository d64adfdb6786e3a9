"""The journal of a running sweep: the rows of points as they are simulated, each batch as one entry of a file.

An entry is its length, a checksum, and its content: rows as a stream of Arrow. The first names the study. An entry that
was cut short, or damaged, ends what is read: it and what follows it is work that is not done.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simfrontier.errors import InputError
from simfrontier.inputfile import open_input
from simfrontier.limits import SWEEP_RECORD
from simfrontier.wholefile import NO_LINKS, write_all, write_durable

if TYPE_CHECKING:
    import pyarrow as pa

NAME: Final = "points.journal"
BEGIN: Final = b"simfrontier sweep "  # of the first entry; the name of the study follows
HEAD: Final = struct.Struct(">Q32s")  # bytes of the content, and their sha256


class JournalError(InputError):
    """Rows cannot be kept; those that were kept stay."""


@dataclass
class Journal:
    """A journal that is open for more rows. `size`: its bytes that are whole."""

    path: Path
    file: int
    size: int

    def add(self, content: bytes) -> None:
        """Keep an entry. Raises JournalError where it cannot be written."""
        entry = _entry(content)
        try:
            write_all(self.file, entry)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self.file, self.size)
            raise JournalError(
                f"cannot be written: {error.strerror}; what it has stays: the same command goes on from there",
                where=str(self.path),
            ) from None
        self.size += len(entry)


@contextmanager
def journal_in(folder: Path, study: str) -> Iterator[Journal]:
    """The journal in a folder, made if there is none, for this process alone; what was cut short is removed from its
    end. Raises InputError where it cannot be written, another process writes it, or it is of another study."""
    path, begin = folder / NAME, _entry(BEGIN + study.encode())
    is_made = not path.exists()
    if is_made:
        write_durable(path, begin)
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND | NO_LINKS)
    except OSError as error:
        raise not_written(folder, error) from None
    try:
        _hold(file, path)
        try:
            size = _whole(path, study)
            os.ftruncate(file, size)
        except OSError as error:
            raise not_written(folder, error) from None
        journal = Journal(path=path, file=file, size=size)
        try:
            yield journal
        except BaseException:
            if is_made and journal.size <= len(begin):  # for nothing
                path.unlink(missing_ok=True)
            raise
    finally:
        os.close(file)


def entries(path: Path) -> Iterator[tuple[int, bytes]]:
    """Place and content of each whole entry after the first. Raises OSError."""
    for number, entry in enumerate(_contents(path)):
        if number:
            yield entry


def entry_at(path: Path, place: int) -> bytes:
    """The content of the entry at a place. Raises OSError."""
    with path.open("rb") as file:
        file.seek(place)
        length, _ = HEAD.unpack(file.read(HEAD.size))
        return file.read(length)


def study_of_journal(path: Path) -> str | None:
    """The name of the study whose journal a file is; None where it is none."""
    first = next((content for _, content in _contents(path)), b"") if path.is_file() else b""
    return first.removeprefix(BEGIN).decode(errors="replace") if first.startswith(BEGIN) else None


def table_of(content: bytes) -> pa.Table:
    """The rows of an entry."""
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
        return reader.read_all()


def stream_of(rows: pa.Table) -> bytes:
    """The content of an entry with these rows."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _entry(content: bytes) -> bytes:
    return HEAD.pack(len(content), sha256(content).digest()) + content


def _contents(path: Path) -> Iterator[tuple[int, bytes]]:
    """Place and content of each entry, up to the first that is not whole."""
    with open_input(path) as file:
        place = 0
        while len(head := file.read(HEAD.size)) == HEAD.size:
            length, digest = HEAD.unpack(head)
            if length > SWEEP_RECORD.most:
                return
            content = file.read(length)
            if len(content) < length or sha256(content).digest() != digest:
                return
            yield place, content
            place += HEAD.size + length


def _whole(path: Path, study: str) -> int:
    """How many bytes of a journal are whole. Raises InputError for another study's."""
    size = 0
    for place, content in _contents(path):
        if place == 0 and content != BEGIN + study.encode():
            raise InputError("is no journal of this study; allowed: another --out", where=str(path))
        size = place + HEAD.size + len(content)
    if size == 0:
        raise InputError("is no journal of a sweep; allowed: another --out", where=str(path))
    return size


def _hold(file: int, path: Path) -> None:
    """Refuse a second process, where the system can tell."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = "another process writes it; allowed: another --out, or this one when that is done"
        raise InputError(text, where=str(path)) from None
    except OSError:  # a file system without locks
        return


def not_written(folder: Path, error: OSError) -> InputError:
    """That a folder cannot be written."""
    allowed = "a folder that you may write, or a name for a new one"
    return InputError(f"--out {folder}: cannot be written: {error.strerror}; allowed: {allowed}")
