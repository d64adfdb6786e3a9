"""What is wrong with a machine today: the table `perturbation` of a scenario, and what a fabric is made with."""

from collections import Counter
from collections.abc import Iterable
from typing import Annotated

from annotated_types import Ge, Gt, Le, MaxLen

from simfrontier.errors import InputError, shown
from simfrontier.io import Text
from simfrontier.limits import COUNT, ENTRIES
from simfrontier.records import dataclass

Number = Annotated[int, Ge(0), Le(COUNT.most)]
Factor = Annotated[float, Gt(0), Le(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDevice:
    """A device that computes at a part of its speed."""

    device: Number
    factor: Factor


@dataclass(frozen=True, slots=True, kw_only=True)
class DegradedLink:
    """A link of a node that has only a part of its capacity; link names as `simfrontier show --links` prints them."""

    node: Number
    link: Text
    factor: Factor


@dataclass(frozen=True, slots=True, kw_only=True)
class DegradedPool:
    """The global links from one group of a dragonfly to another, which have only a part of their capacity."""

    source: Number
    target: Number
    factor: Factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbation:
    """Devices, links and global pools that are slower than they should be; everything else is healthy."""

    slow: Annotated[tuple[SlowDevice, ...], MaxLen(ENTRIES.most)] = ()
    links: Annotated[tuple[DegradedLink, ...], MaxLen(ENTRIES.most)] = ()
    pools: Annotated[tuple[DegradedPool, ...], MaxLen(ENTRIES.most)] = ()

    def __post_init__(self) -> None:
        factors = [(f"slow device {each.device}", each.factor) for each in self.slow]
        factors += [(f"link {each.link!r} of node {each.node}", each.factor) for each in self.links]
        factors += [(f"global pool {each.source}>{each.target}", each.factor) for each in self.pools]
        for what, factor in factors:
            if not 0.0 < factor <= 1.0:
                raise InputError(f"{what}: got factor {factor}; allowed: 0 < factor <= 1", key=("perturbation",))

    def __bool__(self) -> bool:
        return bool(self.slow or self.links or self.pools)

    def refuse_twice(self) -> None:
        """Raise InputError where one thing is named twice."""
        _refuse_twice("slow", (f"device {each.device}" for each in self.slow), "device")
        _refuse_twice("links", (f"{shown(each.link)} of node {each.node}" for each in self.links), "link")
        _refuse_twice("pools", (f"{each.source}>{each.target}" for each in self.pools), "pool")


HEALTHY = Perturbation()


def _refuse_twice(key: str, named: Iterable[str], what: str) -> None:
    for name, times in Counter(named).items():
        if times > 1:
            raise InputError(f"got {name} twice, allowed: every {what} once", key=("perturbation", key))
