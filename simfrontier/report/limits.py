"""The sections of a cross-check on an emulated run: its limits, and the effect of a slowed link."""

from __future__ import annotations

from collections.abc import Sequence

from simfrontier.report.render import render
from simfrontier.trace import AgreementLimit, SlowLinkEffect


def limits_section(limits: Sequence[AgreementLimit]) -> str:
    """Every limit, what was allowed and what was seen; empty where there is none."""
    return render("sections/limits.html.j2", limits=limits, words=limits_words(limits)) if limits else ""


def slowed_section(effects: Sequence[SlowLinkEffect]) -> str:
    """The effects of slowed links, as factors on times; empty where no link was slowed."""
    return render("sections/slowed.html.j2", effects=effects) if effects else ""


def limits_words(limits: Sequence[AgreementLimit]) -> str:
    """How many hold, and which do not."""
    missed = [each.what for each in limits if not each.holds]
    if not missed:
        return f"All {len(limits)} limits of the emulated run hold."
    return f"{len(limits) - len(missed)} of {len(limits)} limits hold; missed: {'; '.join(missed)}."
