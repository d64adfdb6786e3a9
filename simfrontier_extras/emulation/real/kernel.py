"""System calls for namespaces that Python 3.11 does not have, by the C library; they act on the calling thread."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NEW_NET = 0x40000000  # CLONE_NEWNET
BIND = 4096  # MS_BIND
OWN_NET = "/proc/thread-self/ns/net"


def unshare_net() -> None:
    """Give this thread a network namespace of its own."""
    _checked(_libc().unshare(NEW_NET), "unshare")


def enter_net(namespace: int) -> None:
    """Move this thread to the network namespace of an open file."""
    _checked(_libc().setns(namespace, NEW_NET), "setns")


def mount(source: str, target: Path, kind: str = "", flags: int = 0) -> None:
    """Mount a file system, or with BIND a file, at `target`."""
    arguments = (source.encode(), str(target).encode(), kind.encode() or None)
    _checked(_libc().mount(*arguments, ctypes.c_ulong(flags), None), f"mount {target}")


@contextmanager
def in_net(namespace: int) -> Iterator[None]:
    """This thread, and the processes that it starts, in that network namespace for a while."""
    home = os.open(OWN_NET, os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter_net(namespace)
        yield
    finally:
        enter_net(home)
        os.close(home)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
