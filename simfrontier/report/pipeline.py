"""Pipelines: every stage's timeline, its bubble, and its memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from simfrontier.analysis import OUTSIDE, Stages, StageSpan
from simfrontier.report.markup import Figure, keyed, panels, paragraph, plot, section, table, text
from simfrontier.report.phrases import percent, quantity
from simfrontier.report.theme import IDLE, MEMORY_COLOURS, axis, figure
from simfrontier.report.view import StudyView

IDLE_NAME = "idle (bubble)"
COLOURS = {"forward": "#3D7EA6", "backward": "#C66B3D", "exchange": "#8E1230", "end": "#7D8B96"}
NAMES = {
    "forward": "forward",
    "backward": "backward, recomputation included",
    "exchange": "exchange with a neighbour",
    "end": "reductions and optimizer",
}
_CLOSED = "(P − 1) / (v M + P − 1)".replace(" ", chr(0xA0))
_OUTSIDE_COLOUR = "#6B5B95"
_BAR, _BESIDE = (0.84, -0.42), (0.16, 0.26)  # width and offset in a lane; exchanges that run beside lie at its foot


def pipeline(view: StudyView) -> str:
    """The section, or nothing where no plan at the largest size is a pipeline."""
    known = {o.plan: o.stages for o in view.piped if o.stages is not None}
    if not known:
        return ""
    first = next((o.plan for o in view.ranked if o.plan in known), next(iter(known)))
    fitting = {o.plan: known[o.plan] for o in view.drawn if o.plan in known and o.row["fits"]}
    capacity = view.scenario.machine.device.hbm_bytes
    return section(
        "pipeline",
        "Pipelines, stage by stage",
        *_in_time(view, fitting, first),
        "<h3>Memory of each stage</h3>",
        paragraph(
            "At each stage’s peak, in the order of its program. Earlier stages hold the activations of more "
            "micro-batches (1F1B); the first and the last hold the embedding and the head beside their layers: their "
            "weights, gradients and optimizer states, and activations such as the logits."
        ),
        plot(
            "fig-stage-memory",
            {plan: memory_bars(each, capacity) for plan, each in known.items()},
            "Memory of each stage by kind",
            first,
        ),
    )


def _in_time(view: StudyView, known: Mapping[str, Stages], first: str) -> Iterator[str]:
    """The timeline and the bubble of plans that fit."""
    if not known:
        yield paragraph(f"No pipeline fits on {view.largest:,} {view.devices}.")
        return
    yield paragraph(
        f"At {view.largest:,} {view.devices}. A lane is a stage, shown by one of its ranks; a bar is a forward or "
        "backward of one micro-batch (its number stands in the bar where there is room), collectives inside the "
        "stage included. Where a lane is grey its rank waits for another stage: the bubble. Where it is white, "
        "after the pipeline, it waits for the norm of the gradients over all stages. Drag to zoom in, "
        "double-click for the whole step; point at a bar for its layers and time."
    )
    yield plot("fig-stages", {plan: lanes(each) for plan, each in known.items()}, "What each stage does when", first)
    yield "<h3>The bubble</h3>"
    yield paragraph(
        "Bubble: the time of a stage that is neither forward, backward nor exchange, as a share of the pipeline’s "
        f"time (from the start of the step to the end of its last backward). In closed form it is {_CLOSED}, with "
        "P stages, M micro-batches and v runs of layers per stage, if all stages take as long and exchanges take "
        "no time. Exchanges on lanes of their own hold no stage up by themselves: waiting for them is bubble "
        "(under “Where a step’s time goes” it is exposed communication until the exchange ends)."
    )
    yield table(*_summary(view, known))
    yield panels({plan: table(*_stages(each)) for plan, each in known.items()}, first)


# ── the timeline ──


def lanes(stages: Stages) -> Figure:
    """A row per stage, one trace per colour; behind them the pipeline's time, grey where nothing covers it."""
    scale, unit = (1.0, "s") if stages.step_s >= 1.0 else (1e3, "ms")
    rows = [stage.stage for stage in stages.stages]
    behind: dict[str, Any] = {
        **_trace(IDLE_NAME, IDLE, _BAR),
        "base": [0.0] * len(rows),
        "x": [round(scale * stages.pipeline_s, 9)] * len(rows),
        "y": rows,
        "hoverinfo": "skip",
    }
    traces = [behind, *_bars(stages, scale)]
    names = {
        "tickvals": rows,
        "ticktext": [f"stage {row}" for row in rows],
        "range": [len(rows) - 0.5, -0.5],
        "fixedrange": True,
    }
    x = axis(f"time since the start of the step ({unit})", range=[0, scale * stages.step_s])
    height = 150 + max(22, min(46, 480 // len(rows))) * len(rows)
    more = {"barmode": "overlay", "dragmode": "zoom", "uniformtext": {"minsize": 8, "mode": "hide"}}
    return figure(traces, x, axis("", **names), height, **more)


def _bars(stages: Stages, scale: float) -> Iterator[dict[str, Any]]:
    for kind, name in NAMES.items():
        for beside in (False, True):
            spans = [
                (stage.stage, span)
                for stage in stages.stages
                for span in stage.spans
                if span.kind == kind and span.beside == beside and span.end_s > span.start_s
            ]
            if not spans:
                continue
            numbered = kind in ("forward", "backward")
            words = {"text": [str(span.micro) for _, span in spans], "textposition": "inside"} if numbered else {}
            yield {
                **_trace(f"{name}, beside the rest" if beside else name, COLOURS[kind], _BESIDE if beside else _BAR),
                "base": [round(scale * span.start_s, 9) for _, span in spans],
                "x": [round(scale * (span.end_s - span.start_s), 9) for _, span in spans],
                "y": [stage for stage, _ in spans],
                "hovertext": [_hover(stage, span) for stage, span in spans],
                "hovertemplate": f"%{{hovertext}}<extra>{name}</extra>",
                **words,
            }


def _trace(name: str, colour: str, place: tuple[float, float]) -> dict[str, Any]:
    width, offset = place
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "width": width,
        "offset": offset,
        "marker": {"color": colour, "line": {"width": 0}},
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"color": "#ffffff", "size": 11},
    }


