"""Memory of ranks on CPUs: freed buffers are used again, so that timed messages do not pay for fresh pages.

Allocators of GPU memory keep what is freed; glibc gives large buffers back, and a virtual machine then pays tens of
microseconds for every page that it touches anew: more than the message itself.
"""

from __future__ import annotations

from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # mallopt(3)
_CHUNK_BYTES = 8 << 20


def keep_freed_memory() -> None:
    """Tell glibc to keep what is freed, in one heap for all threads. To be called before any thread is started; other
    C libraries are left as they are."""
    import ctypes

    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, 32 << 20)  # the largest that is taken
        mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
        mallopt(_ARENA_MAX, 1)


def touch(num_bytes: int) -> None:
    """Touch so much memory once and free it: what is allocated later finds its pages there."""
    import torch

    held = [torch.zeros(_CHUNK_BYTES, dtype=torch.uint8).fill_(1) for _ in range(-(-num_bytes // _CHUNK_BYTES))]
    held.clear()
