"""Bytes of links, simulated and counted: two tables compared, worked by hand."""

from __future__ import annotations

import pytest

from simfrontier.core.trace import LinkBytes, LinkTable
from simfrontier_extras.emulation.limits import LinkPair, compare_links
from tests.core.trace.fabrics import DIGEST


def link(name: str, num_bytes: float, **more: str) -> LinkBytes:
    ends = {"link_class": "xgmi1", "src": "node 0 gcd 0", "dst": "node 0 gcd 1"}
    return LinkBytes(name=name, num_bytes=num_bytes, **{**ends, **more})


def of(*links: LinkBytes, **more: str) -> LinkTable:
    return LinkTable(**{"digest": DIGEST, "title": "by hand", **more}, links=links)


def pair(sim: float, real: float) -> LinkPair:
    return LinkPair(name="l", link_class="c", src="a", dst="b", sim_bytes=sim, real_bytes=real)


@pytest.mark.parametrize(
    ("sim", "real", "judged", "missed"),
    [
        (100e6, 103e6, True, False),  # 3 % exactly is within
        (100e6, 103.1e6, True, True),
        (100e6, 97e6, True, False),
        (100e6, 96.9e6, True, True),
        (1e6, 1e6, False, False),  # no more than 1 MB
        (0.5e6, 1e6, False, False),
        (0.5e6, 1.1e6, True, True),  # carries it on one side
        (1.1e6, 0.0, True, True),
        (0.0, 1.1e6, True, True),
        (0.0, 0.0, False, False),
    ],
)
def test_a_link_is_judged_above_1_mb_and_missed_beyond_3_percent(
    sim: float, real: float, judged: bool, missed: bool
) -> None:
    assert (pair(sim, real).is_judged, pair(sim, real).is_missed) == (judged, missed)


def test_tables_are_joined_by_name_and_the_worst_link_comes_first() -> None:
    """b: +2 %, c: -5 %, a idle, d and e each on one side alone."""
    sim = of(link("a", 0.0), link("b", 100e6), link("c", 10e6), link("d", 4e6))
    real = of(link("c", 9.5e6), link("b", 102e6), link("a", 0.0), link("e", 7.0, link_class="nic"))
    check = compare_links("p", sim, real)
    assert [pair.name for pair in check.pairs] == ["a", "b", "c", "d", "e"]
    assert [(pair.name, round(pair.apart, 6)) for pair in check.judged] == [("d", 1.0), ("c", 0.05), ("b", 0.02)]
    assert check.num_missed == 2
    assert {name: len(pairs) for name, pairs in check.by_class.items()} == {"xgmi1": 4, "nic": 1}
