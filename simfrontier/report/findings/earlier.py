"""Rates of an earlier prediction of a scenario beside those of now, and what was changed in between."""

from __future__ import annotations

from simfrontier.records import dataclass
from simfrontier.report.view import StudyView, rate_among


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRate:
    """TFLOPS per device of a plan then and now; `state`: why there is none now."""

    plan: str
    then: float
    now: float | None
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The rates at one size, in the order of the earlier prediction, and the changes as the scenario tells them."""

    title: str
    devices: int
    rates: tuple[EarlierRate, ...]
    changes: tuple[str, ...]


def earlier_of(view: StudyView) -> Earlier | None:
    """None where the scenario records no earlier prediction, nothing of it was run again, or results are of other
    settings than the scenario's: differences would have other causes than the changes."""
    figures = view.scenario.file.earlier
    if figures is None or view.changed_settings:
        return None
    rates = view.rates_at(figures.devices)
    if rates.keys().isdisjoint(figures.tflops_per_device):
        return None
    made = []
    for plan, then in figures.tflops_per_device.items():
        now, state = rate_among(rates, plan)
        made.append(EarlierRate(plan=plan, then=then, now=now, state=state))
    return Earlier(title=figures.title, devices=figures.devices, rates=tuple(made), changes=tuple(figures.changes))
