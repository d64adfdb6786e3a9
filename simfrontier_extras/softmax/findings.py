"""Findings on a table of measured softmaxes: how two passes over memory compare with three, where, and why."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from simfrontier.core.program import KERNELS
from simfrontier_extras.softmax.rates import (
    CACHED,
    EXPONENTIALS,
    IN_MEMORY,
    OTHERS,
    TWO_PASS,
    UNCACHED,
    Rates,
    limit_of,
)

ALIKE = 1.15  # rates that differ by less are called about the same
RELOAD = "three-pass-reload"


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
        """Share of the gain that bytes alone would make; negative where there is a loss."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxRatesFindings:
    """Findings on a table. `by_exponentials`: the more exponentials to a pass, the lower the rate of bytes; of medians
    in the cache, `cached_reload` is reload's time over that of two passes, and `cached_share` that of two passes over
    theirs out of it, None where nothing was measured there."""

    rates: Rates
    against: tuple[AgainstTwoPass, ...]
    speeds: tuple[AlgorithmSpeed, ...]
    by_exponentials: bool
    cached_reload: float | None
    cached_share: float | None

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


def softmax_rates_findings(rates: Rates) -> SoftmaxRatesFindings:
    """Return the findings on a table of measured times."""
    speeds = tuple(_speed(rates, name) for name in IN_MEMORY)
    rising = [one.algorithm for one in sorted(speeds, key=lambda one: one.bytes_per_s)]
    falling = [one.algorithm for one in sorted(speeds, key=lambda one: one.exponentials / one.passes, reverse=True)]
    return SoftmaxRatesFindings(
        rates=rates,
        against=tuple(_against(rates, other) for other in OTHERS),
        speeds=speeds,
        by_exponentials=rising == falling,
        cached_reload=median(rates.ratio(each, CACHED, RELOAD) for each in rates.cached) if rates.cached else None,
        cached_share=_ns(rates, TWO_PASS, CACHED) / _ns(rates, TWO_PASS, UNCACHED) if rates.cached else None,
    )


def _against(rates: Rates, other: str) -> AgainstTwoPass:
    at = {elements: rates.ratio(elements, UNCACHED, other) for elements in rates.outside}
    least, most = min(at, key=at.__getitem__), max(at, key=at.__getitem__)
    return AgainstTwoPass(
        algorithm=other,
        ratio=median(at.values()),
        least=at[least],
        least_at=least,
        most=at[most],
        most_at=most,
        limit=limit_of(other),
        lost=tuple(elements for elements in rates.cached if rates.ratio(elements, CACHED, other) < 1),
    )


def _speed(rates: Rates, name: str) -> AlgorithmSpeed:
    return AlgorithmSpeed(
        algorithm=name,
        bytes_per_s=median(rates.rates[elements, UNCACHED, name].bytes_per_s for elements in rates.outside),
        cached_ns=_ns(rates, name, CACHED) if rates.cached else None,
        passes=KERNELS[name].accesses,
        exponentials=EXPONENTIALS[name],
    )


def _ns(rates: Rates, name: str, starts: str) -> float:
    """Nanoseconds of an element, the median over lengths in the cache, or over those that are larger than it."""
    lengths = rates.cached if starts == CACHED else rates.outside
    return median(1e9 * rates.rates[elements, starts, name].median_s / elements for elements in lengths)
