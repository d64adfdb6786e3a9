"""Changed files for the reader of tables of losses (`tests.fuzz`)."""

from __future__ import annotations

import random
from pathlib import Path

from tests.fuzz.reader import Reader, command

TABLE = Path(__file__).parents[1] / "scenarios" / "compressed-3d.csv"


def _losses(path: Path, _: random.Random) -> None:
    command("losses", path)


def _samples() -> list[bytes]:
    return [b"\n".join(TABLE.read_bytes().split(b"\n")[:60])]


ADDS = (Reader(kind="losses", suffix=".csv", share=4.0, read=_losses, samples=_samples),)
