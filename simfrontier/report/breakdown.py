"""Where a step's time goes: kernels, communication that they do not hide, by level, and the rest."""

from __future__ import annotations

from dataclasses import dataclass

from simfrontier.report.markup import Figure, keyed, paragraph, plot, section, table
from simfrontier.report.phrases import TOO_BIG, percent, quantity
from simfrontier.report.theme import CODEC, COMPUTE, IDLE, LEVEL_COLOURS, LEVEL_NAMES, axis, figure
from simfrontier.report.view import StudyView, step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPart:
    """A part of a step (a field of `Exposure`): its name in a legend, in a narrow column, and its colour."""

    name: str
    short: str
    colour: str


def _part(name: str, colour: str) -> StepPart:
    return StepPart(name=name, short=name, colour=colour)


PARTS = {
    "compute": _part("compute", COMPUTE),
    **{
        level: StepPart(name=f"exposed, {LEVEL_NAMES[level]}", short=LEVEL_NAMES[level], colour=colour)
        for level, colour in LEVEL_COLOURS.items()
    },
    "codec": _part("codec and reordering", CODEC),
    "idle": _part("idle", IDLE),
}
_BUBBLE = " In a pipeline, a rank that waits for other stages is idle: that is the bubble."
_BESIDE = " With exchanges on lanes of their own, waiting counts as exposed until the exchange ends, and not as idle."


def breakdown(view: StudyView) -> str:
    """The section: bars for every size, and the numbers at the largest."""
    figures = {f"{size:,}": bars(view, size) for size in reversed(view.sizes)}
    return section(
        "time",
        "Where a step’s time goes",
        paragraph(
            "On the critical rank, the one that ends last. A moment belongs to compute if a kernel of the compute "
            "lane runs; otherwise to the farthest communication that the rank is in or waits for; otherwise to "
            "encoding and reordering; otherwise it is idle. The mark is the lower bound that no order of these "
            f"operations can beat.{_of_pipelines(view)} Buttons: {view.devices}."
        ),
        plot("fig-time", figures, "Time of a step by what it is spent on, per plan"),
        f"<h3>Shares at {view.largest:,} {view.devices}</h3>",
        _table(view),
    )


def _of_pipelines(view: StudyView) -> str:
    """What waiting for other stages counts as, where there are stages."""
    plans = [view.cases[o.plan, o.devices].plan.pipeline for o in view.piped]
    beside = any(pipeline is not None and pipeline.overlap for pipeline in plans)
    return f"{_BUBBLE if plans else ''}{_BESIDE if beside else ''}"


def bars(view: StudyView, size: int) -> Figure:
    """Stacked horizontal bars of one size, the scenario's first plan on top."""
    outcomes = view.at(size)
    labels = [o.plan if o.row["fits"] else f"{o.plan}<br>({TOO_BIG})" for o in outcomes]
    longest = max((step_s(o) for o in outcomes if o.row["fits"]), default=1.0)
    scale, unit = (1.0, "s") if longest >= 1.0 else (1e3, "ms")
    traces: list[dict[str, object]] = []
    for key, part in PARTS.items():
        values = [scale * float(getattr(o.exposure, key)) if o.row["fits"] else None for o in outcomes]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": part.name,
                "y": labels,
                "x": values,
                "marker": {"color": part.colour},
                "hovertemplate": f"<b>%{{y}}</b><br>{part.name}: %{{x:.4~g}} {unit}<extra></extra>",
            }
        )
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "lower bound",
            "y": labels,
            "x": [scale * float(o.row["bound_s"]) if o.row["fits"] else None for o in outcomes],
            "marker": {
                "symbol": "line-ns-open",
                "size": 22,
                "color": "#111111",
                "line": {"width": 2.5, "color": "#111111"},
            },
            "hovertemplate": f"<b>%{{y}}</b><br>lower bound: %{{x:.4~g}} {unit}<extra></extra>",
        }
    )
    rows = {"autorange": "reversed", "type": "category", "categoryorder": "array", "categoryarray": labels}
    height = 150 + 46 * len(outcomes)
    return figure(traces, axis(f"time of one step ({unit})"), axis("", **rows), height, barmode="stack", bargap=0.35)


def _table(view: StudyView) -> str:
    rows = []
    for outcome in view.drawn:
        name = keyed(view.marks[outcome.plan].colour, outcome.plan)
        if not outcome.row["fits"]:
            rows.append([name, f'<span class="no">{TOO_BIG}</span>', *["–"] * (len(PARTS) + 1)])
            continue
        step = step_s(outcome)
        shares = [percent(float(getattr(outcome.exposure, part)) / step) for part in PARTS]
        rows.append([name, quantity(step, "s"), *shares, percent(float(outcome.row["bound_s"]) / step)])
    heads = [keyed(part.colour, part.name) for part in PARTS.values()]
    return table(["plan", "step", *heads, "lower bound"], rows)
