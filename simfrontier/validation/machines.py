"""The machines of the catalog, each loaded once: tables ask for them row by row."""

from __future__ import annotations

from functools import lru_cache

from simfrontier.machine import Machine, load_machine


@lru_cache(maxsize=8)
def shipped_machine(name: str) -> Machine:
    """The machine of that name. Raises InputError where there is none."""
    return load_machine(name)
