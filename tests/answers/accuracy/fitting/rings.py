"""A small library of two protocols, and times of its calls as it would have them with given parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from simfrontier.answers.accuracy.least_squares import FitProblem
from simfrontier.answers.accuracy.predictors.calls import Harness
from simfrontier.core.collectives import Library, load_library
from simfrontier.inputs.measured import CallRow
from tests.rows import call

RINGS = Path(__file__).with_name("rings.toml")
TRUE = {"ring.hop_between_nodes_s": 90e-6, "ring_ll.hop_between_nodes_s": 30e-6, "shares.nic": 0.7}
SIZES = tuple(2**power for power in range(20, 31, 2))  # 1 MiB to 1 GiB
DEVICES = (16, 32, 64, 128, 256)


def rings() -> Library:
    """The library with what its file says of the parameters, which is not the truth."""
    return load_library(str(RINGS))


def calls(
    devices: Iterable[int] = DEVICES, sizes: Iterable[int] = SIZES, library: str = "rings", source: str = "somebody"
) -> list[CallRow]:
    """Rows without times: every one takes 1 s."""
    sizes = tuple(sizes)
    return [call(1.0, number, size, library, source, f"made up line {number}") for number in devices for size in sizes]


def timed(
    rows: Sequence[CallRow],
    library: Library,
    numbers: Mapping[str, float],
    noise: float = 0.0,
    seed: int = 0,
    harnesses: tuple[Harness, ...] = (),
) -> list[CallRow]:
    """The rows with the times that the library has with these numbers, times lognormal noise."""
    exact = np.exp(FitProblem(library=library, harnesses=harnesses, rows=rows).log_errors(numbers))
    factors = np.exp(noise * np.random.default_rng(seed).standard_normal(len(rows)))
    return [replace(row, seconds=float(time)) for row, time in zip(rows, exact * factors, strict=True)]


def problem(noise: float = 0.0, seed: int = 0, devices: Iterable[int] = DEVICES) -> FitProblem:
    """Points of the library with the true parameters."""
    library = rings()
    return FitProblem(library=library, harnesses=(), rows=timed(calls(devices), library, TRUE, noise, seed))
