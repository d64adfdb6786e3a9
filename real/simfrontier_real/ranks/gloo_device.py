"""One device of gloo for all groups of a process.

A device is a thread that wakes up a hundred times a second, whether there is work or not, and torch makes one for every
group. Measured with torch 2.13, two ranks with nine idle groups each on two cores: 2.7 % of a core per rank; with one
device 0.9 %. The devices are kept here, by interface, because torch has no place for them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

_devices: dict[str, Any] = {}  # by the network interface that gloo uses
_NUM_THREADS = 2  # of a group, as torch has it


@contextmanager
def shared_device() -> Iterator[None]:
    """Groups that torch makes meanwhile have the process's device on the interface that is set now.

    torch has no option for that; where its inside is not as in 2.13, groups get devices of their own.
    """
    from torch.distributed import distributed_c10d as inside

    group_class: Any = getattr(inside, "ProcessGroupGloo", None)
    if not all(hasattr(group_class, name) for name in ("_Options", "create_device", "create_default_device")):
        yield
        return
    interface = os.environ.get("GLOO_SOCKET_IFNAME", "")
    if interface not in _devices:
        make = group_class.create_device
        _devices[interface] = make(interface=interface) if interface else group_class.create_default_device()
    device = _devices[interface]

    class OnSharedDevice(group_class):  # type: ignore[misc]
        def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
            options = group_class._Options()
            options._devices, options._timeout, options._threads = [device], timeout, _NUM_THREADS
            super().__init__(store, rank, size, options)

    inside.ProcessGroupGloo = OnSharedDevice  # type: ignore[misc]
    try:
        yield
    finally:
        inside.ProcessGroupGloo = group_class  # type: ignore[misc]
