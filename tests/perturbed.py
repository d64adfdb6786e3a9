"""Perturbations in short, for tests."""

from collections.abc import Mapping

from simfrontier.core.machine import DegradedLink, DegradedPool, Perturbation, SlowDevice


def perturbed(
    slow: Mapping[int, float] | None = None,
    links: Mapping[tuple[int, str], float] | None = None,
    pools: Mapping[tuple[int, int], float] | None = None,
) -> Perturbation:
    """Factors by device, by node and name of a link, and by the two groups of a global pool."""
    return Perturbation(
        slow=tuple(SlowDevice(device=device, factor=factor) for device, factor in (slow or {}).items()),
        links=tuple(DegradedLink(node=node, link=name, factor=f) for (node, name), f in (links or {}).items()),
        pools=tuple(DegradedPool(source=a, target=b, factor=factor) for (a, b), factor in (pools or {}).items()),
    )
