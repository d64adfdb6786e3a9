"""The drawing of a fabric: every link of the table, boxes apart from each other, and what its lines and numbers say."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st

from simfrontier.trace import LinkBytes
from simfrontier_extras.emulation.crosscheck.fabric_drawing import drawing, tooltip
from simfrontier_extras.emulation.crosscheck.fabric_layout import FabricLayout, layout
from simfrontier_extras.emulation.crosscheck.links import LinkCheck, LinkPair, compare_links, links_found
from simfrontier_extras.emulation.crosscheck.sections import fabric_section, sweep_section
from simfrontier_extras.emulation.crosscheck.sweep import Implementation, SweepPoint, swept_ways
from simfrontier_extras.emulation.crosscheck.sweep_figure import ratios_figure
from tests.facts import says
from tests.report.test_page import Page
from tests.some import some
from tests.trace.fabrics import table

Off = Callable[[LinkBytes], float]
FABRICS = [("frontier", 1), ("frontier", 2), ("frontier", 3), ("frontier", 4), ("toy-cluster", 2), ("toy-quad", 1)]


def checked(off: Off = lambda link: 1.01, machine: str = "frontier", num_nodes: int = 2, plan: str = "p") -> LinkCheck:
    sim = table(machine, num_nodes)
    counted = tuple(replace(link, num_bytes=link.num_bytes * off(link)) for link in sim.links)
    return compare_links(plan, sim, replace(sim, title="counted", links=counted))


def placed(machine: str, num_nodes: int) -> FabricLayout:
    return layout((link.src, link.dst) for link in table(machine, num_nodes).links)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of an SVG with what it says when pointed at."""

    ends: tuple[tuple[float, float], tuple[float, float]]
    width: float
    title: str


def lines(svg: str) -> list[Line]:
    """Of a drawing that is well-formed XML."""
    made = []
    for each in ElementTree.fromstring(svg).iter("line"):
        x1, y1, x2, y2, width = (float(each.attrib[name]) for name in ("x1", "y1", "x2", "y2", "stroke-width"))
        made.append(Line(ends=((x1, y1), (x2, y2)), width=width, title=each.findtext("title") or ""))
    return made


def beside(point: tuple[float, float], start: tuple[float, float], end: tuple[float, float]) -> float:
    """How far a point is from a line between two others."""
    (x, y), (x1, y1), (x2, y2) = point, start, end
    along = ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / (math.dist(start, end) ** 2 or 1.0)
    along = min(max(along, 0.0), 1.0)
    return math.dist(point, (x1 + along * (x2 - x1), y1 + along * (y2 - y1)))


@pytest.mark.parametrize(("machine", "num_nodes"), FABRICS)
def test_every_link_has_a_line_that_says_both_numbers(machine: str, num_nodes: int) -> None:
    check = checked(machine=machine, num_nodes=num_nodes)
    drawn = lines(drawing(check.pairs, 1e8, "t"))
    assert sorted(line.title for line in drawn) == sorted(tooltip(pair) for pair in check.pairs)
    result = checked(lambda link: 1.5 if link.name == "node 0 xgmi 0>1" else 1.0).pairs
    assert (
        tooltip(next(pair for pair in result if pair.name == "node 0 xgmi 0>1")).replace("\u00a0", " ")
        == "node 0 xgmi 0>1 (xgmi4), node 0 gcd 0 → node 0 gcd 1: 2 MB simulated, 3 MB counted (+50.0 %) per step"
    )


@pytest.mark.parametrize(("machine", "num_nodes"), FABRICS)
def test_boxes_lie_apart_and_inside(machine: str, num_nodes: int) -> None:
    where = placed(machine, num_nodes)
    for a, b in combinations(where.boxes.values(), 2):
        assert math.dist(a.at, b.at) > 2 * where.radius + 4, (a, b)
    for box in where.boxes.values():
        assert where.radius < box.at[0] < where.width - where.radius
        assert where.radius < box.at[1] < where.height - where.radius
    assert len(where.nodes) == num_nodes
    ends = {end for link in table(machine, num_nodes).links for end in (link.src, link.dst)}
    assert {*where.boxes} == ends - {"net"} and {*where.hubs} == ends & {"net"}


def test_no_line_of_frontier_passes_behind_a_box_that_it_does_not_join() -> None:
    where = placed("frontier", 2)
    for link in some(table().links):
        ends = where.line(link.src, link.dst)
        assert ends is not None
        for box in where.boxes.values():
            if box.name not in (link.src, link.dst):
                assert beside(box.at, *ends) > where.radius + 5, (link.name, box.name)


def test_packages_of_frontier_are_neighbours_and_nodes_mirror_each_other() -> None:
    where = placed("frontier", 2)
    distances = sorted(math.dist(a.at, b.at) for a, b in combinations(list(where.boxes.values())[:8], 2))
    for first in range(0, 8, 2):
        a, b = (where.boxes[f"node 0 gcd {number}"].at for number in (first, first + 1))
        assert math.dist(a, b) <= distances[7]  # a ring of eight has eight short ways
    for box in where.boxes.values():
        if box.name.startswith("node 0"):
            other = where.boxes[box.name.replace("node 0", "node 1")].at
            assert other == (box.at[0], pytest.approx(where.height - box.at[1], abs=0.11))


