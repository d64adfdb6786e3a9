"""A fat tree in the drawing of a fabric: a bar per leaf, NICs at their own leaf, and every pool in the tables."""

from __future__ import annotations

from xml.etree import ElementTree

from simfrontier.machine import load_machine
from simfrontier.network import Fabric
from simfrontier.network.boxes import ends, joining_links
from simfrontier.trace import LinkBytes, LinkTable
from simfrontier_extras.emulation.crosscheck.fabric_drawing import drawing
from simfrontier_extras.emulation.crosscheck.fabric_layout import layout
from simfrontier_extras.emulation.crosscheck.links import LinkCheck, compare_links
from simfrontier_extras.emulation.crosscheck.sections import fabric_section
from tests.report.test_page import Page
from tests.trace.fabrics import DIGEST

FABRIC = Fabric.build(load_machine("toy-tree"), 3)  # two nodes under leaf 0, one under leaf 1


def checked() -> LinkCheck:
    links = []
    for link in joining_links(FABRIC):
        src, dst = ends(FABRIC, link)
        of_class = FABRIC.class_names[FABRIC.link_class[link]]
        links.append(LinkBytes(name=FABRIC.describe(link), link_class=of_class, src=src, dst=dst, num_bytes=4e6))
    made = LinkTable(digest=DIGEST, title="made up", links=tuple(links))
    return compare_links("p", made, made)


def test_there_is_a_bar_for_every_leaf_and_for_what_is_above() -> None:
    where = layout((pair.src, pair.dst) for pair in checked().pairs)
    assert list(where.hubs) == ["leaf 0", "leaf 1", "spine"]
    assert where.line("node 2 nic1", "leaf 1") is not None
    assert where.line("leaf 0", "spine") is None  # from bar to bar: in the tables


def test_nics_are_joined_to_their_own_leaf() -> None:
    svg = ElementTree.fromstring(drawing(checked().pairs, 1e7, "t"))
    titles = [line.findtext("title") or "" for line in svg.iter("line")]
    assert sum("→ leaf 0" in title for title in titles) == 4  # two NICs of two nodes
    assert sum("→ leaf 1" in title for title in titles) == 2


def test_the_tables_count_the_leaves_pools() -> None:
    words = Page(fabric_section([checked()])).words.replace("\u00a0", " ")
    rows = [" ".join(row.split()) for row in words.split("\n")]
    assert any(row.startswith("uplink 4 4 16 MB 16 MB") for row in rows)
    assert "leaf 0" in words and "spine" in words