def _hover(stage: int, span: StageSpan) -> str:
    first, last = span.layers
    of = f", micro-batch {span.micro}" if span.kind != "end" else ""
    layers = ""
    if span.kind in ("forward", "backward"):
        layers = f"<br>layer {first}" if first == last else f"<br>layers {first} to {last}"
    return f"stage {stage}{of}{layers}<br>{quantity(span.end_s - span.start_s, 's')} from {quantity(span.start_s, 's')}"


# ── the bubble ──


def _summary(view: StudyView, known: Mapping[str, Stages]) -> tuple[list[str], Iterable[list[str]]]:
    head = [
        "plan",
        "P stages",
        "M micro-batches",
        "v runs of layers",
        "bubble, mean of stages",
        "closed form",
        "exchanges, mean",
        "pipeline’s part of the step",
    ]
    rows = (
        [
            keyed(view.marks[plan].colour, plan),
            f"{len(each.stages)}",
            f"{each.num_micro}",
            f"{each.chunks}",
            f"<b>{percent(each.bubble)}</b>",
            percent(each.closed_form),
            percent(sum(stage.exchange_s for stage in each.stages) / len(each.stages) / each.pipeline_s),
            percent(each.pipeline_s / each.step_s),
        ]
        for plan, each in known.items()
    )
    return head, rows


def _stages(stages: Stages) -> tuple[list[str], Iterable[list[str]]]:
    head = ["stage", "forwards", "backwards", "exchanges", "bubble", "bubble, share", "closed form", "peak memory"]
    rows = (
        [
            f"stage {stage.stage}" + ("<small>critical rank</small>" if stage.stage == stages.critical else ""),
            quantity(stage.forward_s, "s"),
            quantity(stage.backward_s, "s"),
            quantity(stage.exchange_s, "s"),
            quantity(stage.bubble_s, "s"),
            percent(stage.bubble_s / stages.pipeline_s),
            percent(stages.closed_form),
            quantity(stage.peak_bytes, "bytes"),
        ]
        for stage in stages.stages
    )
    return head, rows


# ── memory ──


def memory_bars(stages: Stages, capacity_bytes: float) -> Figure:
    """A bar per stage, stacked by kind; what is not of a layer on top, below the line of the capacity."""
    most = max(stage.peak_bytes for stage in stages.stages)
    giga, unit = (1e9, "GB") if most >= 1e8 else (1e6, "MB")
    labels = [f"{stage.stage}" for stage in stages.stages]
    colours = {**MEMORY_COLOURS, OUTSIDE: _OUTSIDE_COLOUR}
    traces: list[dict[str, Any]] = [
        {
            "type": "bar",
            "name": kind,
            "x": labels,
            "y": [stage.held.get(kind, 0) / giga for stage in stages.stages],
            "marker": {"color": colour},
            "hovertemplate": f"<b>stage %{{x}}</b><br>{text(kind)}: %{{y:.4~g}} {unit}<extra></extra>",
        }
        for kind, colour in colours.items()
        if any(stage.held.get(kind) for stage in stages.stages)
    ]
    if capacity_bytes <= 3 * most:  # a line far above the bars would only make them small
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": "capacity",
                "x": labels,
                "y": [capacity_bytes / giga] * len(labels),
                "line": {"dash": "dash", "width": 2, "color": "#B22222"},
                "hoverinfo": "skip",
            }
        )
    x = axis("stage", type="category")
    return figure(traces, x, axis(f"memory at the peak ({unit})", rangemode="tozero"), 420, barmode="stack", bargap=0.3)
