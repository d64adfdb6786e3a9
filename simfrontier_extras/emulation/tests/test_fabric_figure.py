"""The chart of a fabric: a line for each link, by its bytes, and the difference of the worse direction."""

from __future__ import annotations

import math
from itertools import combinations

import pytest

from simfrontier_extras.emulation.limits import LinkPair, compare_links
from simfrontier_extras.emulation.sections import fabric_figure, positions
from tests.core.trace.fabrics import table


def pair(src: int, dst: int, sim: float, real: float) -> LinkPair:
    ends = {"src": f"node 0 gcd {src}", "dst": f"node 0 gcd {dst}"}
    return LinkPair(name=f"{src}>{dst}", link_class="c", sim_bytes=sim, real_bytes=real, **ends)


@pytest.mark.parametrize(("machine", "num_nodes"), [("frontier", 2), ("toy-quad", 1)])
def test_every_link_has_a_line_and_boxes_lie_apart(machine: str, num_nodes: int) -> None:
    made = table(machine, num_nodes)
    pairs = compare_links("p", made, made).pairs
    at = positions(pairs)
    assert at.keys() == {end for each in pairs for end in (each.src, each.dst)}
    assert min(math.dist(a, b) for a, b in combinations(at.values(), 2)) > 0.05
    lines = [trace for trace in fabric_figure(pairs, 1e8)["data"] if trace["mode"] == "lines"]
    assert len(lines) == len(pairs)


def test_more_bytes_are_wider_and_the_worse_direction_of_a_judged_link_has_a_number() -> None:
    pairs = [
        pair(0, 1, 10e6, 10.1e6),
        pair(1, 0, 10e6, 9.8e6),  # the worse one
        pair(1, 2, 10e6, 10.4e6),
        pair(2, 3, 9e5, 1e6),  # too little to be judged
        pair(3, 0, 0.0, 2e6),
    ]
    *lines, words, _ = fabric_figure(pairs, 2e7)["data"]
    widths = {line["name"]: line["line"]["width"] for line in lines}
    assert widths["2&gt;3"] < widths["3&gt;0"] < widths["1&gt;0"] < widths["1&gt;2"]
    assert {text.replace("\u00a0", " ") for text in words["text"]} == {"−2.0 %", "+4.0 %", "not simulated"}
