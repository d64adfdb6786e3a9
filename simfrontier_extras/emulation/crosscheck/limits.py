"""Limits on the differences between an emulated run and its simulation, and the differences seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from simfrontier.core.trace import CrossCheck, step_times
from simfrontier_extras.emulation.crosscheck.links import WITHIN, LinkCheck
from simfrontier_extras.emulation.crosscheck.slowed import SlowLinkEffect
from simfrontier_extras.emulation.crosscheck.sweep import ALLOWED, SweepPoint, sweep_medians

STEP_WITHIN: Final = 0.15
CHANGED_WITHIN: Final = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementLimit:
    """One limit; `seen` and `allowed` are relative differences (None where it is a yes or no)."""

    what: str
    allowed: float | None
    seen: float | None
    holds: bool


def limits_of(
    check: CrossCheck, links: Sequence[LinkCheck], sweep: Sequence[SweepPoint], slowed: Sequence[SlowLinkEffect]
) -> tuple[AgreementLimit, ...]:
    """The limits of an emulated run: that both sides did the same, bytes of links, collectives alone,
    steps and their order, and what a slowed link does."""
    return (*_operations(check), *_links(links), *_collectives(sweep), *_steps(check), *_slowed(slowed))


def _operations(check: CrossCheck) -> Iterator[AgreementLimit]:
    same = check.verdict.is_exact and not check.only_sim and not check.only_real
    yield AgreementLimit(what="the same operations ran in both", allowed=None, seen=None, holds=same)


def _links(links: Sequence[LinkCheck]) -> Iterator[AgreementLimit]:
    judged = [pair.apart for each in links for pair in each.judged]
    if judged:
        num_missed = sum(each.num_missed for each in links)
        what = f"bytes of {len(judged)} link directions, the worst"
        yield AgreementLimit(what=what, allowed=WITHIN, seen=max(judged), holds=not num_missed)
    else:
        what = "bytes of links were counted" + (", none enough to judge" if links else "")
        yield AgreementLimit(what=what, allowed=None, seen=None, holds=bool(links))


def _collectives(sweep: Sequence[SweepPoint]) -> Iterator[AgreementLimit]:
    for each in sweep_medians(sweep):
        kind = each.kind.replace("_", "-")
        yield AgreementLimit(
            what=f"{kind} over {each.group}, {each.collectives}",
            allowed=ALLOWED[each.collectives],
            seen=each.apart,
            holds=each.is_near,
        )


def _steps(check: CrossCheck) -> Iterator[AgreementLimit]:
    for each in check.comparisons:
        apart = abs(step_times(each).ratio - 1.0)
        yield AgreementLimit(what=f"step of {each.plan}", allowed=STEP_WITHIN, seen=apart, holds=apart <= STEP_WITHIN)
    if len(check.comparisons) > 1:
        yield AgreementLimit(
            what="the plans rank alike", allowed=None, seen=None, holds=check.verdict.ranking != "differ"
        )


def _slowed(slowed: Sequence[SlowLinkEffect]) -> Iterator[AgreementLimit]:
    """Both must be slower by more than steps may be apart, and by factors that are as near as steps must be; a step in
    which a link was slowed for a while must take the time that was simulated."""
    for each in slowed:
        within = STEP_WITHIN if each.begin_s is None else CHANGED_WITHIN
        shown = min(each.sim_effect, each.real_effect) > 1.0 + STEP_WITHIN
        what = f"{each.what} with {each.condition}"
        yield AgreementLimit(what=what, allowed=within, seen=each.apart, holds=shown and each.apart <= within)
