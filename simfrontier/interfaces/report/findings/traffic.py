"""Utilisation of an average node's links by class, at the largest size."""

from __future__ import annotations

from dataclasses import dataclass

from simfrontier.answers.step import LinkLoad, NodeLinks
from simfrontier.core.machine import Machine
from simfrontier.interfaces.report.view import StudyView


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkClassLoad:
    """The directed links of one class in an average node: how many (0: the links between groups of nodes), their
    nominal rate, bytes per step and utilisation (0 to 1) on average, idle links too, and the busiest."""

    link_class: str
    num_links: int
    bytes_per_s: float
    mean_bytes: float
    mean_utilisation: float
    busiest: LinkLoad | None


def link_loads(view: StudyView) -> dict[str, tuple[LinkClassLoad, ...]]:
    """The links of a node by class, of each plan that fits."""
    machine = view.scenario.machine
    return {
        o.plan: tuple(each for name in machine.link_classes if (each := _load(machine, name, o.links)))
        for o in view.drawn
        if o.links is not None and o.row["fits"]
    }


def _load(machine: Machine, name: str, loads: NodeLinks) -> LinkClassLoad | None:
    links = [link for link in loads.links if link.link_class == name]
    if not links and name not in loads.by_class:
        return None
    carried, busy = loads.by_class.get(name, (0.0, 0.0))
    if links:
        carried = sum(link.num_bytes for link in links) / len(links)
        busy = sum(link.utilisation for link in links) / len(links)
    return LinkClassLoad(
        link_class=name,
        num_links=len(links),
        bytes_per_s=machine.link_classes[name].bytes_per_s,
        mean_bytes=carried,
        mean_utilisation=busy,
        busiest=max(links, key=lambda link: link.utilisation, default=None),
    )
