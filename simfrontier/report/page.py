"""index.html: the whole study on one page that needs no network, for a person to read."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfrontier.report.drawing import key
from simfrontier.report.figures.breakdown import PARTS, step_bars
from simfrontier.report.figures.links import WHOLE, drawn_use, scale_end, use_over_time
from simfrontier.report.figures.memory import areas
from simfrontier.report.figures.scaling import PublishedPoint, efficiencies, has_beyond, rates, step_times, zoomed
from simfrontier.report.figures.timeline import MOST, SHORT, bars
from simfrontier.report.figures.traffic import PARTS as TRAFFIC_PARTS, traffic_bars
from simfrontier.report.findings.compression import compression_of
from simfrontier.report.findings.samples import SURE
from simfrontier.report.findings.slowdown import link_word
from simfrontier.report.findings.study import StudyFindings, findings_of
from simfrontier.report.manifest import scenario_digest, versions
from simfrontier.report.node import node_drawing
from simfrontier.report.phrases import percent
from simfrontier.report.render import page_of, render
from simfrontier.report.sections import with_added
from simfrontier.report.summary import pairs_in_words, verdict
from simfrontier.report.theme import MEMORY_COLOURS
from simfrontier.report.view import Searches, StudyView
from simfrontier.study import Study
from simfrontier.wholefile import write_whole

if TYPE_CHECKING:
    from simfrontier.experiments import Sensitivity

CONTENTS = {
    "headline": "In short",
    "time": "Time",
    "timeline": "Timeline",
    "links": "Links",
    "memory": "Memory",
    "traffic": "Traffic",
    "published": "Published",
    "compression": "Compression",
    "scaling": "Scaling",
    "pipeline": "Pipelines",
    "ranks": "Ranks",
    "probability": "How sure",
    "sensitivity": "Sensitivity",
    "slowdown": "Trouble",
    "environment": "Environment",
    "assumptions": "Assumptions",
    "reading": "How to read",
}
BOUNDARIES = ("package", "intra_node", "inter_node")


def page(study: Study, sensitivity: Sensitivity | None = None, searches: Searches | None = None) -> str:
    """The page as text; the same study gives the same text. `searches`: the candidates that were compared for plans
    that leave options open, by plan and size."""
    view = StudyView(study=study, sensitivity=sensitivity, searches=searches or {})
    return study_page(findings_of(view), view)


def write_page(found: StudyFindings, view: StudyView, path: Path) -> None:
    """Write the page of a study's findings. Raises InputError where the file cannot be written."""
    write_whole(path, study_page(found, view))


def study_page(found: StudyFindings, view: StudyView) -> str:
    """The page of a study's findings; a section for each name of CONTENTS that has something to say."""
    sections = {
        "headline": _headline(found, view),
        "time": _breakdown(found, view),
        "timeline": _timeline(found, view),
        "links": _links(found, view),
        "memory": _memory(found, view),
        "traffic": _traffic(found, view),
        "published": _published(found, view),
        "compression": compression(view),
        "scaling": _scaling(found, view),
        "pipeline": _pipeline(found, view),
        "ranks": section("ranks", found.ranks, view) if found.ranks else "",
        "probability": section("probability", found.probability, view, sure=SURE, library=view.scenario.library.title),
        "sensitivity": _sensitivity(found, view),
        "slowdown": _slowdown(found, view),
        "environment": section("environment", found.environment, view) if found.environment else "",
        "assumptions": section("assumptions", found.assumptions, view, setup=found.setup, scenario=view.scenario),
        "reading": _reading(found, view),
    }
    contents, with_extras = with_added(CONTENTS, sections, view)
    return page_of("run", setup=found.setup, scenario=view.scenario, contents=contents, made=with_extras)


def compression(view: StudyView) -> str:
    """The section on compressed messages, or nothing where no plan compresses or widens its messages."""
    found = compression_of(view)
    return "" if found is None else section("compression", found, view)


