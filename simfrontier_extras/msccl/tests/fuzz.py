"""Changed files for the reader of MSCCL algorithms (`tests.fuzz`)."""

from __future__ import annotations

import random
from pathlib import Path

from simfrontier_extras.msccl.tests.made import made
from simfrontier_extras.msccl.write import xml_of
from tests.fuzz.reader import Reader, command


def _read(path: Path, _: random.Random) -> None:
    command("msccl", path)


def _samples() -> list[bytes]:
    small = (
        ("ring", "all_reduce", 4, 4, 1),
        ("direct", "all_to_all", 3, 3, 1),
        ("halving", "all_reduce", 4, 4, 2),
        ("two_level", "reduce_scatter", 4, 2, 1),
    )
    return [xml_of(made(key)).encode() for key in small]  # type: ignore[arg-type]


ADDS = (Reader(kind="msccl", suffix=".xml", share=4.0, read=_read, samples=_samples),)
