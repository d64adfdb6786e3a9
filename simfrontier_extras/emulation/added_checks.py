"""Comparison of an emulated run with its simulation, from the files written next to the traces."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from simfrontier.base.errors import InputError
from simfrontier.core.trace import (
    SHOWN_DIGITS,
    AddedCheck,
    AddedCheckReader,
    Comparison,
    CrossCheck,
    TracePaths,
    load_links,
)
from simfrontier.interfaces.report.phrases import percent, signed
from simfrontier.interfaces.report.render import said
from simfrontier_extras.emulation import TEMPLATES
from simfrontier_extras.emulation.limits import (
    EMULATED,
    AgreementLimit,
    EmulatedRun,
    LinkCheck,
    LinkPair,
    LinksFound,
    SlowLinkEffect,
    SweepPoint,
    compare_links,
    limits_of,
    links_found,
    load_run,
    sweep_medians,
    swept_ways,
)
from simfrontier_extras.emulation.sections import fabric_section, limits_section, slowed_section, sweep_section

_said = partial(said, "emulated", folder=TEMPLATES)


@dataclass(frozen=True, kw_only=True)
class EmulatedCheck(AddedCheck):
    """Results of an emulated run in addition to the comparison of its operations; all empty for any other run.

    `links`: plans whose bytes per link are known for simulation and run; `only_counted`: plans whose bytes are only
    known for the run; `sweep`: collectives measured alone; `slowed`: effects of a slowed link.
    """

    operations: CrossCheck
    links: tuple[LinkCheck, ...] = ()
    only_counted: tuple[str, ...] = ()
    sweep: tuple[SweepPoint, ...] = ()
    slowed: tuple[SlowLinkEffect, ...] = ()

    @cached_property
    def links_found(self) -> LinksFound | None:
        return links_found(self.links) if self.links else None

    @cached_property
    def limits(self) -> tuple[AgreementLimit, ...]:
        """The limits of an emulated run."""
        return tuple(limits_of(self.operations, self.links, self.sweep, self.slowed))

    @cached_property
    def limits_told(self) -> tuple[AgreementLimit, ...]:
        """The limits to display: none if no collectives were measured alone, as in a run without emulation."""
        return self.limits if self.sweep else ()

    @property
    def fault(self) -> str:
        return "the bytes of links" if any(each.num_missed for each in self.links) else ""

    @property
    def remark(self) -> str:
        missed = sum(not limit.holds for limit in self.limits_told)
        return f"{missed} of {len(self.limits_told)} limits of the emulated run" if missed else ""

    def sentences(self) -> list[str]:
        return _said("findings", self.links_found, self.only_counted, swept_ways(self.sweep))

    def cards(self) -> list[tuple[str, str, str]]:
        found = self.links_found
        if found is None or found.worst is None:
            return []
        allowed = f"{found.worst.name}; {percent(found.within)} allowed"
        return [(signed(found.worst.ratio - 1), "counted on the worst link", allowed)]

    def document(self) -> dict[str, Any]:
        return {"links": self._links_document(), "sweep": self._sweep_document()}

    def sections(self) -> dict[str, tuple[str, str]]:
        return {
            "limits": ("Limits", limits_section(self.limits_told)),
            "links": ("Links", fabric_section(self.links)),
            "sweep": ("Message sizes", sweep_section(self.sweep)),
            "slowed": ("A slowed link", slowed_section(self.slowed)),
        }

    def _links_document(self) -> dict[str, Any] | None:
        if self.links_found is None:
            return None
        plans = {
            each.plan: {
                "num_judged": len(each.judged),
                "num_missed": each.num_missed,
                "worst": _link_document(each.judged[0]) if each.judged else None,
                "links": [_link_document(pair) for pair in each.pairs],
            }
            for each in self.links
        }
        return {"said": "".join(_said("links", self.links_found)), "plans": plans}

    def _sweep_document(self) -> dict[str, Any] | None:
        if not self.sweep:
            return None
        return {
            "said": "".join(_said("swept", swept_ways(self.sweep))),
            "medians": [asdict(each) | {"near": each.is_near} for each in sweep_medians(self.sweep)],
            "points": [point.model_dump() | {"ratio": point.ratio} for point in self.sweep],
        }


def read_emulated(check: CrossCheck, paths: TracePaths) -> EmulatedCheck:
    """Read the files next to the traces of a cross-check. Raises InputError for a file that cannot be read, or links of
    another schedule."""
    links = {each.plan: _links(each, *paths.of_plan[each.plan]) for each in check.comparisons}
    counted = [plan for plan, each in links.items() if each is None and _beside(paths.of_plan[plan][1], plan).exists()]
    beside = paths.real / EMULATED
    run = load_run(beside) if beside.exists() else EmulatedRun()
    return EmulatedCheck(
        operations=check,
        links=tuple(each for each in links.values() if each is not None),
        only_counted=tuple(counted),
        sweep=run.sweep,
        slowed=run.slowed,
    )


def _beside(trace: Path, plan: str) -> Path:
    return trace.with_name(f"links-{plan}.json")


def _links(comparison: Comparison, sim: Path, real: Path) -> LinkCheck | None:
    """Return the comparison of a plan's bytes per link; None unless both traces have a file of bytes per link next to
    them."""
    sim_links, real_links = (_beside(trace, comparison.plan) for trace in (sim, real))
    if not (sim_links.exists() and real_links.exists()):
        return None
    tables = load_links(sim_links), load_links(real_links)
    for path, table in zip((sim_links, real_links), tables, strict=True):
        if table.digest != comparison.sim.digest:
            raise InputError(
                f"the links are of the schedule {table.digest[:SHOWN_DIGITS]}, the trace beside them of "
                f"{comparison.sim.digest[:SHOWN_DIGITS]}; allowed: both of one schedule",
                where=str(path),
            )
    return compare_links(comparison.plan, *tables)


def _link_document(pair: LinkPair) -> dict[str, Any]:
    return asdict(pair) | {"ratio": pair.ratio, "judged": pair.is_judged, "missed": pair.is_missed}


ADDS = (AddedCheckReader(read=read_emulated),)