def section(name: str, found: object, view: StudyView, **more: Any) -> str:
    """A section from its findings. Every template is given the word for a device, the sizes and the largest of them,
    whether devices differ in speed, and the colours of the plans."""
    return render(
        f"sections/{name}.html.j2",
        found=found,
        device=view.device,
        sizes=view.sizes,
        size=view.largest,
        differ=bool(view.scenario.machine.device.speed_sd),
        marks=view.marks,
        unit=view.rate_unit,
        **more,
    )


def _published(found: StudyFindings, view: StudyView) -> str:
    if found.published is None:
        return ""
    set_batch = view.scenario.file.training.batch is not None
    return section("published", found.published, view, setup=found.setup, set_batch=set_batch, grids=found.ranks)


def _headline(found: StudyFindings, view: StudyView) -> str:
    shown, charts = found.headline, {}
    fitting = [one for plan in found.scaling.values() for one in plan if not one.misfit]
    published = published_points(found)
    if fitting:
        charts = {
            view.rate_unit: rates(found.scaling, view.marks, view.device, view.rate_unit, published),
            "step time": step_times(found.scaling, view.marks, view.device),
        }
    best, others = shown.best, (*shown.ahead, *shown.equal)
    pair = None
    if best is not None and others:
        next_plan = shown.ahead[0].plan if shown.ahead else shown.equal[0]
        pair = {"size": f"{shown.devices:,}", "plan": best.plan, "other": next_plan}
    return section(
        "headline",
        shown,
        view,
        verdict=verdict(shown),
        charts=charts,
        banded=any(one.sampled_step_s for one in fitting),
        num_samples=found.probability.num_samples,
        starred=_starred(found) if published else "",
        has_beyond=any(map(has_beyond, charts.values())),
        zoomed=bool(fitting) and zoomed(found.scaling),
        pairs=pairs_in_words(shown) if pair else {},
        pair=pair,
    )


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


def _scaling(found: StudyFindings, view: StudyView) -> str:
    any_fits = any(not one.misfit for plan in found.scaling.values() for one in plan)
    lines = efficiencies(found.scaling, view.marks, view.device) if any_fits and len(view.sizes) > 1 else None
    return section(
        "scaling",
        found.scaling,
        view,
        setup=found.setup,
        any_fits=any_fits,
        efficiencies=lines,
        zoomed=any_fits and zoomed(found.scaling),
    )


def _breakdown(found: StudyFindings, view: StudyView) -> str:
    figures = {f"{size:,}": step_bars(found.time.steps[size]) for size in reversed(view.sizes)}
    return section("breakdown", found.time, view, figures=figures, parts=PARTS)


def _sensitivity(found: StudyFindings, view: StudyView) -> str:
    varied = found.sensitivity
    if varied is None:
        return ""
    from simfrontier.report.figures.sensitivity import dots

    figures = {f"{at.devices:,}": dots(varied, at, view.marks, view.rate_unit) for at in varied.sizes}
    return section("sensitivity", varied, view, figures=figures)


def _slowdown(found: StudyFindings, view: StudyView) -> str:
    trouble = found.slowdown
    if trouble is None or view.slowdown is None or not trouble.plans:
        return ""
    from simfrontier.report.figures.slowdown import case_bars, device_grids, drawn_nodes

    drawn = drawn_nodes(view.slowdown) if trouble.devices else None
    return section(
        "slowdown",
        trouble,
        view,
        bars=case_bars(trouble, view.marks) if trouble.cases else None,
        grids=device_grids(view.slowdown, drawn, view.device) if drawn is not None else None,
        drawn=drawn,
        words={name: link_word(name) for name in trouble.lagging_links},
    )