NAMES = st.sampled_from(
    [f"node {node} {kind}{number}" for node in range(3) for kind in ("gcd ", "nic") for number in range(5)]
    + ["node 4 nic 7", "net", "net 0", "spine", "odd name", "node x gcd 1"]
)


@given(ends=st.lists(st.tuples(NAMES, NAMES), max_size=25), seed=st.randoms(use_true_random=False))
def test_any_table_is_drawn_and_its_order_does_not_matter(ends: list[tuple[str, str]], seed: object) -> None:
    """Loops, links between nodes, NICs without a device, hubs joined to hubs: what has no line has no line."""
    pairs = [
        LinkPair(name=f"{n}<&>", link_class="c", src=src, dst=dst, sim_bytes=1e7, real_bytes=n * 1e6)
        for n, (src, dst) in enumerate(ends)
    ]
    where = layout(ends)
    assert where == layout(ends[::-1])
    assert {*where.boxes, *where.hubs} == {name for pair in ends for name in pair}
    drawn = lines(drawing(pairs, 1e7, "t"))
    assert len(drawn) == sum(src != dst and not {src, dst} <= {*where.hubs} for src, dst in ends)
    assert all(math.isfinite(value) for line in drawn for end in line.ends for value in end)


def test_the_two_directions_of_a_link_lie_side_by_side() -> None:
    """Each to the right of the middle as it goes: from left to right, y pointing down, the right is below."""
    there, back = lines(drawing([pair(0, 1, 1.0, 1.0), pair(1, 0, 1.0, 1.0)], 1e7, "t"))
    if there.ends[0][0] > there.ends[1][0]:
        there, back = back, there
    assert there.ends[0][1] == there.ends[1][1] > back.ends[0][1] == back.ends[1][1]
    assert there.ends[0][1] - back.ends[0][1] > there.width / 2 + back.width / 2


def test_more_bytes_are_wider() -> None:
    counted = [0.0, 1e6, 1e7, 5e7, 1e8]
    pairs = [
        LinkPair(name=f"{n}", link_class="c", src=f"node 0 gcd {n}", dst="switch", sim_bytes=1e6, real_bytes=result)
        for n, result in enumerate(counted)
    ]
    widths = {line.title.split(" ")[0]: line.width for line in lines(drawing(pairs, 1e8, "t"))}
    assert sorted(set(widths.values())) == [widths[f"{n}"] for n in range(5)]


def labels(pairs: Sequence[LinkPair]) -> list[tuple[str, bool]]:
    """The numbers on the lines, and whether they are in the warning colour."""
    result = re.findall(
        r'<text class="load"[^>]*?( style="fill:var\(--warn\)")?>([^<]*)</text>', drawing(pairs, 1e8, "t")
    )
    return sorted((message.replace("\u00a0", " "), bool(warned)) for warned, message in result)


def pair(src: int, dst: int, sim: float, real: float) -> LinkPair:
    ends = {"src": f"node 0 gcd {src}", "dst": f"node 0 gcd {dst}"}
    return LinkPair(name=f"{src}>{dst}", link_class="c", sim_bytes=sim, real_bytes=real, **ends)


def test_a_line_has_the_number_of_its_worse_direction_and_none_where_it_is_not_judged() -> None:
    pairs = [
        pair(0, 1, 10e6, 10.1e6),
        pair(1, 0, 10e6, 9.8e6),  # the worse one
        pair(1, 2, 10e6, 10.4e6),  # missed
        pair(2, 1, 1e5, 9e5),  # far off, but too little
        pair(2, 3, 9e5, 1e6),
        pair(3, 0, 0.0, 2e6),
    ]
    assert labels(pairs) == [("+4.0 %", True), ("not simulated", True), ("−2.0 %", False)]


def test_the_section_says_which_link_is_worst_and_shows_a_plan_at_a_time() -> None:
    checks = [checked(plan="a<b>"), checked(lambda link: 1.2 if link.name == "node 1 net>nic0" else 1.0, plan="q")]
    source = fabric_section(checks)
    read = Page(source)
    words = read.words.replace("\u00a0", " ")
    assert read.ids == ["links", "link-bytes"] and read.loaded == []
    assert "<b>" not in source and "a<b>" in words
    found = links_found(checks)
    assert found.worst is not None and (found.num_missed, found.worst.name, found.worst_plan) == (
        1,
        "node 1 net>nic0",
        "q",
    )
    assert says(words, "Of", found.num_judged, "1 carried", "3.0 %", "node 1 net>nic0 in q")
    assert words.count("The links that are furthest apart") == 2 == source.count('class="panel"')
    assert len(lines(re.findall(r"<svg class=\"node\".*?</svg>", source, re.DOTALL)[1])) == 80
    assert source == fabric_section(checks) and fabric_section([]) == ""


