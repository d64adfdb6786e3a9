"""How long a study will take, from sizes alone: nothing is simulated for it."""

from __future__ import annotations

from statistics import fmean
from typing import Final

from simfrontier.errors import SimfrontierError
from simfrontier.forecast import BASE_S, CASE_S, forecast_run
from simfrontier.scenario import scenario_of
from simfrontier.sweep.keys import KeyForms
from simfrontier.sweep.study import Source, SweepStudy

MOST_POINTS: Final = 16  # of a scenario that are looked at
SPREAD: Final = 0.6180339887498949  # the golden ratio's fraction: its multiples lie evenly, whatever the axes' counts
UNITS: Final = (
    ("years", 365.25 * 86_400.0),
    ("days", 86_400.0),
    ("hours", 3_600.0),
    ("minutes", 60.0),
)


def seconds_of(study: SweepStudy) -> float:
    """CPU seconds of all points of a study before filters: of some of each scenario, and as many times as long as there
    are points."""
    each = study.count // len(study.sources)
    if not each:
        return 0.0
    few = each <= MOST_POINTS
    places = range(each) if few else [int(each * (number * SPREAD % 1.0)) for number in range(MOST_POINTS)]
    return sum(each * fmean(_point_s(study, source, place) for place in places) for source in study.sources.values())


def _point_s(study: SweepStudy, source: Source, place: int) -> float:
    try:
        settings = KeyForms().put({**study.settings, **study.settings_at(place)})
        scenario = scenario_of(source.document, source.path, settings)
        return forecast_run(scenario, study.file.fidelity, vary=False, trouble=False).seconds - BASE_S
    except SimfrontierError:  # it is refused, or not as it is taken here: what any plan takes at the least
        return CASE_S * len(source.scenario.plans) * len(source.scenario.file.run.devices)


def time_words(seconds: float) -> str:
    """A time as people say it, such as `3 hours`."""
    for unit, each in UNITS:
        if seconds >= 2 * each:
            return f"{seconds / each:,.0f} {unit}"
    return "a second" if seconds < 1.5 else f"{seconds:,.0f} seconds"
