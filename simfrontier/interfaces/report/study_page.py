"""The page of a study, index.html, which needs no network, section by section."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any, TypeAlias

from simfrontier.answers.study import scenario_digest, versions
from simfrontier.core.trace import rank_text
from simfrontier.interfaces.report.answer import answer_table
from simfrontier.interfaces.report.compression import SIDE_NAMES, compression_of
from simfrontier.interfaces.report.headline import SURE
from simfrontier.interfaces.report.links import WHOLE, drawn_use, key, node_drawing, scale_end, use_over_time
from simfrontier.interfaces.report.parts import PARTS, TRAFFIC_PARTS as TRAFFIC_PARTS, areas, step_bars, traffic_bars
from simfrontier.interfaces.report.phrases import percent
from simfrontier.interfaces.report.render import as_html, page_of, render
from simfrontier.interfaces.report.results import Findings, sections_found
from simfrontier.interfaces.report.scaling import PublishedPoint, efficiencies, rates, step_times
from simfrontier.interfaces.report.sensitivity import dots
from simfrontier.interfaces.report.slowdown import SHARES, case_bars, device_grids, worst_rows
from simfrontier.interfaces.report.summary import scaling_drawing, verdict
from simfrontier.interfaces.report.theme import LEVEL_NAMES, MEMORY_COLOURS
from simfrontier.interfaces.report.timeline import MOST, SHORT, bars, lanes, memory_bars
from simfrontier.interfaces.report.view import RATE, StudyView

Values: TypeAlias = Mapping[str, Any]
SectionValues: TypeAlias = Callable[[Findings, StudyView], Values | None]


def headline(found: Findings, view: StudyView) -> Values:
    points = published_points(found)
    charts = {}
    if view.any_fits:
        charts = {view.rate_unit: rates(view, points), "step time": step_times(view)}
    return {
        "found": found["headline"],
        "verdict": verdict(found["headline"]),
        "answer": answer_table(view),
        "charts": charts,
        "drawing": scaling_drawing(view.rows, view.marks, view.device, view.rate_unit) if len(view.sizes) > 1 else "",
        "banded": any(row[f"{RATE}_p05"] for rows in view.rows.values() for row in rows),
        "num_samples": found["probability"].num_samples,
        "starred": _starred(found["published"]) if points else "",
    }


def _starred(published: Mapping[str, Any]) -> str:
    """Return the legend text for the published points."""
    ratios = published["ratios"]
    of = f"ratios, times the predicted rate of {ratios[0].plan}" if ratios else ""
    return " and ".join(filter(None, [of, "shares of the peak" if published["shares"] else ""]))


def published_points(found: Findings) -> list[PublishedPoint]:
    """Return published figures as rates: ratios times the predicted rate of their first plan, and shares of peak
    performance."""
    known = found["published"]
    if known is None or not known["judged"]:
        return []
    points = []
    first = known["ratios"][0] if known["ratios"] else None
    for ratio in known["ratios"][1:]:
        if first is not None and first.rate is not None:
            words = f"<b>{escape(ratio.plan)}</b>, published: {ratio.published:g} × {escape(first.plan)}"
            value = ratio.published * first.rate
            points.append(PublishedPoint(plan=ratio.plan, devices=ratio.devices, value=value, words=words))
    for share in known["shares"]:
        if share.predicted is not None and share.rate is not None:
            words = f"<b>{escape(share.plan)}</b>, published: {percent(share.published)} of the peak"
            value = share.rate * share.published / share.predicted
            points.append(PublishedPoint(plan=share.plan, devices=share.devices, value=value, words=words))
    return [point for point in points if point.plan in found["rows"]]


def step_time(found: Findings, view: StudyView) -> Values:
    return {
        "found": found["waiting"],
        "parts": PARTS.values(),
        "figures": {f"{size:,}": step_bars(view.rows_at(size)) for size in reversed(view.sizes)},
    }


def timeline(found: Findings, view: StudyView) -> Values:
    drawn = [(o, o.trace) for o in view.drawn if o.trace is not None]
    return {
        "figures": {o.plan: bars(trace) for o, trace in drawn},
        "ranks": [
            {
                "plan": o.plan,
                "rank": rank_text(trace.processes[0].members, o.devices),
                "stage": None if o.stages is None else o.stages.critical,
                "num_ops": len(trace.processes[0].spans),
            }
            for o, trace in drawn
        ],
        "most": MOST,
        "shorter": round(1 / SHORT),
        "left_out": [o.plan for o in view.drawn if o.trace is None],
    }


def links(found: Findings, view: StudyView) -> Values:
    machine = view.scenario.machine
    loads = {o.plan: o.links for o in view.drawn if o.plan in found["links"] and o.links is not None}
    full = scale_end(max((link.utilisation for links in loads.values() for link in links.links), default=0.0))
    titles = {plan: f"Node of {machine.title}: utilisation of links by {plan}" for plan in loads}
    over_time = {o.plan: o.link_use for o in view.drawn if o.link_use is not None and o.link_use.num_bytes}
    nodes = {plan: drawn_use(use, machine, view.nodes) for plan, use in over_time.items()}
    fullest = max((max(shares) for links in nodes.values() for shares in links.values()), default=0)
    return {
        "machine": machine.title,
        "drawings": {plan: node_drawing(machine, links, full, titles[plan]) for plan, links in loads.items()},
        "figures": {
            plan: use_over_time(use, machine, nodes[plan], scale_end(fullest / WHOLE))
            for plan, use in over_time.items()
        },
        "loads": found["links"],
        "key": key(f"{100 * full:g} %"),
        "left_out": [o.plan for o in view.drawn if o.plan not in loads],
    }


def memory(found: Findings, view: StudyView) -> Values:
    figures = {o.plan: areas(o.memory, view.capacity_bytes(o)) for o in view.drawn if o.memory is not None}
    held = {kind for own in found["memory"].values() for kind in own}
    kinds = [*(kind for kind in MEMORY_COLOURS if kind in held), *sorted(held - set(MEMORY_COLOURS))]
    return {
        "held": found["memory"],
        "figures": figures,
        "stages": {o.plan: o.stages for o in view.piped},
        "capacity": {o.plan: view.capacity_bytes(o) for o in view.drawn},
        "kinds": {kind: MEMORY_COLOURS.get(kind, MEMORY_COLOURS["other"]) for kind in kinds},
    }


def traffic(found: Findings, view: StudyView) -> Values:
    rows = view.rows_at(view.largest)
    sent = [part for part in TRAFFIC_PARTS if part in LEVEL_NAMES or any(row[f"bytes_{part}"] for row in rows)]
    return {"figure": traffic_bars(rows, view.device), "parts": {part: TRAFFIC_PARTS[part] for part in sent}}


def published(found: Findings, view: StudyView) -> Values | None:
    return found["published"] and {"found": found["published"], "grids": found["ranks"]}


def compression(found: Findings, view: StudyView) -> Values | None:
    compressed = compression_of(view)
    return compressed and {"found": compressed, "side_names": [SIDE_NAMES[side] for side in compressed["sides"]]}


def scaling(found: Findings, view: StudyView) -> Values:
    return {"efficiencies": efficiencies(view) if view.any_fits and len(view.sizes) > 1 else None}


def pipeline(found: Findings, view: StudyView) -> Values | None:
    known = {o.plan: o.stages for o in view.piped if o.stages is not None}
    capacity = {o.plan: view.capacity_bytes(o) for o in view.piped}
    return known and {
        "fitting": {o.plan: o.stages for o in view.piped if o.row["fits"]},
        "lanes": {o.plan: lanes(known[o.plan]) for o in view.piped if o.row["fits"]},
        "memory": {plan: memory_bars(stages, capacity[plan]) for plan, stages in known.items()},
        "first": next((o.plan for o in view.ranked if o.plan in known), next(iter(known))),
    }


def ranks(found: Findings, view: StudyView) -> Values | None:
    return found["ranks"] and {"found": found["ranks"]}


def ranking(found: Findings, view: StudyView) -> Values:
    return {"found": found["probability"], "sure": SURE, "library": view.scenario.library.title}


def sensitivity(found: Findings, view: StudyView) -> Values | None:
    varied = found["sensitivity"]
    return varied and {
        "found": varied,
        "figures": {f"{at['devices']:,}": dots(varied, at, view.marks, view.rate_unit) for at in varied["sizes"]},
    }


def slowdown(found: Findings, view: StudyView) -> Values | None:
    known = found["slowdown"]
    if known is None or view.slowdown is None or not known["plans"]:
        return None
    return {
        "found": known,
        "bars": case_bars(known, view.marks) if known["cases"] else None,
        "grids": device_grids(view.slowdown, view.device) if known["devices"] else None,
        "worst": list(worst_rows(known, view.device)),
        "shares": SHARES,
    }


def environment(found: Findings, view: StudyView) -> Values | None:
    return found["environment"] and {"found": found["environment"]}


def assumptions(found: Findings, view: StudyView) -> Values:
    return {
        "found": found["assumptions"],
        "versions": versions(),
        "scenario_digest": scenario_digest(view.scenario),
    }


SECTIONS: Mapping[str, tuple[str, SectionValues]] = {
    "headline": ("Summary", headline),
    "time": ("Step time", step_time),
    "timeline": ("Timeline", timeline),
    "links": ("Links", links),
    "memory": ("Memory", memory),
    "traffic": ("Traffic", traffic),
    "published": ("Published", published),
    "compression": ("Compression", compression),
    "scaling": ("Scaling", scaling),
    "pipeline": ("Pipelines", pipeline),
    "ranks": ("Ranks", ranks),
    "probability": ("Ranking", ranking),
    "sensitivity": ("Sensitivity", sensitivity),
    "slowdown": ("Degraded components", slowdown),
    "environment": ("Stack and library", environment),
    "assumptions": ("Assumptions", assumptions),
}  # titles, and functions of the values of the templates `sections/NAME.html.j2`; None: the study has no such section


def study_page(found: Findings, view: StudyView) -> str:
    """Return the page of a study's findings, with the sections of extras after the sections that they follow; the same
    study gives the same text."""
    made = {name: (title, section(name, found, view)) for name, (title, _) in SECTIONS.items()}
    for each, what in sections_found(view):
        place = list(made).index(each.after) + 1
        own = (each.name, (each.title, as_html(each.html(view, what))))
        made = dict([*list(made.items())[:place], own, *list(made.items())[place:]])
    contents = {name: title for name, (title, _) in made.items()}
    sections = {name: html for name, (_, html) in made.items()}
    return page_of("run", setup=found["setup"], scenario=view.scenario, contents=contents, made=sections)


def section(name: str, found: Findings, view: StudyView) -> str:
    """Return a section as HTML, empty if the study has no such section.

    Every template gets the study's `view`, `setup` and `rows` (the rows of the largest size as `largest`), the word for
    a device, the sizes and the largest size, the fastest plan (`shown`), whether devices differ in speed, the unit of
    rates, and the colours of the plans.
    """
    title, values = SECTIONS[name]
    known = values(found, view)
    if not known:
        return ""
    common = {
        "view": view,
        "scenario": view.scenario,
        "setup": found["setup"],
        "rows": view.rows,
        "largest": view.rows_at(view.largest),
        "device": view.device,
        "sizes": view.sizes,
        "size": view.largest,
        "shown": view.ranked[0].plan if view.ranked else None,
        "differ": bool(view.scenario.machine.device.speed_sd),
        "marks": view.marks,
        "unit": view.rate_unit,
    }
    return render("section.html.j2", name=name, title=title, **(common | dict(known)))