def test_a_class_has_its_totals_and_its_worst_link() -> None:
    """A node has 8 PCIe directions; the two of its last NIC are idle. 1 % more is counted, but 2 % less on one link."""
    made = fabric_section([checked(lambda link: 0.98 if link.name == "node 1 pcie 5>nic2" else 1.01)])
    rows = [" ".join(row.replace("\u00a0", " ").split()) for row in Page(made).words.split("\n")]
    row = next(row for row in rows if row.startswith("pcie "))
    assert row.startswith("pcie 16 12 ") and row.endswith(" −2.0 % node 1 pcie 5>nic2"), row


def test_links_that_carry_nothing_and_links_of_a_bus_make_a_section_too() -> None:
    idle = links_found([checked(lambda link: 0.0)])
    assert idle.num_missed == idle.num_judged > 0 and 'id="links"' in fabric_section([checked(lambda link: 0.0)])
    none = table(made=lambda number, name: 0.0)
    words = Page(fabric_section([compare_links("p", none, none)])).words.replace("\u00a0", " ")
    nothing = links_found([compare_links("p", none, none)])
    assert (nothing.num_judged, nothing.worst) == (0, None) and says(words, "No link", "1 MB")
    bus = [LinkPair(name="node 0 bus", link_class="bus", src="bus", dst="bus", sim_bytes=2e6, real_bytes=2e6)]
    made = LinkCheck(plan="p", sim_title="s", real_title="r", pairs=tuple(bus))
    assert "node 0 bus" in Page(fabric_section([made])).words
    assert re.findall(r"\b(?:nan|NaN|inf|Infinity|None)\b", words) == []
    assert re.findall(r"nan|inf\b", fabric_section([compare_links("p", none, none)])) == []


# ── sweeps ──


def swept(way: Implementation, kind: str, log2: int, ratio: float, group: str = "world (16)") -> SweepPoint:
    size = float(1 << log2)
    return SweepPoint(collectives=way, kind=kind, group=group, message_bytes=size, sim_s=0.1, real_s=0.1 * ratio)


SWEEP = [
    swept("lowered", "all_gather", 22, 1.1),
    swept("lowered", "all_gather", 20, 1.05),
    swept("lowered", "all_reduce", 20, 0.97, "node <8>"),
    swept("native", "all_gather", 20, 1.3),
]


def test_a_sweep_draws_real_over_simulated_by_size_with_what_is_allowed() -> None:
    from plotly.graph_objects import Figure

    for way, bound in (("lowered", 0.1), ("native", 0.2)):
        figure = ratios_figure(way, SWEEP)
        Figure(figure)
        levels = [trace["y"][0] for trace in figure["data"] if trace["mode"] == "lines"]
        assert levels == [1.0, pytest.approx(1 + bound), pytest.approx(1 - bound)]
    drawn = {trace["name"]: trace for trace in ratios_figure("lowered", SWEEP)["data"] if trace["mode"] != "lines"}
    assert list(drawn) == ["all-gather, world (16)", "all-reduce, node <8>"]
    gather = drawn["all-gather, world (16)"]
    assert gather["x"] == [float(1 << 20), float(1 << 22)]  # ascending, however they came
    assert gather["y"] == [pytest.approx(1.05), pytest.approx(1.1)]


def test_the_section_of_a_sweep_has_the_medians_of_both_ways() -> None:
    """All-gathers lowered 1.05 and 1.1: median 1.075, 7.5 % apart; native 30 % apart; no native all-reduce."""
    source = sweep_section(SWEEP)
    words = Page(source).words.replace("\u00a0", " ")
    assert "<8>" not in source and "node <8>" in words
    rows = [" ".join(row.split()) for row in words.split("\n")]
    assert "all-gather world (16) 2 1.07 7.5 % 1.30 30.0 %" in rows or (
        "all-gather world (16) 2 1.08 7.5 % 1.30 30.0 %" in rows
    )
    assert "all-reduce node <8> 1 0.970 3.0 % – –" in rows
    assert sweep_section([]) == ""
    lowered, native = swept_ways(SWEEP)
    assert (lowered.num_near, lowered.num_judged, native.num_near, native.num_judged) == (2, 2, 0, 1)
    assert lowered.worst is not None and (lowered.worst.kind, lowered.worst.apart) == (
        "all_gather",
        pytest.approx(0.075),
    )


@pytest.mark.parametrize("size", [1.0, 3000.0, 1e30])
def test_a_sweep_of_one_size_is_drawn(size: float) -> None:
    one = replace(SWEEP[0], message_bytes=size)
    figure = ratios_figure("lowered", [one])
    assert all(math.isfinite(tick) for tick in figure["layout"]["xaxis"]["tickvals"])
    assert len(figure["layout"]["xaxis"]["ticktext"]) <= 9
    assert 'id="sweep"' in sweep_section([one])


@pytest.mark.parametrize(("counted", "message"), [(1.99e6, "−0.5 %"), (2.01e6, "+0.5 %"), (2e6 + 1, "0.0 %")])
def test_how_far_a_link_is_off_has_the_sign_of_all_pages(counted: float, message: str) -> None:
    pair = LinkPair(name="a", link_class="b", src="c", dst="d", sim_bytes=2e6, real_bytes=counted)
    assert tooltip(pair).replace("\u00a0", " ").endswith(f" counted ({message}) per step")
