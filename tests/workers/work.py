"""What workers do in the tests: functions of a module that their processes can import."""

from __future__ import annotations

import os
import time
from pathlib import Path

from simfrontier.errors import InputError

_begun: list[str] = []


def begin(text: str) -> None:
    _begun.append(text)


def begun() -> tuple[int, list[str]]:
    return os.getpid(), list(_begun)


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


def end_often(folder: str, times: int) -> int:
    """So many processes that do it are killed, one after the other; then how many were."""
    path = Path(folder) / "often"
    number = len(path.read_text()) if path.exists() else 0
    if number < times:
        path.write_text("." * (number + 1))
        os.kill(os.getpid(), 9)
    return number


def end() -> None:
    os.kill(os.getpid(), 9)
