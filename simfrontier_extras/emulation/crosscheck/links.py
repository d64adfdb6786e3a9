"""Simulated bytes of links beside those that were counted: two tables joined, and which links are too far apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from simfrontier.core.trace import LinkTable

JUDGED_BYTES: Final = 1e6  # a link that carries no more than this in a step is not judged: headers are too much of it
WITHIN: Final = 0.03  # how far counted bytes may lie from the simulated ones


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPair:
    """One direction of a link: its simulated bytes in a step, and those that were counted."""

    name: str
    link_class: str
    src: str
    dst: str
    sim_bytes: float
    real_bytes: float

    @property
    def ratio(self) -> float:
        """Counted over simulated; infinite where only counted, NaN where neither."""
        if self.sim_bytes:
            return self.real_bytes / self.sim_bytes
        return math.inf if self.real_bytes else math.nan

    @property
    def apart(self) -> float:
        """|counted / simulated - 1|; 0 of a link that is idle on both sides."""
        return abs(self.ratio - 1.0) if self.sim_bytes or self.real_bytes else 0.0

    @property
    def is_judged(self) -> bool:
        """True if the link carries enough on either side."""
        return max(self.sim_bytes, self.real_bytes) > JUDGED_BYTES

    @property
    def is_missed(self) -> bool:
        """True if the link is judged and its difference is too large."""
        return self.is_judged and abs(self.real_bytes - self.sim_bytes) > WITHIN * self.sim_bytes


@dataclass(frozen=True, kw_only=True)
class LinkCheck:
    """A plan's two tables joined by name, in the order of the simulated one."""

    plan: str
    sim_title: str
    real_title: str
    pairs: tuple[LinkPair, ...]

    @cached_property
    def judged(self) -> tuple[LinkPair, ...]:
        """The links that are judged, the one with the largest difference first."""
        return tuple(sorted((pair for pair in self.pairs if pair.is_judged), key=lambda pair: -pair.apart))

    @property
    def num_missed(self) -> int:
        return sum(pair.is_missed for pair in self.judged)

    @cached_property
    def by_class(self) -> Mapping[str, list[LinkPair]]:
        """The links of every class, in the order in which the classes appear."""
        out: dict[str, list[LinkPair]] = {}
        for pair in self.pairs:
            out.setdefault(pair.link_class, []).append(pair)
        return out


def compare_links(plan: str, sim: LinkTable, real: LinkTable) -> LinkCheck:
    """Join two tables of one schedule; a link that one of them does not list carries nothing there."""
    simulated, counted = ({link.name: link for link in table.links} for table in (sim, real))
    pairs = [
        LinkPair(
            name=name,
            link_class=link.link_class,
            src=link.src,
            dst=link.dst,
            sim_bytes=simulated[name].num_bytes if name in simulated else 0.0,
            real_bytes=counted[name].num_bytes if name in counted else 0.0,
        )
        for name, link in ({**simulated, **counted}).items()
    ]
    return LinkCheck(plan=plan, sim_title=sim.title, real_title=real.title, pairs=tuple(pairs))


@dataclass(frozen=True, slots=True, kw_only=True)
class LinksFound:
    """Link directions of all plans that carry more than `least_bytes` and so are judged, how many are more than
    `within` off, and the worst with its plan."""

    num_plans: int
    num_judged: int
    num_missed: int
    worst: LinkPair | None
    worst_plan: str
    least_bytes: float = JUDGED_BYTES
    within: float = WITHIN


def links_found(checks: Sequence[LinkCheck]) -> LinksFound:
    """Return the findings on the bytes of links."""
    judged = [(pair, each.plan) for each in checks for pair in each.judged]
    worst, plan = max(judged, key=lambda one: one[0].apart, default=(None, ""))
    num_missed = sum(each.num_missed for each in checks)
    return LinksFound(
        num_plans=len(checks), num_judged=len(judged), num_missed=num_missed, worst=worst, worst_plan=plan
    )
