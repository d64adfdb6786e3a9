"""How many links of its devices each link class of a machine stands for."""

from __future__ import annotations

from simfrontier.base.errors import InputError
from simfrontier.core.machine import SWITCH, Machine
from simfrontier.core.machine.topology.device_arch import DeviceArch

CLOSE = 1e-6  # relative: a nominal bandwidth is a whole number of links


def links_per_class(machine: Machine, arch: DeviceArch) -> dict[str, int | None]:
    """For each link class that joins two devices, or a device and the node's switch: its bandwidth in links of `arch`;
    None where that is no whole number, so that it is something else (a way through CPUs). Raises InputError for devices
    that are not known and whose links are no whole numbers of the narrowest."""
    rates = {
        link.link_class: link.bytes_per_s
        for link in machine.node.links[: machine.node.num_inside]
        if isinstance(link.src, int) and (isinstance(link.dst, int) or link.dst == SWITCH)
    }
    if not rates:
        return {}
    one = arch.link_bytes_per_s or min(rates.values())
    counts = {name: _whole(rate / one) for name, rate in rates.items()}
    for name, count in counts.items():
        if count is None and arch.link_bytes_per_s is None:
            text = f"link class {name} has {rates[name]:g} bytes/s, no whole number of the narrowest ({one:g})"
            raise InputError(f"{text}; an XML only counts links; allowed: --arch, which says what one carries")
    return counts


def _whole(links: float) -> int | None:
    count = round(links)
    return count if count >= 1 and abs(links - count) <= CLOSE * count else None