def _pipeline(found: StudyFindings, view: StudyView) -> str:
    if found.pipeline is None:
        return ""
    from simfrontier.report.figures.pipeline import lanes, memory_bars

    known = {o.plan: o.stages for o in view.piped if o.stages is not None}
    capacity = {o.plan: view.capacity_bytes(o) for o in view.piped}
    return section(
        "pipeline",
        found.pipeline,
        view,
        lanes={one.plan: lanes(known[one.plan]) for one in found.pipeline if one.fits},
        memory={plan: memory_bars(stages, capacity[plan]) for plan, stages in known.items()},
        shown=next((o.plan for o in view.ranked if o.plan in known), next(iter(known))),
    )


def _timeline(found: StudyFindings, view: StudyView) -> str:
    traces = {o.plan: o.trace for o in view.drawn if o.trace is not None}
    figures = {one.plan: bars(traces[one.plan]) for one in found.timeline}
    return section(
        "timeline",
        found.timeline,
        view,
        figures=figures,
        shown=view.ranked[0].plan if view.ranked else None,
        most=MOST,
        shorter=round(1 / SHORT),
        left_out=[o.plan for o in view.drawn if o.plan not in figures],
    )


def _memory(found: StudyFindings, view: StudyView) -> str:
    use = found.memory
    figures = {o.plan: areas(o.memory, view.capacity_bytes(o)) for o in view.drawn if o.memory is not None}
    held = {kind for peak in use.peaks for kind in peak.held_bytes}
    kinds = [*(kind for kind in MEMORY_COLOURS if kind in held), *sorted(held - set(MEMORY_COLOURS))]
    fastest = view.ranked[0].plan if view.ranked else None
    return section(
        "memory",
        use,
        view,
        figures=figures,
        shown=fastest if fastest in figures else None,
        kinds={kind: MEMORY_COLOURS.get(kind, MEMORY_COLOURS["other"]) for kind in kinds},
    )


def _links(found: StudyFindings, view: StudyView) -> str:
    machine, plans = view.scenario.machine, found.traffic.plans
    loads = {o.plan: o.links for o in view.drawn if o.links is not None and o.row["fits"]}
    full = scale_end(max((link.utilisation for links in loads.values() for link in links.links), default=0.0))
    titles = {plan: f"Node of {machine.title}: utilisation of links by {plan}" for plan in loads}
    over_time = {o.plan: o.link_use for o in view.drawn if o.link_use is not None and o.link_use.num_bytes}
    nodes = {plan: drawn_use(use, machine, view.nodes) for plan, use in over_time.items()}
    fullest = max((max(shares) for links in nodes.values() for shares in links.values()), default=0)
    return section(
        "links",
        found.traffic,
        view,
        drawings={plan: node_drawing(machine, links, full, titles[plan]) for plan, links in loads.items()},
        figures={
            plan: use_over_time(use, machine, nodes[plan], scale_end(fullest / WHOLE))
            for plan, use in over_time.items()
        },
        loads={plan.plan: plan.links for plan in plans},
        key=key("utilisation", "utilisation of a link", "colour scale of utilisation", "0 %", f"{100 * full:g} %"),
        shown=view.ranked[0].plan if view.ranked else None,
        left_out=[o.plan for o in view.drawn if o.plan not in loads],
    )


def _traffic(found: StudyFindings, view: StudyView) -> str:
    traffic = found.traffic
    return section(
        "traffic",
        traffic,
        view,
        figure=traffic_bars(traffic),
        parts={
            part: TRAFFIC_PARTS[part]
            for part in TRAFFIC_PARTS
            if part in BOUNDARIES or any(plan.sent_bytes[part] for plan in traffic.plans)
        },
    )


def _reading(found: StudyFindings, view: StudyView) -> str:
    return section(
        "reading",
        None,
        view,
        setup=found.setup,
        precision=view.scenario.precision.model,
        versions=versions(),
        scenario_digest=scenario_digest(view.scenario),
        schedules={o.plan: o.row["schedule_digest"] for o in view.drawn},
    )
