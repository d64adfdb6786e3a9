"""What is wrong with a machine, in words: in a row of settings, and in short below a title."""

from __future__ import annotations

from simfrontier.machine import (
    NEVER,
    BusyPools,
    DegradedLink,
    DegradedNic,
    DegradedPool,
    Perturbation,
    SlowDevice,
    SlowMemory,
    SlowNode,
    SlowPackage,
    Spread,
    Trouble,
)
from simfrontier.report.phrases import quantity

MOST_LISTED = 20


def trouble_rows(wrong: Perturbation) -> list[tuple[str, str]]:
    """A heading and what it is: how devices and networks differ, and each of what is wrong at any time; of very many
    the first, and how many more."""
    spreads = [(f"{each.thing} differ", _spread(each, each.source)) for each in map(Spread.resolved, wrong.spread)]
    each = [(_label(trouble), f"{_row(trouble)}{_when(trouble)}") for _, trouble in wrong.troubles()]
    more = len(each) - MOST_LISTED
    return [*spreads, *each[:MOST_LISTED], ("and more", f"{more:,} others")] if more > 0 else spreads + each


def troubles_in_short(wrong: Perturbation, device_word: str) -> str:
    """All that is wrong at any time, of very many the first."""
    words = {"devices": f"{device_word}s", "networks": "networks of nodes", "kernels": "calls of kernels"}
    words["collectives"] = "calls of collectives"
    spreads = [f"{words[each.thing]} differ ({_spread(each)})" for each in map(Spread.resolved, wrong.spread)]
    each = [f"{_short(trouble, device_word)}{_when(trouble)}" for _, trouble in wrong.troubles()]
    more = [f"{len(each) - MOST_LISTED:,} others"] if len(each) > MOST_LISTED else []
    return ", ".join([*spreads, *each[:MOST_LISTED], *more])


def _spread(spread: Spread, source: str | None = None) -> str:
    """How a thing differs, with where that is from."""
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
    return f"{law}{seed}{'' if source is None else f'; {source}'}"


def _label(trouble: Trouble) -> str:
    dead = trouble.factor == 0.0
    match trouble:
        case SlowDevice():
            return "dead device" if dead else "slow device"
        case SlowPackage():
            return "dead package" if dead else "slow package"
        case SlowNode():
            return "dead node" if dead else "slow node"
        case SlowMemory():
            return "dead memory" if dead else "slow memory"
        case DegradedNic():
            return "dead NIC" if dead else "degraded NIC"
        case BusyPools():
            return "other jobs"
        case DegradedPool():
            return "dead global links" if dead else "degraded global links"
        case _:
            return "dead link" if dead else "degraded link"


def _row(trouble: Trouble) -> str:
    part = f"{trouble.factor:g}"
    match trouble:
        case DegradedLink(node=node, link=link):
            return f"node {node}, {link}: {part} of its capacity"
        case DegradedPool(source=source, target=target):
            return f"group {source} to group {target}: {part} of their capacity"
        case BusyPools():
            return f"{part} of the capacity of every link between groups of nodes is left (assumed by the scenario)"
        case SlowDevice() | SlowPackage() | SlowNode():
            return f"{trouble.thing} computes at {part} of its speed"
        case _:
            return f"{trouble.thing}: {part} of its rate"


def _short(trouble: Trouble, device_word: str) -> str:
    part = f"{100 * trouble.factor:g} %"
    match trouble:
        case SlowDevice(device=device):
            return f"{device_word} {device} at {part} of its speed"
        case DegradedLink(node=node, link=link):
            return f"{link} of node {node} at {part}"
        case DegradedPool(source=source, target=target):
            return f"global links from group {source} to {target} at {part}"
        case SlowPackage() | SlowNode():
            return f"{trouble.thing} at {part} of its speed"
        case _:
            return f"{trouble.thing} at {part}"


def _when(trouble: Trouble) -> str:
    if not trouble.is_timed:
        return ""
    ends = [f" from {_moment(*trouble.begin)}"] if trouble.begin > (0, 0.0) else []
    return "".join([*ends, f" until {_moment(*trouble.end)}" if trouble.end < NEVER else ""])


def _moment(step: int, seconds: float) -> str:
    return f"{quantity(seconds, 's')} of step {step}" if seconds else f"step {step}"
