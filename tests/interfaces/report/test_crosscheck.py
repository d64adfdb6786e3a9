"""The page of a cross-check: its sections, charts that are data, nothing loaded from outside, the same bytes again."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from simfrontier.core.trace import Trace
from simfrontier.core.trace.comparison import compare
from simfrontier.core.trace.crosscheck import CrossCheck
from simfrontier.core.trace.verdict import judge
from simfrontier.interfaces.report.crosscheck import crosscheck_findings, crosscheck_page
from simfrontier.interfaces.report.render import said
from tests.core.trace.fakes import measured, span, trace
from tests.facts import says
from tests.interfaces.report.test_page import Page

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


def test_differences_are_named_on_the_page() -> None:
    words = Page(crosscheck_page(DROPPED)).words
    assert "op 6 on ranks 0-1: the op: simulated norm ln1, real missing" in words
    found = crosscheck_findings(DROPPED)
    assert [each.num_different for each in DROPPED.comparisons] == [2, 2] and found.num_operations == 24
    different, *_, only = said("crosscheck", "findings", found)
    assert says(different, "zero3: 2", "a<b>: 2", 24) and says(only, "Only real", "lonely")
