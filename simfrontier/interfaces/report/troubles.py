"""Degraded components of a machine in words."""

from __future__ import annotations

from simfrontier.core.machine import NEVER, Perturbation, Spread, Trouble
from simfrontier.interfaces.report.phrases import quantity

MOST_LISTED = 20
_DIFFERING = {"networks": "networks of nodes", "kernels": "calls of kernels", "collectives": "calls of collectives"}


def troubles_in_short(wrong: Perturbation, device_word: str) -> str:
    """Return all that is degraded at any time, of very many the first."""
    spreads = [_spread(each, device_word) for each in map(Spread.resolved, wrong.spread)]
    each = [_trouble(trouble).replace("device ", f"{device_word} ") for _, trouble in wrong.troubles()]
    more = [f"{len(each) - MOST_LISTED:,} others"] if len(each) > MOST_LISTED else []
    return ", ".join([*spreads, *each[:MOST_LISTED], *more])


def spread_sources(wrong: Perturbation) -> list[tuple[str, str]]:
    """Return what differs, and the source of how it does, where that is stated."""
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
