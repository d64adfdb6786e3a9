"""The sections of a cross-check on an emulated run: its limits, and the effect of a slowed link."""

from __future__ import annotations

from collections.abc import Sequence

from simfrontier.report.markup import paragraph, section, table, text
from simfrontier.report.phrases import number, percent, quantity
from simfrontier.trace import AgreementLimit, SlowLinkEffect


def limits_section(limits: Sequence[AgreementLimit]) -> str:
    """Every limit, what was allowed and what was seen; empty where there is none."""
    if not limits:
        return ""
    rows = [
        [
            text(each.what),
            percent(each.allowed),
            percent(each.seen),
            "yes" if each.holds else '<span class="no">no</span>',
        ]
        for each in limits
    ]
    return section(
        "limits", "What it is held to", paragraph(limits_words(limits), "callout"), table(_HEAD, rows, "named")
    )


_HEAD = ["", "allowed apart", "seen", "holds"]


def limits_words(limits: Sequence[AgreementLimit]) -> str:
    """How many hold, and which do not."""
    missed = [each.what for each in limits if not each.holds]
    if not missed:
        return f"All {len(limits)} limits of the emulated run hold."
    return f"{len(limits) - len(missed)} of {len(limits)} limits hold; missed: {'; '.join(missed)}."


def slowed_section(effects: Sequence[SlowLinkEffect]) -> str:
    """The effects of slowed links, as factors on times; empty where no link was slowed."""
    if not effects:
        return ""
    rows = [
        [
            text(each.what),
            quantity(each.sim_s, "s"),
            quantity(each.sim_slowed_s, "s"),
            f"× {number(each.sim_effect)}",
            quantity(each.real_s, "s"),
            quantity(each.real_slowed_s, "s"),
            f"× {number(each.real_effect)}",
        ]
        for each in effects
    ]
    first = effects[0]
    message = (
        f"The same schedules with {first.link} at {first.factor:g} of its rate, simulated and emulated: what the link "
        "carries takes longer in both."
    )
    head = ["", "simulated", "slowed", "", "real", "slowed", ""]
    return section("slowed", "One link slowed", paragraph(message), table(head, rows, "named"))
