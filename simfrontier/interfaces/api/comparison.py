"""Comparison of plans in Python: all simulations of a scenario, with table, charts, page and summary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

from simfrontier.answers.experiments import Environment, RowRunner, Sensitivity
from simfrontier.answers.search import GridSearcher, TriedGrid
from simfrontier.answers.slowdown import Slowdown, num_slowdowns
from simfrontier.answers.study import PlanOutcome, ScheduleCache, Study, run_study
from simfrontier.base.errors import InputError, SimfrontierError, nearest
from simfrontier.base.workers import HERE, PerProcess, Place, Workers, for_calls
from simfrontier.core.engine import Fidelity
from simfrontier.inputs.scenario import Scenario, refuse_variations
from simfrontier.interfaces.api import given
from simfrontier.interfaces.report.answer import summary_frame
from simfrontier.interfaces.report.headline import headline_of
from simfrontier.interfaces.report.results import Findings, findings_of
from simfrontier.interfaces.report.study_page import study_page
from simfrontier.interfaces.report.summary import chart, scaling_drawing, summary_html, summary_text, verdict
from simfrontier.interfaces.report.view import StudyView

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


def num_simulations(scenario: Scenario, vary: bool, trouble: bool = True) -> int:
    """Return the number of times that `view_of` calls its `progress`."""
    sizes, table = scenario.file.run.devices, scenario.file.sensitivity
    total = len(scenario.plans) * len(sizes) + sum(len(scenario.at(size).searches) for size in sizes)
    total += _num_slowdowns(scenario, trouble)
    if not vary:
        return total
    return total + _num_varied(scenario) + (len(table.required) if table else 0) + 1  # other environments


def _num_slowdowns(scenario: Scenario, trouble: bool) -> int:
    if not trouble or scenario.file.slowdown is None:
        return 0
    return num_slowdowns(scenario)


def _num_varied(scenario: Scenario) -> int:
    table = scenario.file.sensitivity
    return len(table.sizes) * sum(len(each.values) for each in table.vary) if table else 0


def _most_at_once(scenario: Scenario, vary: bool, trouble: bool) -> int:
    """Return the largest number of simulations that can run at the same time because none needs the result of
    another."""
    cases = len(scenario.plans) * len(scenario.file.run.devices)
    varied = _num_varied(scenario) if vary else 0
    return max(cases, varied, _num_slowdowns(scenario, trouble))


def _runner(schedules: PerProcess[ScheduleCache]) -> RowRunner:
    return RowRunner(searcher=GridSearcher(schedule_cache=schedules.here))


def view_of(
    scenario: Scenario,
    fidelity: Fidelity | None = None,
    exact: bool = False,
    vary: bool = True,
    place: Place = HERE,
    progress: Callable[[str], None] = lambda _: None,
    trouble: bool = True,
    drawn: bool = True,
) -> StudyView:
    """Simulate all plans of a scenario at all sizes and return the results. `vary`: also simulate the scenario's
    variations of unknown settings, and other environments; `trouble`: also simulate the degraded components of the
    scenario's table `slowdown`; `drawn`: keep what charts need. `progress` is called with a short text as each
    simulation ends. Raises as `api.simulate`."""
    if vary:
        refuse_variations(scenario)
    sizes = scenario.file.run.devices
    schedules = PerProcess(ScheduleCache)
    runner = PerProcess(_runner, schedules)
    tried: dict[tuple[str, int], tuple[TriedGrid, ...]] = {}
    if any(scenario.at(size).searches for size in sizes):
        searcher = GridSearcher(schedule_cache=schedules.here)
        scenario, tried = searcher.complete(scenario, progress), searcher.tried
    sensitivity: Sensitivity | None = None
    environment: Environment | None = None
    slowdown: Slowdown | None = None
    with Workers(for_calls(place, _most_at_once(scenario, vary, trouble))) as workers:
        study = run_study(scenario, fidelity, exact, progress, workers, schedules, drawn)
        if vary and scenario.file.sensitivity is not None:
            from simfrontier.answers.experiments import run_sensitivity

            sensitivity = run_sensitivity(scenario, study.fidelity, progress, workers, runner)
        if vary:
            from simfrontier.answers.experiments import environment_of

            environment = environment_of(scenario, max(sizes), study.fidelity, workers, runner)
            progress("other environments")
        if trouble and scenario.file.slowdown is not None:
            from simfrontier.answers.slowdown import run_slowdown

            slowdown = run_slowdown(scenario, study.fidelity, progress, workers, schedules)
    return StudyView(study=study, sensitivity=sensitivity, environment=environment, slowdown=slowdown, searches=tried)


Kind = Literal["rate", "step_time", "efficiency", "breakdown", "traffic", "memory", "timeline"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Results of every plan of a scenario at every size, as `compare` returns them.

    Read `verdict` (a sentence), `summary()` (the answer as a DataFrame), `frame()` (all columns), `figure()` and
    `timeline()` (plotly), `to_html()` and `to_svg()`; a notebook displays sentence, table and chart. `view`: the study
    with its variations, if any.
    """

    view: StudyView

    @property
    def scenario(self) -> Scenario:
        """The scenario that was simulated."""
        return self.view.scenario

    @property
    def study(self) -> Study:
        """The study: outcomes in the scenario's order of plans, then sizes."""
        return self.view.study

    @property
    def outcomes(self) -> tuple[PlanOutcome, ...]:
        """The outcome of each plan at each size."""
        return self.study.outcomes

    @cached_property
    def findings(self) -> Findings:
        """The values shown on the page, typed, as in findings.json."""
        return findings_of(self.view)

    @property
    def verdict(self) -> str:
        """One sentence: the fastest plan at the largest size and its lead, or that it is too close to call."""
        return verdict(headline_of(self.view))

    def frame(self) -> pd.DataFrame:
        """Return a row per plan and size with the columns of results.csv (seconds, bytes, TFLOPS per device). Columns
        without a suffix are medians; NaN if a plan does not fit into memory."""
        return self.study.frame()

    def summary(self) -> pd.DataFrame:
        """Return the answer as printed by `simfrontier compare`, a row per plan and size: plan, devices, grid, software
        stack, tokens per second and device with both ends of its 90 % interval (`_low`, `_high`), step time (s), TFLOPS
        per device and MFU (of the model's operations, without recomputation), peak memory and memory of a device
        (bytes). NaN if a plan does not fit into memory."""
        return summary_frame(self.view)

    def figure(self, kind: Kind = "rate", plan: str | None = None) -> go.Figure:
        """Return one of the page's charts as a plotly figure.

        `kind`: "rate" (tokens per second and device), "step_time" and "efficiency" are lines against the number of
        devices, with 90 % of the samples; "breakdown" and "traffic" are bars of the parts of a step (s) and of the
        bytes sent, at the largest size; "memory" and "timeline" show one `plan` (default: the fastest) at the largest
        size.
        """
        import plotly.graph_objects as go

        if kind not in get_args(Kind):
            raise InputError(f"figure {kind!r}: {nearest(str(kind), get_args(Kind))}")
        drawn = self._drawn(given.name(plan))
        needed = [drawn] if kind == "timeline" else self.outcomes
        if kind not in ("memory", "traffic") and not any(each.row["fits"] for each in needed):
            what = f"{drawn.plan} does not fit" if kind == "timeline" else "no plan fits"
            raise SimfrontierError(f"figure {kind!r}: {what} into memory; allowed: memory, traffic")
        return go.Figure(chart(self.view, kind, drawn), layout_template="plotly_white")

    def timeline(self, plan: str | None = None) -> go.Figure:
        """Return the timeline of a step of a plan (default: the fastest) at the largest size, stream by stream."""
        return self.figure("timeline", plan)

    def to_html(self) -> str:
        """Return the whole page, as index.html of `simfrontier run` (some 4 MB; needs no network)."""
        return study_page(self.findings, self.view)

    def to_svg(self) -> str:
        """Return the chart of rates as SVG on white."""
        view = self.view
        return scaling_drawing(view.rows, view.marks, view.device, view.rate_unit, paper="#ffffff")

    def __repr__(self) -> str:
        return summary_text(headline_of(self.view), self.view)

    def _repr_html_(self) -> str:
        return summary_html(headline_of(self.view), self.view)

    def _drawn(self, plan: str | None) -> PlanOutcome:
        """Return the outcome of a plan (default: the fastest) at the largest size."""
        if plan is None:
            return (self.view.ranked or self.view.drawn)[0]
        for outcome in self.view.drawn:
            if outcome.plan == plan:
                return outcome
        raise InputError(f"plan {plan!r}: {nearest(plan, self.view.plans)}")
