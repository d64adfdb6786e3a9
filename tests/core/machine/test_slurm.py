"""Slurm's node lists and topology.conf, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.base.errors import InputError
from simfrontier.core.machine.job_nodes import compressed, expanded
from simfrontier.core.machine.slurm_topology import read_topology

NAMES = st.lists(
    st.one_of(
        st.from_regex(r"[a-z][a-z0-9.-]{0,6}", fullmatch=True),
        st.builds("{}{}".format, st.sampled_from(["n", "frontier", "x1c", "a-b"]), st.integers(0, 300)),
        st.builds(lambda prefix, number: f"{prefix}{number:05}", st.sampled_from(["n", "frontier"]), st.integers(0, 9)),
        st.integers(0, 40).map(str),
    ),
    min_size=1,
    max_size=40,
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("login1", ["login1"]),
        ("frontier[00001-00003,00200]", ["frontier00001", "frontier00002", "frontier00003", "frontier00200"]),
        ("a[9-11]", ["a9", "a10", "a11"]),
        ("a[1,3],b,c[2]", ["a1", "a3", "b", "c2"]),
        ("rack[0-1]n[1-2]-ib", ["rack0n1-ib", "rack0n2-ib", "rack1n1-ib", "rack1n2-ib"]),
        ("b2,a1", ["b2", "a1"]),
    ],
)
def test_lists_by_hand(text: str, names: list[str]) -> None:
    assert list(expanded(text)) == names


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["frontier00001", "frontier00002", "frontier00003", "frontier00200"], "frontier[00001-00003,00200]"),
        (["a99", "a100"], "a[99-100]"),
        (["n1", "n01"], "n[1,01]"),
        (["n7"], "n7"),
        (["0", "1", "2", "7"], "[0-2,7]"),
    ],
)
def test_names_are_written_short(names: list[str], text: str) -> None:
    assert compressed(names) == text and list(expanded(text)) == names


@given(NAMES)
@settings(deadline=None)
def test_what_is_written_means_the_same_names(names: list[str]) -> None:
    assert list(expanded(compressed(names))) == names


# As `man topology.conf` has it, with two levels, comments, keys in other letters and LinkSpeed.
SAMPLE = """\
# topology.conf
SwitchName=s0 Nodes=tux[0-5]   # a leaf
switchname=s1 nodes=tux[6-11] LinkSpeed=900
SwitchName=s2 Nodes=tux[12-17]
SwitchName=s3 Nodes=tux18,tux20

SwitchName=t0 Switches=s[0-1]
SwitchName=t1 Switches=s[2-3]
SwitchName=top Switches=t[0-1]
"""


def read(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "topology.conf"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_topology_by_hand(tmp_path: Path) -> None:
    topology = read_topology(read(tmp_path, SAMPLE))
    assert list(topology.switch_of)[:2] == ["tux0", "tux1"] and topology.switch_of["tux20"] == "s3"
    assert topology.groups(0) == (0,) * 6 + (1,) * 6 + (2,) * 6 + (3, 3)
    assert topology.groups(1) == (0,) * 12 + (1,) * 8
    assert topology.groups(2) == (0,) * 20
    with pytest.raises(InputError) as caught:
        topology.groups(3)
    assert str(caught.value).startswith('nodes.group_level: got 3, allowed: 0 to 2 (no switch stands above "top" in ')
