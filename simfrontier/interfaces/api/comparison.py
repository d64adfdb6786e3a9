"""Comparison of plans in Python: table, charts, page, and a summary with a chart in a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

from simfrontier.answers.study import PlanOutcome, Study
from simfrontier.base.errors import InputError, nearest
from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.report import Findings, StudyView, findings_of, headline_of

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

Kind = Literal["rate", "step_time", "efficiency", "breakdown", "traffic", "memory", "timeline"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Every plan of a scenario at every size, simulated. `view`: the study with its variations, if any."""

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
        """Outcomes of all plans and sizes."""
        return self.study.outcomes

    @cached_property
    def findings(self) -> Findings:
        """Contents of the page as typed values, as in findings.json."""
        return findings_of(self.view)

    @property
    def verdict(self) -> str:
        """One sentence: the fastest plan at the largest size and its lead, or that it is too close to call."""
        from simfrontier.interfaces.report import verdict

        return verdict(headline_of(self.view))

    def frame(self) -> pd.DataFrame:
        """Return a row per plan and size with the columns of results.csv (seconds, bytes, TFLOPS per device). Columns
        without a suffix are medians; NaN if a plan does not fit into memory."""
        return self.study.frame()

    def figure(self, kind: Kind = "rate", plan: str | None = None) -> go.Figure:
        """Return one of the page's charts as a plotly figure.

        rate (tokens per second and device), step_time and efficiency: lines against devices, with 90 % intervals;
        breakdown and traffic: bars of the parts of a step (s) and of the bytes sent, at the largest size; memory and
        timeline: of one `plan` (default: the fastest) at the largest size.
        """
        import plotly.graph_objects as go

        from simfrontier.interfaces.report import chart

        if kind not in get_args(Kind):
            raise InputError(f"figure {kind!r}: {nearest(kind, get_args(Kind))}")
        return go.Figure(chart(self.view, kind, self._drawn(plan)), layout_template="plotly_white")

    def timeline(self, plan: str | None = None) -> go.Figure:
        """Return the timeline of a step of a plan (default: the fastest) at the largest size, stream by stream."""
        return self.figure("timeline", plan)

    def to_html(self) -> str:
        """Return the whole page, as index.html of `simfrontier run` (some 4 MB; needs no network)."""
        from simfrontier.interfaces.report import study_page

        return study_page(self.findings, self.view)

    def to_svg(self) -> str:
        """Return the chart of rates as SVG on white."""
        from simfrontier.interfaces.report import scaling_drawing

        view = self.view
        return scaling_drawing(view.rows, view.marks, view.device, view.rate_unit, paper="#ffffff")

    def __repr__(self) -> str:
        from simfrontier.interfaces.report import summary_text

        return summary_text(headline_of(self.view), self.view)

    def _repr_html_(self) -> str:
        from simfrontier.interfaces.report import summary_html

        return summary_html(headline_of(self.view), self.view)

    def _drawn(self, plan: str | None) -> PlanOutcome:
        """Return the outcome of a plan (default: the fastest) at the largest size."""
        if plan is None:
            return (self.view.ranked or self.view.drawn)[0]
        for outcome in self.view.drawn:
            if outcome.plan == plan:
                return outcome
        raise InputError(f"plan {plan!r}: {nearest(plan, self.view.plans)}")
