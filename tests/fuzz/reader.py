"""A reader that changed files are given to, and a command line that must end as commands do."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.invoke import invoke


class Defect(Exception):
    """A command ended as no command should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """`read` gets a file with this suffix, changed from a sample of `kind`; `share`: how often, relative to others."""

    kind: str
    suffix: str
    share: float
    read: Callable[[Path, random.Random], None]


def command(*arguments: str | Path) -> int:
    """Run a command line in this process; return its exit code. Raises Defect for a fault of simfrontier."""
    ran = invoke(*arguments)
    if ran.code not in (0, 1, 2):
        raise Defect(f"exit code {ran.code}: {ran.err.strip()[-300:]}")
    if ran.code == 2 and not ran.err.strip():
        raise Defect("exit code 2, and no message")
    return ran.code
