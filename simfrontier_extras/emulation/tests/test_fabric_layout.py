"""The layout of a wiring, without a system call: packets that follow its routes and rules go the wiring's ways."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from hypothesis import given, settings, strategies as st

from simfrontier_extras.emulation.real.layout import NamespaceLayout, lay_out
from simfrontier_extras.emulation.tests.wirings import wired
from simfrontier_extras.emulation.wiring import Wiring


class Namespace(NamedTuple):
    """What a kernel keeps of the lines: its address, next devices by destination and by table, and rules."""

    address: str
    main: dict[str, str]
    tables: dict[str, str]
    rules: dict[tuple[str, str], str]


def namespace(lines: tuple[str, ...]) -> Namespace:
    address = ""
    main: dict[str, str] = {}
    tables: dict[str, str] = {}
    rules: dict[tuple[str, str], str] = {}
    for line in lines:
        words = line.split()
        value = dict(pairwise(words))
        if line.startswith("addr add 10.0."):
            address = value["add"].removesuffix("/32")
        elif line.startswith("route add default"):
            assert value["table"] not in tables
            tables[value["table"]] = value["dev"]
        elif line.startswith("route add"):
            to = value["add"].removesuffix("/32")
            assert to not in main, "the kernel refuses a second route"
            main[to] = value["dev"]
        elif line.startswith("rule add"):
            assert (value["from"], value["to"]) not in rules
            rules[value["from"], value["to"]] = value["lookup"]
    return Namespace(address, main, tables, rules)


def way_of(layout: NamespaceLayout, wiring: Wiring, a: int, b: int) -> tuple[int, ...]:
    """The cables that a packet from rank a to rank b passes, as the kernels of the namespaces forward it."""
    kernels = [namespace(lines) for lines in layout.ip]
    source, target = (kernels[layout.ranks[rank]].address for rank in (a, b))
    box, way = layout.ranks[a], []
    # the sender asks for a way before it has chosen its address: only the main table answers
    assert not any(rule == (source, target) for rule in kernels[box].rules)
    while kernels[box].address != target:
        table = kernels[box].rules.get((source, target))
        device = kernels[box].main[target] if table is None else kernels[box].tables[table]
        assert device.startswith("c") and len(way) < 20
        way.append(int(device[1:]))
        box = wiring.boxes.index(wiring.cables[way[-1]].dst)
    return tuple(way)


def goes_as_wired(wiring: Wiring) -> NamespaceLayout:
    layout = lay_out(wiring)
    for a in range(len(wiring.ranks)):
        for b in range(len(wiring.ranks)):
            if wiring.routes[a][b]:
                assert way_of(layout, wiring, a, b) == wiring.routes[a][b]
    return layout


def test_ways_that_part_by_source_get_a_rule() -> None:
    # ranks 0 and 1 both reach rank 4 by box 2, from where 0 goes on by 3 and 1 at once
    links = [(0, 2), (1, 2), (2, 3), (3, 4), (2, 4)]
    wiring = wired(5, (0, 1, 4), links, {(0, 4): [0, 2, 3, 4], (1, 4): [1, 2, 4]})
    layout = goes_as_wired(wiring)
    rules = [line for lines in layout.ip for line in lines if line.startswith("rule")]
    assert rules == ["rule add from 10.0.0.2 to 10.0.0.5 lookup 1004 priority 100"]
    without = replace(layout, ip=tuple(tuple(x for x in lines if x not in rules) for lines in layout.ip))
    assert way_of(without, wiring, 1, 2) != wiring.routes[1][2]  # so the walk above does see a missing rule


def test_parallel_links_stay_apart_and_a_link_may_have_one_direction() -> None:
    wiring = wired(2, (0, 1), [(0, 1), (0, 1), (1, 0)], {(0, 1): [0, 1], (1, 0): [1, 0]})
    wiring = wiring.model_copy(update={"routes": (((), (1,)), ((2,), ()))})
    layout = goes_as_wired(wiring)
    # cable 2 runs back beside the first of the two; the second has an unshaped way back that nothing takes
    assert [line.split()[3] + " " + line.split()[14] for line in layout.joins[:2]] == ["c0 c2", "c1 r1"]
    assert [len(lines) for lines in layout.tc] == [2, 1]


@st.composite
def wirings(draw: st.DrawFn) -> Wiring:
    """Any boxes, all joined to all, and any way between ranks."""
    boxes = draw(st.integers(2, 6))
    ranks = tuple(draw(st.permutations(range(boxes)))[: draw(st.integers(2, boxes))])
    links = [(a, b) for a in range(boxes) for b in range(boxes) if a != b]
    routes = {}
    for a in ranks:
        for b in ranks:
            if a != b:
                between = draw(st.lists(st.sampled_from(range(boxes)), unique=True, max_size=3))
                routes[a, b] = [a, *(box for box in between if box not in (a, b)), b]
    return wired(boxes, ranks, links, routes)


@settings(deadline=None)
@given(wirings())
def test_any_wiring_goes_as_wired(wiring: Wiring) -> None:
    goes_as_wired(wiring)
