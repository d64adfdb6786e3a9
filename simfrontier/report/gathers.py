"""The section on the values of all samples that a model gathers for later steps: queues, memories, a centre."""

from __future__ import annotations

from collections.abc import Mapping

from simfrontier.analysis import Gather, Gathers
from simfrontier.report.markup import Figure, keyed, paragraph, plot, section, table, text
from simfrontier.report.phrases import binary, listed, percent, quantity, signed
from simfrontier.report.theme import axis, figure
from simfrontier.report.view import StudyView, step_s
from simfrontier.study import PlanOutcome

NAMES: Mapping[str, str] = {
    "teacher/instance.key.0": "keys of the instance head, first view",
    "teacher/instance.key.1": "keys of the instance head, second view",
    "teacher/group.key.0": "keys of the local-group head, first view",
    "teacher/group.key.1": "keys of the local-group head, second view",
    "cluster.sum": "sum for the centre of the group head",
    "student/row": "rows for the student’s memory",
    "flags": "flags of those rows",
    "teacher/row": "rows for the teacher’s memory",
}


def gathers(view: StudyView) -> str:
    """The section; empty where no plan gathers anything of the sort."""
    drawn = [(o, o.gathers) for o in view.drawn if o.gathers is not None and o.row["fits"]]
    if not drawn:
        return ""
    first, known = drawn[0]
    return section(
        "gathers",
        "What all ranks gather for later steps",
        paragraph(_lead(view, drawn)),
        _calls(view, drawn),
        paragraph(
            f"In program order, before the backward. Bytes are those that a {view.device} brings to the call and "
            "those that one of n sends on average, whatever the algorithm: n − 1 pieces of an all-gather, 2 (n − 1)/n "
            "of the vector of an all-reduce. Apart from them the step reduces "
            f"{quantity(known.reduced_bytes, 'bytes')} of gradients in {known.num_reductions:,} "
            f"call{'s' if known.num_reductions > 1 else ''} ({quantity(known.reductions_sent_bytes, 'bytes')} sent per "
            f"{view.device}; under way for {quantity(known.reductions_s, 's')} of {first.plan}’s step). A time runs "
            f"from when the {view.device} is ready for the call.",
            "note",
        ),
        plot("fig-gathers", {"gathers": _by_size(view)}, "Time per step that a rank’s work waits for these calls"),
    )


def _lead(view: StudyView, drawn: list[tuple[PlanOutcome, Gathers]]) -> str:
    holding = [(o, g) for o, g in drawn if g.held_s > 0]
    beside = [o for o, g in drawn if not g.held_s]
    parts = []
    for outcome, known in holding:
        share = percent(known.held_s / step_s(outcome))
        parts.append(f"{outcome.plan}: {quantity(known.held_s, 's')}, {share} of its step")
    lead = (
        f"The model keeps queues, memories and a centre that are equal on all ranks, because every {view.device} "
        f"gathers what all have made: {len(drawn[0][1].calls)} small calls. "
    )
    if parts:
        lead += f"At {view.largest:,} {view.devices} a rank’s work waits for them ({'; '.join(parts)}). "
    if beside:
        lead += (
            f"In {listed([o.plan for o in beside])} they run beside the rest: only the next step needs what they bring"
        )
        lead += f"; that gains {_gain(holding[0][0], beside[0])}." if holding else "."
    return lead.strip()


def _gain(slower: PlanOutcome, faster: PlanOutcome) -> str:
    return f"{signed(step_s(slower) / step_s(faster) - 1)} ({faster.plan} over {slower.plan})"


def _calls(view: StudyView, drawn: list[tuple[PlanOutcome, Gathers]]) -> str:
    calls = drawn[0][1].calls
    head = ["call", "kind", "brought", "sent", *(keyed(view.marks[o.plan].colour, o.plan) for o, _ in drawn)]
    rows = []
    for number, call in enumerate(calls):
        times = [_time(known.calls[number]) for _, known in drawn]
        sizes = [binary(call.rank_bytes), quantity(call.sent_bytes, "bytes")]
        name = f"{number + 1}. {text(NAMES.get(call.value, call.value))}"
        rows.append([name, call.kind.replace("_", "-"), *sizes, *times])
    total = [
        f"{sum(call.rank_bytes for call in calls) / 1024:,.0f}\u00a0KiB",
        quantity(sum(call.sent_bytes for call in calls), "bytes"),
    ]
    held = [f"<b>{quantity(known.held_s, 's') if known.held_s else 'nothing'}</b> waited for" for _, known in drawn]
    rows.append(["<b>in all</b>", "", *total, *held])
    return table(head, rows, "named")


def _time(call: Gather) -> str:
    return quantity(call.seconds, "s") + ("" if call.holds else " beside")


def _by_size(view: StudyView) -> Figure:
    """Per plan, the time that a rank's work waits for the calls, over the number of devices."""
    traces = []
    for plan in view.plans:
        known = {o.devices: o.gathers for o in view.study.of(plan) if o.gathers is not None and o.row["fits"]}
        sizes = sorted(known)
        mark = view.marks[plan]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": plan,
                "x": sizes,
                "y": [1e3 * known[size].held_s for size in sizes],
                "line": {"color": mark.colour},
                "marker": {"color": mark.colour, "symbol": mark.symbol, "size": 9},
                "hovertemplate": f"<b>{text(plan)}</b><br>%{{x:,}} {view.devices}: %{{y:.3~g}} ms<extra></extra>",
            }
        )
    x = axis(f"{view.devices}", type="log", tickvals=list(view.sizes), ticktext=[f"{size:,}" for size in view.sizes])
    return figure(traces, x, axis("waited for per step (ms)", rangemode="tozero"), 320)
