"""What RCCL and NCCL believe of their ways, worked by hand, and which they take."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from simfrontier.collectives import GroupShape, load_library
from simfrontier.collectives.load import CATALOG
from simfrontier.collectives.tuning import WAYS, AlgorithmTuning, TuningModel, Way
from simfrontier.errors import InputError

RCCL, NCCL = load_library("rccl").tuning, load_library("nccl").tuning
assert RCCL is not None and NCCL is not None
MIB = 2**20


def gcds(size: int) -> GroupShape:
    return GroupShape(size=size, num_nodes=size // 8, num_packages=size // 2)


def a100s(size: int) -> GroupShape:
    return GroupShape(size=size, num_nodes=size // 4, num_packages=size)


def test_rings_of_rccl_by_hand() -> None:
    """64 MiB over 1,024 GCDs on 128 nodes, index floor(log2(2^26 / 2^6)) = 20.

    Simple: (17 + 896 max(3.6, 3 * 2) + 127 * 19.8) * 0.87 = 6879.6 us; 252 GB/s * 1 * 1024 / 1023 is 266.0 us more.
    LL: 12 + 896 max(0.8, 2) + 127 * 9.5 = 3010.5 us; 252 * 0.2 * 0.3 = 15.12 GB/s * 1024 / 1023 is 4434.1 us more."""
    simple = RCCL.predicted_s("ring_simple", "all_gather", 64 * MIB, gcds(1024))
    low = RCCL.predicted_s("ring_ll", "all_gather", 64 * MIB, gcds(1024))
    assert simple == pytest.approx(((17 + 896 * 6 + 127 * 19.8) * 0.87 + 266.05) * 1e-6, rel=1e-4)
    assert low == pytest.approx((3010.5 + 4434.1) * 1e-6, rel=1e-4)
    assert not RCCL.takes_ll("ring", "all_gather", 64 * MIB, gcds(1024))
    assert RCCL.takes_ll("ring", "all_gather", 32 * MIB, gcds(1024))


def test_an_all_reduce_of_rccl_crosses_nodes_twice_per_node() -> None:
    """16 GCDs on 2 nodes: 30 steps, 2 k = 4 between nodes: LL is 12 + 26 * 2 + 4 * 9.5 = 102 us, and 1 KiB at
    252 * 0.2 * 0.1 (index 4) * 16 / 30 = 2.688 GB/s is 0.381 us more."""
    value = RCCL.predicted_s("ring_ll", "all_reduce", 1024, gcds(16))
    assert value == pytest.approx(102.381e-6, rel=1e-4)


def test_trees_by_hand() -> None:
    """128 MiB over 16 GCDs: 17 + 2 (7 * 2.5 + 1 * 22.4) = 96.8 us; 252 * 1.75 * 0.8 (index 21) / 2 = 176.4 GB/s.

    NCCL, 512 MiB over 128 A100 on 32 nodes: 8.4 + 2 (3 * 4 + 5 * 14) = 172.4 us; 96 * 0.92 / 2 = 44.16 GB/s, no
    correction from index 23 on: 12157 us."""
    tree = RCCL.predicted_s("tree_simple", "all_reduce", 128 * MIB, gcds(16))
    assert tree == pytest.approx((96.8 + 128 * MIB / 176.4e3) * 1e-6, rel=1e-9)
    tree = NCCL.predicted_s("tree_simple", "all_reduce", 512 * MIB, a100s(128))
    assert tree == pytest.approx((172.4 + 512 * MIB / 44.16e3) * 1e-6, rel=1e-9)


def test_an_all_reduce_of_nccl_counts_its_edges_and_a_factor() -> None:
    """128 A100 on 32 nodes: 254 steps, 62 between nodes: (8.4 + 192 * 6 + 62 * 14) * 1.4 us, at 96 * 128 / 254 GB/s."""
    value = NCCL.predicted_s("ring_simple", "all_reduce", 512 * MIB, a100s(128))
    assert value == pytest.approx(((8.4 + 192 * 6 + 62 * 14) * 1.4 + 512 * MIB / (96e3 * 128 / 254)) * 1e-6, rel=1e-9)


@pytest.mark.parametrize(("devices", "last_ll_mib"), [(16, 2), (64, 8), (256, 32), (1024, 128)])
def test_nccl_changes_its_protocol_where_the_measured_times_jump(devices: int, last_ll_mib: int) -> None:
    """All-gathers on Perlmutter: a step takes 5 to 6 us more from one size to the next exactly here."""
    assert NCCL.takes_ll("ring", "all_gather", last_ll_mib * MIB, a100s(devices))
    assert not NCCL.takes_ll("ring", "all_gather", 2 * last_ll_mib * MIB, a100s(devices))


@pytest.mark.parametrize(
    ("kind", "last_ll"), [("all_gather", 256 * 1024), ("reduce_scatter", 256 * 1024), ("all_reduce", 128 * 1024)]
)
def test_in_one_node_rccl_goes_by_its_blocks(kind: str, last_ll: int) -> None:
    """Blocks of 32 KiB, the two rounds of an all-reduce counted together: the measured times jump there."""
    assert RCCL.takes_ll("ring", kind, last_ll, gcds(8))  # type: ignore[arg-type]
    assert not RCCL.takes_ll("ring", kind, last_ll + 8, gcds(8))  # type: ignore[arg-type]
    assert not RCCL.takes_tree(2**30, gcds(8)) and RCCL.takes_tree(2**30, gcds(16))


def test_a_library_without_ll_takes_simple() -> None:
    without = replace(RCCL, ways={way: RCCL.ways[way] for way in WAYS if way.endswith("simple")})
    assert not without.takes_ll("ring", "all_gather", 8, gcds(1024))
    assert not without.takes_ll("tree", "all_reduce", 8, gcds(1024))


@given(
    size=st.sampled_from([8, 16, 64, 1024, 75264]),
    num_bytes=st.floats(0, 2**40),
    way=st.sampled_from(sorted(WAYS)),
    tuning=st.sampled_from([RCCL, NCCL]),
)
def test_what_is_believed_is_a_time(size: int, num_bytes: float, way: str, tuning: TuningModel) -> None:
    value = tuning.predicted_s(way, "all_reduce", num_bytes, gcds(size))  # type: ignore[arg-type]
    assert 0.0 < value < math.inf


def test_a_cap_holds_a_rate_down() -> None:
    """LL of NCCL: half of 96 GB/s, but at most 22.5 GB/s on two nodes and 19 GB/s on more."""
    low = NCCL.ways["ring_ll"]
    assert isinstance(low, AlgorithmTuning)
    assert (low.cap_bytes_per_s, low.cap_more_nodes_bytes_per_s) == (22.5e9, 19e9)
    two, more = (NCCL.predicted_s("ring_ll", "all_gather", 2**40, a100s(n)) for n in (8, 12))
    assert two == pytest.approx(2**40 / (22.5e9 * 8 / 7), rel=1e-3)
    assert more == pytest.approx(2**40 / (19e9 * 12 / 11), rel=1e-3)


# ── library files ──


def without(folder: Path, *ways: Way) -> str:
    """A file of RCCL less some of its ways."""
    text = (CATALOG / "rccl.toml").read_text(encoding="utf-8")
    for way in ways:
        text, times = re.subn(rf"\[tuning\.ways\.{way}\]\n(.+\n)+", "", text)
        assert times == 1
    path = folder / "mine.toml"
    path.write_text(text if len(ways) < len(WAYS) else text.replace("[tuning.corr", "[tuning.ways]\n[tuning.corr"))
    return str(path)


@pytest.mark.parametrize(
    ("ways", "message"),
    [
        (("ring_simple",), "ring_simple: missing, needed because other ways are weighed against it"),
        (tuple(WAYS), "ring_simple: missing, needed because other ways are weighed against it"),
        (("tree_simple",), "tree_simple: missing, needed because tree_ll is weighed against it"),
    ],
)
def test_ways_that_others_are_weighed_against_must_be_there(
    tmp_path: Path, ways: tuple[Way, ...], message: str
) -> None:
    path = without(tmp_path, *ways)
    with pytest.raises(InputError) as caught:
        load_library(path)
    assert str(caught.value) == f"{path}: tuning.ways.{message}"


@pytest.mark.parametrize("ways", [("ring_ll",), ("tree_ll",), ("tree_simple", "tree_ll"), tuple(WAYS)[1:]])
def test_all_other_ways_may_be_missing(tmp_path: Path, ways: tuple[Way, ...]) -> None:
    library = load_library(without(tmp_path, *ways))
    assert library.tuning is not None and set(library.tuning.ways) == {*WAYS} - {*ways}
    for name in ("ring", "tree"):
        assert library.tuning.takes_ll(name, "all_reduce", 8, gcds(1024)) in (False, True)
    assert library.tuning.takes_tree(2**30, gcds(16)) == ("tree_simple" not in ways)


def test_a_table_of_corrections_counts_its_factors() -> None:
    rows = {row.key: row for row in load_library("rccl").provenance()}
    for way in WAYS:
        row = rows[f"tuning.corrections.{way}"]
        assert (row.value, row.unit) == (len(RCCL.corrections[way].factors), "entries") == (27, "entries")
