"""What workers do in the tests: functions of a module that their processes can import."""

from __future__ import annotations

import os
import time
from pathlib import Path

from simfrontier.base.errors import InputError


def square(number: int) -> int:
    return number * number


def slow(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def process() -> int:
    return os.getpid()


def refused(text: str) -> None:
    raise InputError(text, where="FILE", key=("a", 1), when="at 8")


def end_once(folder: str) -> int:
    """The first process that does it is killed."""
    path = Path(folder) / "ended"
    if not path.exists():
        path.write_text("")
        os.kill(os.getpid(), 9)
    return os.getpid()


def end() -> None:
    os.kill(os.getpid(), 9)
