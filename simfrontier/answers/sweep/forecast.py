"""How long a study will take, from sizes alone: nothing is simulated for it."""

from __future__ import annotations

from statistics import fmean
from typing import Final

from simfrontier.answers.forecast import CASE_S, forecast_run
from simfrontier.answers.sweep.keys import put
from simfrontier.answers.sweep.study import Source, SweepStudy
from simfrontier.base.errors import SimfrontierError
from simfrontier.inputs.scenario import scenario_of

MOST_POINTS: Final = 16  # of a scenario that are looked at
SPREAD: Final = 0.6180339887498949  # the golden ratio's fraction: its multiples lie evenly, whatever the axes' counts


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
        settings = put({**study.settings, **study.settings_at(place)})
        scenario = scenario_of(source.document, source.path, settings)
        return forecast_run(scenario, study.file.fidelity, vary=False, trouble=False).seconds
    except SimfrontierError:  # it is refused, or not as it is taken here: what any plan takes at the least
        return CASE_S * len(source.scenario.plans) * len(source.scenario.file.run.devices)
