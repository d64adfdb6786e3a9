"""The page of a cross-check: its sections, charts that are data, nothing loaded from outside, the same bytes again."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from simfrontier.report.crosscheck import MAX_BARS, crosscheck_page
from simfrontier.report.figures.crosscheck import COLOURS, scatter_figure, steps_figure, timelines_figure
from simfrontier.report.findings.crosscheck import crosscheck_findings
from simfrontier.report.render import said
from simfrontier.report.theme import marks
from simfrontier.trace import Trace
from simfrontier.trace.comparison import compare
from simfrontier.trace.crosscheck import CrossCheck
from simfrontier.trace.verdict import judge
from tests.facts import says
from tests.report.test_page import Page
from tests.trace.fakes import measured, span, trace

MB = 1e6
SECTIONS = ["headline", "differences", "steps", "calls", "timelines", "deltas", "measured", "reading"]


def simulated(scale: float, num_ranks: int = 2) -> Trace:
    """A hook, a product, an encoding, a gather of 2 MB, a reduction of 10 bytes, and some other call."""
    own = (
        span(0, 0.0, 0.1 * scale, lane="host", kind="hook", name="qkv"),
        span(1, 0.1 * scale, scale, name="<script>alert(1)</script>"),
        span(2, 0.1 * scale, 0.2 * scale, lane="gather", kind="encode", name="weights"),
        span(3, 0.5 * scale, 1.5 * scale, axes="node", ready_s=0.2 * scale),
        span(4, scale, 2 * scale, axes="gcd", lane="reduce", kind="all_reduce", name="scalar", message_bytes=10.0),
        span(5, 2 * scale, 3 * scale, axes="gcd", lane="other", kind="broadcast", name="new"),
        span(6, scale, 1.1 * scale, kind="norm", name="ln1"),
    )
    notes = {"mesh": "node 2, gcd 1", "mode": "simulated & folded"}
    return trace(own, members=(tuple(range(num_ranks)),), notes=notes)


def checked(factor: float = 1.1, tolerance: float = 0.25, drop: bool = False, num_ranks: int = 2) -> CrossCheck:
    comparisons = []
    for plan, scale in (("zero3", 1e-3), ("a<b>", 2e-3)):
        sim = simulated(scale, num_ranks)
        really = measured(sim, factor)
        if drop:
            really = replace(really, spans=tuple(spans[:-1] for spans in really.spans))
        comparisons.append(compare(plan, sim, really))
    only = ("lonely",) if drop else ()
    return CrossCheck(comparisons=tuple(comparisons), verdict=judge(comparisons, MB, tolerance), only_real=only)


AGREE, SLOW, DROPPED = checked(), checked(factor=3.0), checked(drop=True)


@pytest.mark.parametrize("check", [AGREE, SLOW, DROPPED], ids=["agree", "slow", "dropped"])
def test_the_page_has_its_sections_and_loads_nothing(check: CrossCheck) -> None:
    read = Page(crosscheck_page(check))
    lacking = set() if check is DROPPED else {"differences"}
    assert [name for name in SECTIONS if name in read.ids] == [name for name in SECTIONS if name not in lacking]
    assert sorted(read.ids) == sorted(set(read.ids))
    assert all(target.startswith(("#", "data:")) for target in read.loaded)
    found = crosscheck_findings(check)
    for sentence in (*said("crosscheck", "lead", found), *said("crosscheck", "findings", found)):
        assert sentence in read.words


def test_names_of_the_traces_are_text_and_never_markup() -> None:
    page = crosscheck_page(AGREE)
    assert "<script>alert(1)" not in page
    assert "a<b>" in Page(page).words and "simulated & folded" in Page(page).words


def test_the_same_traces_give_the_same_page() -> None:
    assert crosscheck_page(checked()) == crosscheck_page(checked())


def test_charts_are_valid_and_their_axes_named() -> None:
    from plotly.graph_objects import Figure

    read = Page(crosscheck_page(SLOW))
    figures = {name: json.loads(text) for name, text in read.data.items()}
    assert {re.sub(r"\d", "N", name) for name in figures} == {"fig-steps", "fig-calls", "fig-timeline-N"}
    for variants in figures.values():
        for figure in variants.values():
            Figure(figure)
            layout = figure["layout"]
            assert all(layout[name]["title"]["text"] for name in layout if re.match("[xy]axis", name))


def test_what_there_is_no_number_for_is_not_seen_as_one() -> None:
    """Nothing is large enough to be judged."""
    check = replace(AGREE, verdict=judge(AGREE.comparisons, 1e12, 0.25))
    assert re.findall(r"\b(?:nan|NaN|inf|Infinity|None|undefined)\b", Page(crosscheck_page(check)).words) == []


def test_differences_are_named_on_the_page() -> None:
    words = Page(crosscheck_page(DROPPED)).words
    assert "op 6 on ranks 0-1: the op: simulated norm ln1, real missing" in words
    found = crosscheck_findings(DROPPED)
    assert [each.num_different for each in DROPPED.comparisons] == [2, 2] and found.num_operations == 24
    different, *_, only = said("crosscheck", "findings", found)
    assert says(different, "zero3: 2", "a<b>: 2", 24) and says(only, "Only real", "lonely")


def test_the_verdict_says_on_what_it_rests() -> None:
    """Two plans × two ranks × the two collectives of 2 MB, among four: 8; seven ops on each rank of each plan: 28."""
    found = crosscheck_findings(AGREE)
    assert (found.num_operations, AGREE.verdict.judged) == (28, 8)
    assert found.sim_order == found.real_order == ("zero3", "a<b>")
    same, times, order = said("crosscheck", "findings", found)
    assert says(same, "same", 28) and says(times, 8, "1\u00a0MB") and says(order, "alike", "zero3", "a<b>")
    (lead,) = said("crosscheck", "lead", found)
    assert says(lead, "agree") and "not" not in lead
    (lead,) = said("crosscheck", "lead", crosscheck_findings(SLOW))
    assert says(lead, "not agree", "time of collectives")


def test_the_timelines_share_one_axis_of_time_and_their_lanes() -> None:
    comparison = SLOW.comparisons[0]
    figure = timelines_figure(comparison, 1)
    layout = figure["layout"]
    assert (
        layout["yaxis"]["ticktext"]
        == layout["yaxis2"]["ticktext"]
        == [
            "host",
            "compute",
            "gather",
            "reduce",
            "other",
        ]
    )
    assert layout["yaxis"]["domain"][0] > layout["yaxis2"]["domain"][1]
    last = max(pair.real.end_s for pair in comparison.by_rank[1])
    assert layout["xaxis"]["range"] == [0, pytest.approx(last)]
    bars = figure["data"]
    # Seven ops and one wait in each, one entry per colour in the legend.
    assert sum(len(bar["x"]) for bar in bars if bar["yaxis"] == "y") == 8
    assert sum(len(bar["x"]) for bar in bars if bar["yaxis"] == "y2") == 8
    named = [bar["name"] for bar in bars if bar["showlegend"]]
    assert sorted(named) == sorted({bar["name"] for bar in bars}) and set(named) <= set(COLOURS)


def test_the_scatter_has_a_point_for_every_call_and_small_ones_are_faint() -> None:
    """Per plan a gather and a broadcast of 2 MB and a reduction of 10 bytes: medians over two ranks."""
    figure = scatter_figure(AGREE, marks(["zero3", "a<b>"]))
    points = [data for data in figure["data"] if "hovertext" in data]
    assert sum(len(data["x"]) for data in points) == 6
    faint = [value for data in points for value in data["marker"]["opacity"] if value < 1]
    assert len(faint) == 2
    gather = next(data for data in points if data["name"] == "all-gather")
    assert gather["x"] == [pytest.approx(1e-3)] and 0.98e-3 < gather["y"][0] < 1.11e-3
    ticks = figure["layout"]["xaxis"]
    assert ticks["type"] == "log"


def test_names_of_plans_are_text_in_charts() -> None:
    drawn = scatter_figure(AGREE, marks(["zero3", "a<b>"]))["data"]
    assert "a&lt;b&gt;" in [trace["name"] for trace in drawn]
    assert any("<b>a&lt;b&gt;: " in words for trace in drawn for words in trace.get("hovertext", ()))
    assert steps_figure(crosscheck_findings(AGREE).steps)["data"][0]["x"] == ["zero3", "a&lt;b&gt;"]


def test_the_slowest_rank_is_drawn_first_and_as_many_as_there_is_room_for() -> None:
    check = checked(num_ranks=4)
    figures = json.loads(Page(crosscheck_page(check)).data["fig-timeline-0"])
    slowest = check.comparisons[0].slowest_rank
    assert next(iter(figures)) == f"rank {slowest} (the slowest)" and len(figures) == 4
    many = MAX_BARS // (2 * 7 * 2) + 10  # ranks whose 7 ops, twice, fill half of the bars (there are two plans)
    figures = json.loads(Page(crosscheck_page(checked(num_ranks=many))).data["fig-timeline-0"])
    assert 1 < len(figures) <= many - 10


def test_only_the_first_differences_are_listed() -> None:
    one = DROPPED.comparisons[0]
    several = said("crosscheck", "differences", replace(one, differences=one.differences[:1] * 10))
    assert len(several) == 9 and several[0] == str(one.differences[0]) and says(several[8], "2 more")


def test_a_comparison_without_a_common_rank_still_makes_a_page() -> None:
    apart = compare("p", trace((span(0, 0.0, 1.0),), members=((0,),)), trace((span(0, 0.0, 1.0),), members=((1,),)))
    check = CrossCheck(comparisons=(apart,), verdict=judge([apart], MB, 0.25))
    read = Page(crosscheck_page(check))
    assert "did not run the same operations" in read.words and "rank 0: its ops: simulated 1 ops" in read.words
