"""A comparison of plans as Python has it: a table, charts, the page; in a notebook's cell a summary with a chart."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

from simfrontier.errors import InputError, nearest
from simfrontier.records import dataclass
from simfrontier.report import Findings, StudyView, findings_of, headline_of
from simfrontier.scenario import Scenario
from simfrontier.study import PlanOutcome, Study

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

Kind = Literal["rate", "step_time", "efficiency", "breakdown", "traffic", "memory", "timeline"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Every plan of a scenario at every size, simulated. `view`: the study, with what was varied if anything was."""

    view: StudyView

    @property
    def scenario(self) -> Scenario:
        """What was simulated."""
        return self.view.scenario

    @property
    def study(self) -> Study:
        """The outcomes, in the scenario's order of plans, then sizes."""
        return self.view.study

    @property
    def outcomes(self) -> tuple[PlanOutcome, ...]:
        """Those of the study."""
        return self.study.outcomes

    @cached_property
    def findings(self) -> Findings:
        """What the page says, as values: findings.json."""
        return findings_of(self.view)

    @property
    def verdict(self) -> str:
        """Which plan is the fastest at the largest size, by how much, or that it is too close to call; one sentence."""
        from simfrontier.report import verdict

        return verdict(headline_of(self.view))

    def frame(self) -> pd.DataFrame:
        """A row per plan and size with the columns of results.csv: seconds, bytes, TFLOPS per device; medians, but for
        columns with a suffix. NaN where a plan does not fit into memory."""
        return self.study.frame()

    def figure(self, kind: Kind = "rate", plan: str | None = None) -> go.Figure:
        """One of the page's charts as a plotly figure.

        rate (tokens per second and device), step_time and efficiency: lines against devices, with 90 % intervals;
        breakdown and traffic: bars of the parts of a step (s) and of the bytes sent, at the largest size; memory and
        timeline: of one `plan` (default: the fastest) at the largest size.
        """
        import plotly.graph_objects as go

        from simfrontier.report import chart

        if kind not in get_args(Kind):
            raise InputError(f"figure {kind!r}: {nearest(kind, get_args(Kind))}")
        return go.Figure(chart(self.view, kind, self._drawn(plan)), layout_template="plotly_white")

    def timeline(self, plan: str | None = None) -> go.Figure:
        """What a rank of a plan (default: the fastest) does over a step at the largest size, lane by lane."""
        return self.figure("timeline", plan)

    def to_html(self) -> str:
        """The whole page, index.html of `simfrontier run`, which needs no network (some 4 MB)."""
        from simfrontier.report import study_page

        return study_page(self.findings, self.view)

    def to_svg(self) -> str:
        """The chart of rates as an SVG, on white, for a paper or a slide."""
        from simfrontier.report import scaling_drawing

        view = self.view
        return scaling_drawing(view.rows, view.marks, view.device, view.rate_unit, paper="#ffffff")

    def __repr__(self) -> str:
        from simfrontier.report import summary_text

        return summary_text(headline_of(self.view), self.view)

    def _repr_html_(self) -> str:
        from simfrontier.report import summary_html

        return summary_html(headline_of(self.view), self.view)

    def _drawn(self, plan: str | None) -> PlanOutcome:
        """The outcome of a plan at the largest size, by default of the fastest."""
        if plan is None:
            return (self.view.ranked or self.view.drawn)[0]
        for outcome in self.view.drawn:
            if outcome.plan == plan:
                return outcome
        raise InputError(f"plan {plan!r}: {nearest(plan, self.view.plans)}")
