"""Changed files for the reader of measured softmaxes (`tests.fuzz`)."""

from __future__ import annotations

import random
from pathlib import Path

from simfrontier_extras.softmax.rates import COLUMNS
from tests.fuzz.reader import Reader, command


def _read(path: Path, _: random.Random) -> None:
    command("softmax", path)


def _samples() -> list[bytes]:
    rows = [",".join(COLUMNS)]
    for elements in (1_000, 30_000_000):
        for algorithm, passes in (("two-pass", 3), ("three-pass-recompute", 4), ("three-pass-reload", 5)):
            for starts in ("cached", "uncached"):
                time_s = elements * passes * 4 / 20e9
                rows.append(f"{elements},{algorithm},{starts},{time_s},{time_s},{elements * passes * 4},a CPU,33554432")
    return ["\n".join(rows).encode() + b"\n"]


ADDS = (Reader(kind="softmax", suffix=".csv", share=4.0, read=_read, samples=_samples),)
