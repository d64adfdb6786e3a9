"""A reader that changed files are given to, and a command line that must end as commands do."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.invoke import invoke

Read = Callable[[Path, random.Random], None]


class Defect(Exception):
    """A command ended as no command should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """`read` gets a file with this suffix, changed from a sample of `kind`; `share`: how often, beside others;
    `samples`: those of an extra, which has its readers in `tests/fuzz.py`."""

    kind: str
    suffix: str
    share: float
    read: Read
    samples: Callable[[], list[bytes]] | None = None


def command(*arguments: str | Path) -> int:
    """A command line in this process, as a user would give it; its exit code. Raises Defect for a fault of its own."""
    ran = invoke(*arguments)
    code, message = ran.code, ran.err
    if code == 3 and "out of memory" in message:
        raise MemoryError
    if code not in (0, 1, 2) or "Traceback" in message:
        raise Defect(f"exit code {code}: {message.strip()[-300:]}")
    if code == 2 and not message.strip():
        raise Defect("exit code 2, and nothing said")
    if any(not character.isprintable() for character in message.replace("\n", "")):
        raise Defect(f"a control character in {message[:200]!r}")
    return code
