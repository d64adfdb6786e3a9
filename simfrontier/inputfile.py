"""Opening a file of the user's to read it: the one place, which takes what can be read from its beginning to its end.

A FIFO would be waited for without a word, a terminal or a device may have no end, and what was read of a pipe to see
what it holds is gone.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_input(path: Path) -> BufferedReader:
    """A file, open to be read. Raises OSError, also for what is no regular file, which is not waited for."""
    return open(path, "rb", opener=_opened)  # a link's target counts, and /dev/stdin is what stands behind it


def _opened(path: str, flags: int) -> int:
    _refuse_unfit(path, os.stat(path).st_mode)  # a socket cannot be opened, and a device may act on it
    file = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    try:
        _refuse_unfit(path, os.fstat(file).st_mode)  # what has been put in its place since
    except OSError:
        os.close(file)
        raise
    return file


def _refuse_unfit(path: str, mode: int) -> None:
    kind = _KINDS.get(stat.S_IFMT(mode))
    if kind is not None:
        raise OSError(errno.EINVAL, f"is {kind}; allowed: a file that can be read from its beginning", path)
