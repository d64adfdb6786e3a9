"""The page of measured softmax kernels: whether two passes over memory beat three on this CPU, where, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from simfrontier.report.ending import how_to_read
from simfrontier.report.markup import cards, items, keyed, paragraph, plot, section, table, text
from simfrontier.report.phrases import binary, listed, number, percent, quantity
from simfrontier.report.render import whole_page
from simfrontier.schedule import KERNELS
from simfrontier.wholefile import write_whole
from simfrontier_extras.softmax.algorithms import IN_MEMORY
from simfrontier_extras.softmax.figures import MARKS, NAMES, charts
from simfrontier_extras.softmax.rates import (
    CACHED,
    EXPONENTIALS,
    FLOAT_BYTES,
    OTHERS,
    TWO_PASS,
    UNCACHED,
    Rates,
    bytes_per_element,
    limit_of,
)

CONTENTS: Final = {
    "headline": "In short",
    "sizes": "By length",
    "why": "Why",
    "measured": "How measured",
    "reading": "How to read",
}
ALIKE: Final = 1.15  # rates that differ by less are called about the same
_SHORT: Final = {other: other.removeprefix("three-pass-") for other in OTHERS}


def softmax_rates_page(rates: Rates) -> str:
    """The page as text; the same table gives the same text."""
    sections = {
        "headline": _headline(rates),
        "sizes": _sizes(rates),
        "why": _why(rates),
        "measured": _measured(rates),
        "reading": _reading(),
    }
    heading = "Softmax by two passes over memory, measured"
    subtitle = f"Rows of float32 on one thread of {rates.cpu}, by the length of the row; {rates.source}."
    return whole_page(heading, f"{heading}: simfrontier softmax", subtitle, CONTENTS, sections)


def write_softmax_rates_page(rates: Rates, path: Path) -> None:
    """Write the page. Raises InputError where the file cannot be written."""
    write_whole(path, softmax_rates_page(rates))


def outside_ratio(rates: Rates, other: str) -> float:
    """How many times as long as two passes an algorithm takes: the median of rows larger than the last cache."""
    return median(rates.ratio(elements, UNCACHED, other) for elements in rates.outside)


def softmax_lead(rates: Rates) -> str:
    """What it comes to, of rows that are larger than the last cache."""
    ratios = {_SHORT[other]: outside_ratio(rates, other) for other in OTHERS}
    message = listed([f"three passes with {name} take {number(ratio)} ×" for name, ratio in ratios.items()])
    verdict = "are the fastest" if rates.wins else "are not the fastest of the three at every length"
    where = f"Out of the last cache ({_outside_words(rates)})"
    return f"{where} two passes {verdict}: {message} their time (median over lengths)."


def softmax_findings(rates: Rates) -> Iterator[str]:
    """Further findings from the table, one sentence each."""
    for other in OTHERS:
        at = {elements: rates.ratio(elements, UNCACHED, other) for elements in rates.outside}
        least, most = min(at, key=at.__getitem__), max(at, key=at.__getitem__)
        limit, achieved = limit_of(other), outside_ratio(rates, other)
        to = f" to {number(at[most])} × at {most:,}" if number(at[most]) != number(at[least]) else ""
        yield (
            f"Against {_SHORT[other]}: {number(at[least])} × at {least:,} elements{to}; bytes alone would make it "
            f"{number(limit)} ×, and {_of_gain(achieved, limit)}."
        )
    for other in OTHERS:
        lost = [elements for elements in rates.cached if rates.ratio(elements, CACHED, other) < 1]
        if lost and len(lost) == len(rates.cached):
            yield f"In the cache {_SHORT[other]} is faster than two passes at every length."
        elif lost:
            yield (
                f"In the cache {_SHORT[other]} is faster than two passes at {len(lost)} of {len(rates.cached)} "
                f"lengths, the longest of {max(lost):,} elements."
            )
        elif rates.cached:
            yield f"In the cache two passes are no slower than {_SHORT[other]} at any length."


def _of_gain(achieved: float, limit: float) -> str:
    share = (achieved - 1) / (limit - 1)
    return f"{percent(share)} of that gain is reached" if share > 0 else "none of that gain is reached"


def _outside_words(rates: Rates) -> str:
    sizes = rates.outside
    many = f"{sizes[0]:,} to {sizes[-1]:,} elements" if len(sizes) > 1 else f"{sizes[0]:,} elements"
    return f"rows of {many}, beyond {binary(rates.cache_bytes)}"


def _headline(rates: Rates) -> str:
    longest = rates.outside[-1]
    shown = [
        (
            f"{number(outside_ratio(rates, other))} ×",
            f"time of {_SHORT[other]}",
            f"of two passes, out of the cache; bytes alone: {number(limit_of(other))} ×",
        )
        for other in OTHERS
    ]
    own = rates.rates[longest, UNCACHED, TWO_PASS]
    shown.append((f"{number(1e9 * own.median_s / longest)} ns", "an element, two passes", f"at {longest:,} elements"))
    shown.append((quantity(own.bytes_per_s, "bytes/s"), "moved by two passes", "counted by passes, same row"))
    return section(
        "headline",
        "In short",
        paragraph(softmax_lead(rates), "lead"),
        items(map(text, softmax_findings(rates)), "plain"),
        cards(shown),
    )


def _sizes(rates: Rates) -> str:
    head = ["elements", "row", *(keyed(MARKS[name].colour, name) for name in IN_MEMORY)]
    head += [f"{_SHORT[other]} / two-pass" for other in OTHERS]
    rows = [_size_row(rates, elements, starts) for elements, starts in rates.kinds]
    return section(
        "sizes",
        "By the length of a row",
        plot("fig-softmax-rates", charts(rates), "Time of the softmax algorithms by the length of a row"),
        table(head, rows),
        paragraph(
            "Medians, and the least below them. Beyond the upright line a row is larger than the last cache, so that "
            "every pass reads it from memory.",
            "note",
        ),
    )


def _size_row(result: Rates, elements: int, starts: str) -> list[str]:
    rates = [result.rates[elements, starts, name] for name in IN_MEMORY]
    where = NAMES[starts] + (", larger than the cache" if result.is_outside(elements, starts) else "")
    times = [f"{quantity(rate.median_s, 's')}<small>{quantity(rate.least_s, 's')}</small>" for rate in rates]
    ratios = [result.ratio(elements, starts, other) for other in OTHERS]
    cells = [f'<span class="no">{number(ratio)}</span>' if ratio < 1 else number(ratio) for ratio in ratios]
    return [f"{elements:,}", where, *times, *cells]


def _why(rates: Rates) -> str:
    rows = []
    for name in IN_MEMORY:
        counted, with_lines = bytes_per_element(name)
        rows.append(
            [
                keyed(MARKS[name].colour, name),
                f"{KERNELS[name].accesses}",
                f"{counted}",
                f"{with_lines}",
                f"{EXPONENTIALS[name]}",
                f"{number(limit_of(name))}",
                number(1.0 if name == TWO_PASS else outside_ratio(rates, name)),
                quantity(_outside_rate(rates, name), "bytes/s"),
                quantity(_outside_rate(rates, name) * with_lines / counted, "bytes/s"),
            ]
        )
    head = ["algorithm", "passes", "bytes an element", "and lines for stores", "exponentials", "limit", "reached"]
    head += ["rate of bytes", "and lines for stores"]
    return section(
        "why",
        "Why: bytes, until arithmetic takes longer",
        *(paragraph(message) for message in reasons(rates)),
        table(head, rows),
        paragraph(
            "Bytes are counted by passes, as google/XNNPACK’s bench/f32-softmax.cc does, not measured. A store to a "
            "line that no cache holds reads the line first, once for each result; the last pass of reload has just "
            "read what it writes. Limits and times are relative to two-pass; times and rates are "
            "medians over rows that are larger than the last cache.",
            "note",
        ),
    )


def reasons(result: Rates) -> Iterator[str]:
    """Why two passes win or lose, as far as rates of bytes and of exponentials in this table show."""
    rates = {name: _outside_rate(result, name) for name in IN_MEMORY}
    fast, slow = max(rates, key=rates.__getitem__), min(rates, key=rates.__getitem__)
    between = f"{quantity(rates[slow], 'bytes/s')} ({slow}) to {quantity(rates[fast], 'bytes/s')} ({fast})"
    if rates[fast] <= ALIKE * rates[slow]:
        yield (
            f"Out of the cache all three move bytes at about the same rate, {between}: whoever moves fewer of them is "
            "done earlier. Two passes read a row twice and write it once; the maximum that three passes look for first "
            "is a pass of its own."
        )
    else:
        yield (
            f"Out of the cache two passes move the fewest bytes, but rates differ: {between}. Bytes alone do not set "
            f"the time: {_held_back(rates)}"
        )
    if not result.cached:
        return
    each = {name: _ns(result, name, CACHED, result.cached) for name in IN_MEMORY}
    message = listed([f"{name} {number(ns)} ns for {EXPONENTIALS[name]}" for name, ns in each.items()])
    yield (
        "In the cache a pass waits less for memory, and arithmetic counts for more. An element takes, with its "
        f"exponentials: {message} (median over lengths). {_cached_verdict(result)}"
    )
    own = each[TWO_PASS] / _ns(result, TWO_PASS, UNCACHED, result.outside)
    yield (
        f"In the cache two passes take {percent(own)} of their time out of it. The nearer this is to 100 %, the less "
        "there is to gain by moving fewer bytes."
    )


def _held_back(rates: Mapping[str, float]) -> str:
    """Whether rates fall with the exponentials that a pass has on average."""
    share = {name: EXPONENTIALS[name] / KERNELS[name].accesses for name in rates}
    if sorted(rates, key=rates.__getitem__) != sorted(share, key=share.__getitem__, reverse=True):
        return "these rates do not follow the exponentials that a pass has on average."
    message = listed([f"{name} {EXPONENTIALS[name]} in {KERNELS[name].accesses}" for name in rates])
    return f"the more exponentials there are to a pass ({message}), the lower is the rate."


def _cached_verdict(rates: Rates) -> str:
    ratio = median(rates.ratio(elements, CACHED, "three-pass-reload") for elements in rates.cached)
    if ratio < 1:
        return f"Reload, which computes them once, takes {number(ratio)} × the time of two passes there."
    return f"Reload computes them once and yet takes {number(ratio)} × the time of two passes there."


def _ns(rates: Rates, name: str, starts: str, lengths: Sequence[int]) -> float:
    """Nanoseconds of an element, the median over lengths of rows."""
    return median(1e9 * rates.rates[elements, starts, name].median_s / elements for elements in lengths)


def _outside_rate(rates: Rates, name: str) -> float:
    """Counted bytes in a second, the median of rows larger than the last cache."""
    return median(rates.rates[elements, UNCACHED, name].bytes_per_s for elements in rates.outside)


def _measured(rates: Rates) -> str:
    rows = [
        ["CPU", text(rates.cpu)],
        ["last cache", f"{binary(rates.cache_bytes)}, a row of {rates.cache_bytes // FLOAT_BYTES:,} float32"],
        ["threads", "one"],
        ["input", "uniform(−1000, 1000), as in google/XNNPACK’s bench/f32-softmax.cc"],
        ["row in the cache", "the same few rows again and again"],
        ["row in memory", "rows of twice the last cache in turn, so that each has left it when it comes again"],
        ["turns", "the three algorithms one after the other, over and over; medians"],
        ["kernels", "the same exponential, vectors and sums in all three: simfrontier_extras.softmax"],
        ["table", text(rates.source)],
    ]
    return section("measured", "How it was measured", table(["what", "how"], rows, "words"))


def _reading() -> str:
    meanings = {
        "two-pass": (
            "The sum of e^x as numbers m · 2^n, which cannot overflow, in one pass; m · 2^(n − N) / M in a second "
            "(arXiv 2001.04438)."
        ),
        "three-pass-recompute": "The maximum; the sum of e^(x − max); e^(x − max) again, divided by the sum.",
        "three-pass-reload": "The maximum; e^(x − max), stored and summed; what was stored, divided by the sum.",
        "ratio": "Median time of an algorithm over that of two passes: above 1 two passes are faster.",
        "reached": "The same, the median over rows that are larger than the last cache.",
        "limit by bytes": "What the ratio would be if time went with the bytes of the passes alone.",
    }
    return how_to_read(meanings)
