"""Machines by their names, each loaded once: tables ask for them row by row."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from simfrontier.core.machine.hardware import Machine
from simfrontier.core.machine.load import load_machine


def machine_named(name: str) -> Machine:
    """The machine of the catalog, or of the file of one's own. Raises InputError where there is none."""
    return _machine(name, changed_ns(name))


def changed_ns(name: str) -> int:
    """When a file of one's own was written last, so that what is kept of it is kept no longer; 0 for the catalog."""
    try:
        return Path(name).stat().st_mtime_ns if name.endswith(".toml") else 0
    except OSError:
        return 0  # which loading it reports


@lru_cache(maxsize=8)
def _machine(name: str, changed: int) -> Machine:
    return load_machine(name)
