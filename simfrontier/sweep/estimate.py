"""How long a study will take, from sizes alone: nothing is simulated for it."""

from __future__ import annotations

from typing import Final

from simfrontier.errors import SimfrontierError
from simfrontier.forecast import BASE_S, CASE_S, forecast_run
from simfrontier.scenario import scenario_of
from simfrontier.sweep.keys import KeyForms
from simfrontier.sweep.study import Source, SweepStudy

UNITS: Final = (
    ("years", 365.25 * 86_400.0),
    ("days", 86_400.0),
    ("hours", 3_600.0),
    ("minutes", 60.0),
)


def seconds_of(study: SweepStudy) -> float:
    """CPU seconds of all points of a study before filters, each taken to be as long as the first of its scenario."""
    each = study.count // len(study.sources)
    return sum(each * _point_s(study, source) for source in study.sources.values())


def _point_s(study: SweepStudy, source: Source) -> float:
    first = {key: value for axis in study.axes for key, value in zip(axis.keys, axis.at(0), strict=True)}
    try:
        settings = KeyForms().put({**study.settings, **first})
        scenario = scenario_of(source.document, source.path, settings)
        return forecast_run(scenario, study.file.fidelity, vary=False, trouble=False).seconds - BASE_S
    except SimfrontierError:  # the first is refused: of the others, what any plan takes at the least
        return CASE_S * len(source.scenario.plans) * len(source.scenario.file.run.devices)


def time_words(seconds: float) -> str:
    """A time as people say it, such as `3 hours`."""
    for unit, each in UNITS:
        if seconds >= 2 * each:
            return f"{seconds / each:,.0f} {unit}"
    return "a second" if seconds < 1.5 else f"{seconds:,.0f} seconds"
