"""Values that the templates of a study's sections are filled in with; None leaves the section out."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any, TypeAlias

from simfrontier.report.drawing import key
from simfrontier.report.figures.breakdown import PARTS, step_bars
from simfrontier.report.figures.links import WHOLE, drawn_use, scale_end, use_over_time
from simfrontier.report.figures.memory import areas
from simfrontier.report.figures.scaling import PublishedPoint, efficiencies, rates, step_times, zoomed
from simfrontier.report.figures.timeline import MOST, SHORT, bars
from simfrontier.report.figures.traffic import PARTS as TRAFFIC_PARTS, traffic_bars
from simfrontier.report.findings.compression import compression_of
from simfrontier.report.findings.samples import SURE
from simfrontier.report.findings.slowdown import link_word
from simfrontier.report.findings.study import StudyFindings
from simfrontier.report.manifest import scenario_digest, versions
from simfrontier.report.node import node_drawing
from simfrontier.report.phrases import percent
from simfrontier.report.scaling import scaling_drawing
from simfrontier.report.summary import verdict
from simfrontier.report.theme import MEMORY_COLOURS
from simfrontier.report.view import StudyView

Values: TypeAlias = Mapping[str, Any]
BOUNDARIES = ("package", "intra_node", "inter_node")


def headline(found: StudyFindings, view: StudyView) -> Values:
    fitting = [one for plan in found.scaling.values() for one in plan if not one.misfit]
    published = published_points(found)
    charts = {}
    if fitting:
        charts = {
            view.rate_unit: rates(found.scaling, view.marks, view.device, view.rate_unit, published),
            "step time": step_times(found.scaling, view.marks, view.device),
        }
    return {
        "found": found.headline,
        "verdict": verdict(found.headline),
        "charts": charts,
        "drawing": scaling_drawing(found.scaling, view.marks, view.device, view.rate_unit),
        "banded": any(one.sampled_step_s for one in fitting),
        "num_samples": found.probability.num_samples,
        "starred": _starred(found) if published else "",
        "zoomed": bool(fitting) and zoomed(found.scaling),
    }


def _starred(found: StudyFindings) -> str:
    """What the published points are."""
    known = found.published
    assert known is not None, "there are published points"
    of = f"ratios, times the predicted rate of {known.ratios[0].plan}" if known.ratios else ""
    return " and ".join(filter(None, [of, "shares of the peak" if known.shares else ""]))


def published_points(found: StudyFindings) -> list[PublishedPoint]:
    """Published ratios as rates, from the predicted one of their first plan, and published shares of the peak."""
    known = found.published
    if known is None or not known.judged:
        return []
    points = []
    first = known.ratios[0] if known.ratios else None
    for ratio in known.ratios[1:]:
        if first is not None and first.rate is not None:
            words = f"<b>{escape(ratio.plan)}</b>, published: {ratio.published:g} × {escape(first.plan)}"
            value = ratio.published * first.rate
            points.append(PublishedPoint(plan=ratio.plan, devices=ratio.devices, value=value, words=words))
    for share in known.shares:
        words = f"<b>{escape(share.plan)}</b>, published: {percent(share.published)} of the peak"
        if share.predicted is None or share.rate is None:
            continue
        value = share.rate * share.published / share.predicted
        points.append(PublishedPoint(plan=share.plan, devices=share.devices, value=value, words=words))
    return [point for point in points if point.plan in found.scaling]


def step_time(found: StudyFindings, view: StudyView) -> Values:
    figures = {f"{size:,}": step_bars(found.time.steps[size]) for size in reversed(view.sizes)}
    return {"found": found.time, "figures": figures, "heads": [(part.name, part.colour) for part in PARTS.values()]}


def timeline(found: StudyFindings, view: StudyView) -> Values:
    traces = {o.plan: o.trace for o in view.drawn if o.trace is not None}
    figures = {one.plan: bars(traces[one.plan]) for one in found.timeline}
    return {
        "found": found.timeline,
        "figures": figures,
        "shown": view.ranked[0].plan if view.ranked else None,
        "most": MOST,
        "shorter": round(1 / SHORT),
        "left_out": [o.plan for o in view.drawn if o.plan not in figures],
    }


def links(found: StudyFindings, view: StudyView) -> Values:
    machine, plans = view.scenario.machine, found.traffic.plans
    loads = {o.plan: o.links for o in view.drawn if o.links is not None and o.row["fits"]}
    full = scale_end(max((link.utilisation for links in loads.values() for link in links.links), default=0.0))
    titles = {plan: f"Node of {machine.title}: utilisation of links by {plan}" for plan in loads}
    over_time = {o.plan: o.link_use for o in view.drawn if o.link_use is not None and o.link_use.num_bytes}
    nodes = {plan: drawn_use(use, machine, view.nodes) for plan, use in over_time.items()}
    fullest = max((max(shares) for links in nodes.values() for shares in links.values()), default=0)
    return {
        "found": found.traffic,
        "drawings": {plan: node_drawing(machine, links, full, titles[plan]) for plan, links in loads.items()},
        "figures": {
            plan: use_over_time(use, machine, nodes[plan], scale_end(fullest / WHOLE))
            for plan, use in over_time.items()
        },
        "loads": {plan.plan: plan.links for plan in plans},
        "key": key("utilisation", "utilisation of a link", "colour scale of utilisation", "0 %", f"{100 * full:g} %"),
        "shown": view.ranked[0].plan if view.ranked else None,
        "left_out": [o.plan for o in view.drawn if o.plan not in loads],
    }


def memory(found: StudyFindings, view: StudyView) -> Values:
    use = found.memory
    figures = {o.plan: areas(o.memory, view.capacity_bytes(o)) for o in view.drawn if o.memory is not None}
    held = {kind for peak in use.peaks for kind in peak.held_bytes}
    kinds = [*(kind for kind in MEMORY_COLOURS if kind in held), *sorted(held - set(MEMORY_COLOURS))]
    fastest = view.ranked[0].plan if view.ranked else None
    return {
        "found": use,
        "figures": figures,
        "shown": fastest if fastest in figures else None,
        "kinds": {kind: MEMORY_COLOURS.get(kind, MEMORY_COLOURS["other"]) for kind in kinds},
    }


def traffic(found: StudyFindings, view: StudyView) -> Values:
    plans = found.traffic.plans
    return {
        "found": found.traffic,
        "figure": traffic_bars(found.traffic),
        "parts": {
            part: TRAFFIC_PARTS[part]
            for part in TRAFFIC_PARTS
            if part in BOUNDARIES or any(plan.sent_bytes[part] for plan in plans)
        },
    }


def published(found: StudyFindings, view: StudyView) -> Values | None:
    if found.published is None:
        return None
    return {"found": found.published, "setup": found.setup, "grids": found.ranks}


def compression(found: StudyFindings, view: StudyView) -> Values | None:
    compressed = compression_of(view)
    return None if compressed is None else {"found": compressed}


def scaling(found: StudyFindings, view: StudyView) -> Values:
    any_fits = any(not one.misfit for plan in found.scaling.values() for one in plan)
    lines = efficiencies(found.scaling, view.marks, view.device) if any_fits and len(view.sizes) > 1 else None
    return {
        "found": found.scaling,
        "setup": found.setup,
        "any_fits": any_fits,
        "efficiencies": lines,
        "zoomed": any_fits and zoomed(found.scaling),
    }


def pipeline(found: StudyFindings, view: StudyView) -> Values | None:
    if found.pipeline is None:
        return None
    from simfrontier.report.figures.pipeline import lanes, memory_bars

    known = {o.plan: o.stages for o in view.piped if o.stages is not None}
    capacity = {o.plan: view.capacity_bytes(o) for o in view.piped}
    return {
        "found": found.pipeline,
        "lanes": {one.plan: lanes(known[one.plan]) for one in found.pipeline if one.fits},
        "memory": {plan: memory_bars(stages, capacity[plan]) for plan, stages in known.items()},
        "shown": next((o.plan for o in view.ranked if o.plan in known), next(iter(known))),
    }


def ranks(found: StudyFindings, view: StudyView) -> Values | None:
    return {"found": found.ranks} if found.ranks else None


def ranking(found: StudyFindings, view: StudyView) -> Values:
    return {"found": found.probability, "sure": SURE, "library": view.scenario.library.title}


def sensitivity(found: StudyFindings, view: StudyView) -> Values | None:
    varied = found.sensitivity
    if varied is None:
        return None
    from simfrontier.report.figures.sensitivity import dots

    figures = {f"{at.devices:,}": dots(varied, at, view.marks, view.rate_unit) for at in varied.sizes}
    return {"found": varied, "figures": figures}


def slowdown(found: StudyFindings, view: StudyView) -> Values | None:
    trouble = found.slowdown
    if trouble is None or view.slowdown is None or not trouble.plans:
        return None
    from simfrontier.report.figures.slowdown import case_bars, device_grids

    return {
        "found": trouble,
        "bars": case_bars(trouble, view.marks) if trouble.cases else None,
        "grids": device_grids(view.slowdown, view.device) if trouble.devices else None,
        "links": {
            plan: [(name, kind) for name, some in of.items() for kind in some] for plan, of in trouble.links.items()
        },
        "words": {name: link_word(name) for name in trouble.lagging_links},
    }


def environment(found: StudyFindings, view: StudyView) -> Values | None:
    return {"found": found.environment} if found.environment else None


def assumptions(found: StudyFindings, view: StudyView) -> Values:
    return {
        "found": found.assumptions,
        "setup": found.setup,
        "scenario": view.scenario,
        "versions": versions(),
        "scenario_digest": scenario_digest(view.scenario),
        "schedules": {o.plan: o.row["schedule_digest"] for o in view.drawn},
    }
