"""Formatting of numbers, lists and degraded components for pages: few digits, thousands separators, plain words."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache

from simfrontier.base.units import has_multiples, listed, scaled, written
from simfrontier.core.machine import NEVER, Perturbation, Spread, Trouble

TOO_BIG = "does not fit"
NOT_RUN = "not run"
NOTHING = "–"
_BLANK = "\u00a0"  # a number and its unit stay on one line
MOST_LISTED = 20
_DIFFERING = {"networks": "networks of nodes", "kernels": "calls of kernels", "collectives": "calls of collectives"}


USUAL_GRID = "the smallest that fits, assumed: tensor parallelism in a node, then stages; arXiv 2104.04473"


def number(value: float, digits: int = 3) -> str:
    """Return a number as text with at least `digits` significant digits, rounded to an integer if larger, with
    thousands separators: 80.8, 4,096, 0.0137."""
    if not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value)) + 1e-12))
    return f"{value:z,.{min(decimals, 8)}f}"  # z: no -0


@lru_cache(maxsize=4096, typed=True)  # layers are alike: the same bytes and times come again and again
def quantity(value: float, unit: str) -> str:
    """Return a number with its unit, in three digits: 4.74 s, 25.4 GB, 16.9 µs, 64 GB."""
    if not math.isfinite(value):
        return NOTHING
    if not has_multiples(unit):
        whole = isinstance(value, int) or "." not in written(value, unit)
        return written(value, unit) if whole else number(float(f"{value:.4g}"))
    size, name = scaled(value, unit)
    return f"{_three_digits(size)}{_BLANK}{name}"


def in_unit(value: float, unit: str) -> str:
    """Return a result with its unit, in three digits, rounded to an integer if larger: 4.74 s, 13.2 %, 593,370."""
    if unit == "share":
        return percent(value)
    return quantity(value, unit) if has_multiples(unit) else number(value)


def between(low: float, high: float, unit: str) -> str:
    """Return a range of quantities, with the unit only once if both have the same: 3.44 to 3.62 s, 980 ms to 1.02 s."""
    if scaled(low, unit).unit != scaled(high, unit).unit:
        return f"{quantity(low, unit)} to {quantity(high, unit)}"
    return f"{_three_digits(scaled(low, unit).number)} to {quantity(high, unit)}"


def _three_digits(value: float) -> str:
    """Return a number with the four digits of `exactly` if these make an integer, otherwise with three digits."""
    shown = f"{value:.4g}"
    return number(float(shown)) if "." in shown else shown


def binary(num_bytes: float) -> str:
    """Return a size in binary units: 64 KiB, 1 MiB; in decimal units if it is not an integer number of KiB."""
    for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if num_bytes >= size and num_bytes % size == 0:
            return f"{num_bytes / size:,.0f}{_BLANK}{unit}"
    return quantity(num_bytes, "bytes")


def exactly(value: float, unit: str) -> str:
    """Return a number with its unit as it was specified, up to four digits: 1.638 TB/s, 191.5 Tflop/s."""
    return written(value, unit).replace(" ", _BLANK)


def percent(share: float | None) -> str:
    """Return a share as per cent: 13.2 %; a dash for None."""
    if share is None or not math.isfinite(share):
        return NOTHING
    return f"{_hundredths(share)}{_BLANK}%"


def percent_between(low: float, high: float) -> str:
    """Return a range of finite shares: 51.2 to 72.0 %."""
    return f"{_hundredths(low)} to {percent(high)}"


def short_percent(share: float) -> str:
    """Return a finite share in per cent in few characters: 13, 4.2, 0."""
    value = 100 * share
    return f"{value:.0f}" if value >= 9.95 or value < 0.05 else f"{value:.1f}"


def _hundredths(share: float) -> str:
    value = 100 * share
    return f"{value:z,.1f}" if abs(value) < 99.95 else f"{value:,.0f}"


def percent_up(share: float) -> str:
    """Return a share as per cent, rounded up, so that the text is never less than the value."""
    return percent(math.ceil(1e3 * share - 1e-9) / 1e3)


def three_digits(value: float) -> str:
    """Return a number rounded to three significant digits: 233,000, 80.8."""
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else number(value)


def signed(share: float | None) -> str:
    """Return a relative change as per cent with its sign: +1.3 %, −0.2 %, 0.0 %; a dash for None."""
    size = percent(None if share is None else abs(share))
    if share is None or not math.isfinite(share) or size == percent(0.0):
        return size
    return f"{'+' if share > 0 else '−'}{size}"


def signed_seconds(seconds: float) -> str:
    """Return seconds with their sign: +1.2 ms, −0.31 s."""
    size = quantity(abs(seconds), "s")
    return size if seconds == 0.0 else f"{'+' if seconds > 0.0 else '−'}{size}"


def options(settings: Sequence[str]) -> str:
    """Return settings as options of a command line: `--set engine.overlap=true`."""
    return " ".join(f"--set {shlex.quote(setting)}" for setting in settings)


def distance(predicted: float, published: float) -> str:
    """Return the difference of a prediction from a published number in words: 60 % below."""
    apart = predicted / published - 1
    if abs(apart) < 0.005:
        return f"equal within 0.5{_BLANK}%"
    size = f"{abs(apart) * 100:.1f}" if abs(apart) < 0.1 else f"{abs(apart) * 100:.0f}"
    return f"{size}{_BLANK}% {'above' if apart > 0 else 'below'}"


def in_words(count: float) -> str:
    """Return a large count in words: 20.6 billion, 133 thousand."""
    for size, name in ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if count >= size:
            return f"{number(count / size)} {name}"
    return number(count)


def fitted_words(library: str, machines: Sequence[str], machine: str) -> str:
    """Return a phrase that names the machines on which a library was fitted, if this machine is none of them; empty if
    it was fitted on none."""
    return f"{library} was fitted on {listed(machines)}; no measurement validates it on {machine}" if machines else ""


def setting(value: object) -> str:
    """Return the value of a setting as text: yes, 1,024, zero1 (gradient_codec fp16), (a, b)."""
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case Mapping():
            family = value.get("family", "")
            more = ", ".join(f"{key} {setting(given)}" for key, given in value.items() if key != "family")
            return f"{family} ({more})".lstrip() if more or not family else str(family)
        case list() | tuple():
            return f"({', '.join(map(setting, value))})"
        case _:
            return str(value)


def as_percent(share: float, num_samples: int) -> str:
    """Return a share of samples as per cent: 97 %, rounded towards 50 % so that the text never overstates it. If all n
    samples agree, the share is only known to be above 1 - 1/n: > 99 % of 200."""
    most = 1.0 - 1.0 / num_samples
    inside = min(max(share, 1.0 - most), most)
    whole = math.floor(100 * inside + 1e-9) if share >= 0.5 else math.ceil(100 * inside - 1e-9)
    sign = {0.0: "<\u00a0", 1.0: ">\u00a0"}.get(share, "")
    return f"{sign}{whole}\u00a0%"


def in_samples(share: float, num_samples: int) -> str:
    """Return a share of samples in words."""
    message = as_percent(share, num_samples).replace("<\u00a0", "fewer than ").replace(">\u00a0", "more than ")
    return f"{message} of the samples"


def troubles_in_short(wrong: Perturbation, device_word: str) -> str:
    """Return a short description of all degraded components; if there are very many, of the first ones."""
    spreads = [_spread(each, device_word) for each in map(Spread.resolved, wrong.spread)]
    each = [_trouble(trouble).replace("device ", f"{device_word} ") for _, trouble in wrong.troubles()]
    more = [f"{len(each) - MOST_LISTED:,} others"] if len(each) > MOST_LISTED else []
    return ", ".join([*spreads, *each[:MOST_LISTED], *more])


def spread_sources(wrong: Perturbation) -> list[tuple[str, str]]:
    """Return the varying quantities (such as device speed) and the source of each variation, if one is stated."""
    spreads = map(Spread.resolved, wrong.spread)
    return [(f"{spread.thing} differ", f"source: {spread.source}") for spread in spreads if spread.source]


def _spread(spread: Spread, device_word: str) -> str:
    match spread:
        case Spread(distribution="uniform", width=width):
            law = f"uniform, {100 * (width or 0.0):g} % from the slowest to the fastest"
        case Spread(distribution=None, table=table):
            law = f"factors of {table}"
        case Spread(distribution="quantiles", quantiles=quantiles):
            each = ", ".join(f"{100 * share:g} % below {factor:g}" for share, factor in quantiles or ())
            law = f"quantiles: {each}"
        case _:
            cut = "" if spread.most is None else f", none further than {100 * spread.most:g} % from the nominal one"
            law = f"{spread.distribution} of standard deviation {100 * (spread.sd or 0.0):g} %{cut}"
    seed = "" if spread.distribution is None and not spread.is_of_calls else f", seed {spread.seed}"
    return f"{_DIFFERING.get(spread.thing, f'{device_word}s')} differ ({law}{seed})"


def _trouble(trouble: Trouble) -> str:
    begin = f" from {_moment(*trouble.begin)}" if trouble.begin > (0, 0.0) else ""
    end = f" until {_moment(*trouble.end)}" if trouble.end < NEVER else ""
    return trouble.rate_words + (begin + end if trouble.is_timed else "")


def _moment(step: int, seconds: float) -> str:
    return f"{quantity(seconds, 's')} of step {step}" if seconds else f"step {step}"
