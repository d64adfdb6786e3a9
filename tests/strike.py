"""One operation on files of this process that is its last, or fails: what `tests/struck_writes.py` and
`tests/struck_writes.py` do to each in turn."""

from __future__ import annotations

import errno
import io
import os
import pathlib
import signal
from collections.abc import Callable
from typing import Any

OPERATIONS = ("open", "write", "rename", "replace", "unlink", "mkdir", "rmdir", "fsync", "ftruncate")


def strike(at: int, how: str) -> Callable[[], str]:
    """Let the operation number `at` (from 0) be the last of this process ("kill"; "half": a write leaves out its last
    three bytes before), or fail; gives its name, when it has come."""
    count, struck = 0, ""

    def patched(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*arguments: Any, **options: Any) -> Any:
            nonlocal count, struck
            if name == "open" and arguments[1] & os.O_NONBLOCK:
                return original(*arguments, **options)  # input, which is read only
            count += 1
            if count == at + 1:
                struck = name
                if how == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if how == "half" and name == "write":
                    original(arguments[0], bytes(arguments[1])[:-3])
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError(errno.ENOSPC, "No space left on device")
            return original(*arguments, **options)

        return operation

    for name in OPERATIONS:
        setattr(os, name, patched(name, getattr(os, name)))
    pathlib_open = patched("Path.open", io.open)
    pathlib.Path.open = lambda self, mode="r", **options: (pathlib_open if "x" in mode else io.open)(  # type: ignore
        self, mode, **options
    )
    return lambda: struck
