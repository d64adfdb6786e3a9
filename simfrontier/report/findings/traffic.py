"""What moves in a step, by boundary of the machine, and how full the links of a node are, at the largest size."""

from __future__ import annotations

from collections.abc import Mapping

from simfrontier.analysis import LinkLoad
from simfrontier.machine import Machine
from simfrontier.records import dataclass
from simfrontier.report.view import StudyView
from simfrontier.study import PlanOutcome

PARTS = ("package", "intra_node", "inter_node", "scales", "padding", "fallback", "persisted")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTraffic:
    """Bytes per step of one plan, summed over the machine, by the columns `bytes_…` of results.csv; and its links,
    where it fits."""

    plan: str
    fits: bool
    sent_bytes: Mapping[str, float]
    links: tuple[LinkClassLoad, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The traffic of all plans, in the scenario's order."""

    device_word: str
    devices: int
    machine: str
    plans: tuple[PlanTraffic, ...]


def traffic_of(view: StudyView) -> Traffic:
    """What moves in a step of each plan of a study."""
    machine = view.scenario.machine
    return Traffic(
        device_word=view.device,
        devices=view.largest,
        machine=machine.title,
        plans=tuple(
            PlanTraffic(
                plan=o.plan,
                fits=bool(o.row["fits"]),
                sent_bytes={part: float(o.row[f"bytes_{part}"]) for part in PARTS},
                links=_classes(machine, o),
            )
            for o in view.drawn
        ),
    )


def _classes(machine: Machine, outcome: PlanOutcome) -> tuple[LinkClassLoad, ...] | None:
    if outcome.links is None or not outcome.row["fits"]:
        return None
    made = []
    for name, kind in machine.link_classes.items():
        links = [link for link in outcome.links.links if link.link_class == name]
        if not links and name not in outcome.links.by_class:
            continue
        carried, busy = outcome.links.by_class.get(name, (0.0, 0.0))
        if links:
            carried = sum(link.num_bytes for link in links) / len(links)
            busy = sum(link.utilisation for link in links) / len(links)
        made.append(
            LinkClassLoad(
                link_class=name,
                num_links=len(links),
                bytes_per_s=kind.bytes_per_s,
                mean_bytes=carried,
                mean_utilisation=busy,
                busiest=max(links, key=lambda link: link.utilisation, default=None),
            )
        )
    return tuple(made)
