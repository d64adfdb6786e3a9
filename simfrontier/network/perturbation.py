"""What is wrong with a machine today: slow devices, degraded links, degraded global pools."""

import math
from collections.abc import Mapping
from dataclasses import field

from simfrontier.errors import InputError
from simfrontier.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbation:
    """Factors in (0, 1] on the speed of devices and on the capacity of links; everything else is healthy.

    slow    device -> factor on its compute speed
    links   (node, link name) -> factor on that link's capacity; names as Fabric.link_named takes them
    pools   (source group, destination group) -> factor on the global pool between two dragonfly groups
    """

    slow: Mapping[int, float] = field(default_factory=dict)
    links: Mapping[tuple[int, str], float] = field(default_factory=dict)
    pools: Mapping[tuple[int, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        factors: list[tuple[str, float]] = [(f"slow device {device}", f) for device, f in self.slow.items()]
        factors += [(f"link {name!r} of node {node}", f) for (node, name), f in self.links.items()]
        factors += [(f"global pool {a}>{b}", f) for (a, b), f in self.pools.items()]
        for what, factor in factors:
            if not (math.isfinite(factor) and 0.0 < factor <= 1.0):
                raise InputError(f"{what}: got factor {factor}; allowed: 0 < factor <= 1", key=("perturbation",))
