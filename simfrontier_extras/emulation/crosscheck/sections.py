"""The sections of an emulated run on the page of a cross-check."""

from __future__ import annotations

from collections.abc import Sequence

from simfrontier.interfaces.report.render import render
from simfrontier_extras.emulation.crosscheck import TEMPLATES
from simfrontier_extras.emulation.crosscheck.fabric_figure import fabric_figure
from simfrontier_extras.emulation.crosscheck.limits import AgreementLimit
from simfrontier_extras.emulation.crosscheck.links import LinkCheck, links_found
from simfrontier_extras.emulation.crosscheck.slowed import SlowLinkEffect
from simfrontier_extras.emulation.crosscheck.sweep import SweepPoint, sweep_medians, swept_ways
from simfrontier_extras.emulation.crosscheck.sweep_figure import ratios_figure


def fabric_section(checks: Sequence[LinkCheck]) -> str:
    """The chart and tables of links, a plan at a time; empty where no plan's bytes per link are known on both sides."""
    if not checks:
        return ""
    full = max((pair.real_bytes for each in checks for pair in each.pairs), default=0.0)
    return render(
        "sections/fabric.html.j2",
        TEMPLATES,
        found=links_found(checks),
        checks={each.plan: each for each in checks},
        figures={each.plan: fabric_figure(each.pairs, full) for each in checks},
    )


def sweep_section(points: Sequence[SweepPoint]) -> str:
    """The chart of collectives that were measured alone, one implementation at a time, and the medians of both; empty
    where nothing was measured."""
    if not points:
        return ""
    ways = swept_ways(points)
    medians = {(each.kind, each.group, each.collectives): each for each in sweep_medians(points)}
    return render(
        "sections/sweep.html.j2",
        TEMPLATES,
        ways=ways,
        figures={way.collectives: ratios_figure(way.collectives, points) for way in ways},
        rows={
            (kind, group): [medians.get((kind, group, way.collectives)) for way in ways]
            for kind, group in dict.fromkeys((point.kind, point.group) for point in points)
        },
        points=points,
    )


def limits_section(limits: Sequence[AgreementLimit]) -> str:
    """Every limit, what was allowed and what was seen; empty where there is none."""
    return render("sections/limits.html.j2", TEMPLATES, limits=limits, words=limits_words(limits)) if limits else ""


def slowed_section(effects: Sequence[SlowLinkEffect]) -> str:
    """The effects of slowed links, as factors on times; empty where no link was slowed."""
    return render("sections/slowed.html.j2", TEMPLATES, effects=effects) if effects else ""


def limits_words(limits: Sequence[AgreementLimit]) -> str:
    """Return a sentence on how many limits hold, and which do not."""
    missed = [each.what for each in limits if not each.holds]
    if not missed:
        return f"All {len(limits)} limits of the emulated run hold."
    return f"{len(limits) - len(missed)} of {len(limits)} limits hold; missed: {'; '.join(missed)}."
