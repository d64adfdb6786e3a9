"""The page of a cross-check: its sentences, and the differences that it names."""

from __future__ import annotations

from dataclasses import replace

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


def test_differences_are_named_on_the_page() -> None:
    words = Page(crosscheck_page(DROPPED)).words
    assert "op 6 on ranks 0-1: the op: simulated norm ln1, real missing" in words
    found = crosscheck_findings(DROPPED)
    assert [each.num_different for each in DROPPED.comparisons] == [2, 2] and found.num_operations == 24
    different, *_, only = said("crosscheck", "findings", found)
    assert says(different, "zero3: 2", "a<b>: 2", 24) and says(only, "Only real", "lonely")
