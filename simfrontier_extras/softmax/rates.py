"""Measured times of softmax by two passes over memory and by three: read from a file, compared, and explained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Annotated, Final, Literal

from annotated_types import Ge

from simfrontier.base.errors import InputError
from simfrontier.base.io import Names, Positive
from simfrontier.core.program import KERNELS
from simfrontier.inputs.measured import RowPlace, read_rows

COLUMNS: Final = ("elements", "algorithm", "starts", "median_s", "least_s", "bytes_moved", "cpu", "cache_bytes")
IN_MEMORY: Final = tuple(name for name in KERNELS if name != "fused")  # kernels whose rows do not stay on the chip
TWO_PASS: Final = "two-pass"
RELOAD: Final = "three-pass-reload"
OTHERS: Final = tuple(name for name in IN_MEMORY if name != TWO_PASS)
CACHED, UNCACHED = STARTS = ("cached", "uncached")  # where a row is when a call begins
FLOAT_BYTES: Final = 4
EXPONENTIALS: Final = {TWO_PASS: 2, "three-pass-recompute": 2, RELOAD: 1}  # of an element
ALIKE: Final = 1.15  # rates that differ by less are called about the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Measured time of one algorithm on one row of float32: seconds, and the bytes moved according to its number of
    passes; `place`: position in the table."""

    elements: Annotated[int, Ge(1)]
    algorithm: Annotated[str, Names(*IN_MEMORY)]
    starts: Literal["cached", "uncached"]
    median_s: Positive
    least_s: Positive
    cpu: str = ""
    cache_bytes: Annotated[int, Ge(1)]
    place: RowPlace

    @property
    def bytes_moved(self) -> int:
        return FLOAT_BYTES * KERNELS[self.algorithm].accesses * self.elements

    @property
    def bytes_per_s(self) -> float:
        return self.bytes_moved / self.median_s


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainstTwoPass:
    """Time of an algorithm relative to two passes, on rows larger than the last cache: the median over
    lengths, the least and the most with their lengths, and the limit, if only bytes took time. `lost`: lengths in the
    cache at which it is faster than two passes."""

    algorithm: str
    ratio: float
    least: float
    least_at: int
    most: float
    most_at: int
    limit: float
    lost: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.algorithm.removeprefix("three-pass-")

    @property
    def reached(self) -> float:
        """Fraction reached of the gain that is expected from bytes alone; negative if there is a loss."""
        return (self.ratio - 1) / (self.limit - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmSpeed:
    """An algorithm by itself, medians over lengths: counted bytes per second on rows larger than the last cache, and
    nanoseconds of an element in the cache (None where that was not measured); its passes over a row, and its
    exponentials of an element."""

    algorithm: str
    bytes_per_s: float
    cached_ns: float | None
    passes: int
    exponentials: int


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Times of all three algorithms for every row length, on one CPU whose last-level cache has `cache_bytes` bytes."""

    rates: Mapping[tuple[int, str, str], Rate]  # by elements, where the row starts, and algorithm
    cpu: str
    cache_bytes: int
    source: str

    @cached_property
    def kinds(self) -> tuple[tuple[int, str], ...]:
        """(elements, where rows start), cached ones first, in ascending order."""
        kinds = {(elements, starts) for elements, starts, _ in self.rates}
        return tuple(sorted(kinds, key=lambda kind: (STARTS.index(kind[1]), kind[0])))

    def ratio(self, elements: int, starts: str, algorithm: str) -> float:
        """Return the time of an algorithm relative to the two-pass algorithm."""
        own, best = (self.rates[elements, starts, name].median_s for name in (algorithm, TWO_PASS))
        return own / best

    def is_outside(self, elements: int, starts: str) -> bool:
        """Return whether a row is read from memory in every pass, because it is larger than the last-level cache."""
        return starts == UNCACHED and FLOAT_BYTES * elements > self.cache_bytes

    @cached_property
    def outside(self) -> tuple[int, ...]:
        """Lengths of the rows that are larger than the last-level cache."""
        return tuple(elements for elements, starts in self.kinds if self.is_outside(elements, starts))

    @cached_property
    def cached(self) -> tuple[int, ...]:
        """Lengths that were measured in the cache."""
        return tuple(elements for elements, starts in self.kinds if starts == CACHED)

    @property
    def wins(self) -> bool:
        """True if the two-pass algorithm is the fastest for every row that is larger than the last-level cache."""
        return all(self.ratio(elements, UNCACHED, other) > 1 for elements in self.outside for other in OTHERS)

    # ── findings ──

    @cached_property
    def against(self) -> tuple[AgainstTwoPass, ...]:
        """Every other algorithm compared with the two-pass algorithm."""
        return tuple(map(self._against, OTHERS))

    @cached_property
    def speeds(self) -> tuple[AlgorithmSpeed, ...]:
        """Results of every algorithm by itself."""
        return tuple(
            AlgorithmSpeed(
                algorithm=name,
                bytes_per_s=median(self.rates[elements, UNCACHED, name].bytes_per_s for elements in self.outside),
                cached_ns=self._ns(name, CACHED) if self.cached else None,
                passes=KERNELS[name].accesses,
                exponentials=EXPONENTIALS[name],
            )
            for name in IN_MEMORY
        )

    @property
    def fastest(self) -> AlgorithmSpeed:
        return max(self.speeds, key=lambda one: one.bytes_per_s)

    @property
    def slowest(self) -> AlgorithmSpeed:
        return min(self.speeds, key=lambda one: one.bytes_per_s)

    @property
    def are_alike(self) -> bool:
        """True if all algorithms move bytes at about the same rate."""
        return self.fastest.bytes_per_s <= ALIKE * self.slowest.bytes_per_s

    @property
    def by_exponentials(self) -> bool:
        """True if the rate of bytes is the lower, the more exponentials there are to a pass."""
        rising = [one.algorithm for one in sorted(self.speeds, key=lambda one: one.bytes_per_s)]
        by_pass = sorted(self.speeds, key=lambda one: one.exponentials / one.passes, reverse=True)
        return rising == [one.algorithm for one in by_pass]

    @property
    def cached_reload(self) -> float | None:
        """In the cache, reload's time over that of two passes in the median; None where nothing was measured there."""
        return median(self.ratio(each, CACHED, RELOAD) for each in self.cached) if self.cached else None

    @property
    def cached_share(self) -> float | None:
        """Time of two passes in the cache over theirs out of it; None where nothing was measured there."""
        return self._ns(TWO_PASS, CACHED) / self._ns(TWO_PASS, UNCACHED) if self.cached else None

    def _against(self, other: str) -> AgainstTwoPass:
        at = {elements: self.ratio(elements, UNCACHED, other) for elements in self.outside}
        least, most = min(at, key=at.__getitem__), max(at, key=at.__getitem__)
        return AgainstTwoPass(
            algorithm=other,
            ratio=median(at.values()),
            least=at[least],
            least_at=least,
            most=at[most],
            most_at=most,
            limit=limit_of(other),
            lost=tuple(elements for elements in self.cached if self.ratio(elements, CACHED, other) < 1),
        )

    def _ns(self, name: str, starts: str) -> float:
        """Return nanoseconds per element: the median over row lengths in the cache, or over those larger than the
        cache."""
        lengths = self.cached if starts == CACHED else self.outside
        return median(1e9 * self.rates[elements, starts, name].median_s / elements for elements in lengths)


def limit_of(algorithm: str) -> float:
    """Return the expected time ratio to the two-pass algorithm if time were proportional to the number of passes."""
    return KERNELS[algorithm].accesses / KERNELS[TWO_PASS].accesses


def bytes_per_element(algorithm: str) -> tuple[int, int]:
    """Bytes that an algorithm reads and writes of an element, by the count of its passes; and with the line that a
    store reads first where it is not in the cache: the first of the result is not, a second follows a read of it."""
    counted = FLOAT_BYTES * KERNELS[algorithm].accesses
    return counted, counted + FLOAT_BYTES


def read_rates(path: Path) -> Rates:
    """Read a CSV file of `COLUMNS`, from `simfrontier-real softmax`. Raises InputError: one line."""
    rows = read_rows(path, Rate, COLUMNS)
    rates: dict[tuple[int, str, str], Rate] = {}
    for rate in rows:
        key = (rate.elements, rate.starts, rate.algorithm)
        if key in rates:
            text = f"got {rate.algorithm} of {rate.elements:,} elements, {rate.starts}, twice; allowed: once"
            raise InputError(f"{rate.place}: {text}")
        rates[key] = rate
    table = Rates(rates=rates, cpu=rows[0].cpu, cache_bytes=rows[0].cache_bytes, source=path.name)
    _refuse_missing(path, table)
    return table


def _refuse_missing(path: Path, rates: Rates) -> None:
    """Raise InputError unless every length has all algorithms, and at least one is larger than the cache."""
    for elements, starts in rates.kinds:
        for name in IN_MEMORY:
            if (elements, starts, name) not in rates.rates:
                raise InputError(f"{path}: {elements:,} elements, {starts}: no {name}; allowed: {', '.join(IN_MEMORY)}")
    if not rates.outside:
        most = max(elements for elements, _ in rates.kinds)
        least = rates.cache_bytes // FLOAT_BYTES + 1
        raise InputError(
            f"{path}: got rows of up to {most:,} elements; allowed: an uncached one that the last cache cannot hold, "
            f"of {least:,} or more"
        )
