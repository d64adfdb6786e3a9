"""Cray-MPICH, MVAPICH2-GDR and recursive halving: their laws by hand, and how far they are from measured tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import simfrontier.inputs.measured
from simfrontier.answers.accuracy.predictors.calls import predict_call
from simfrontier.answers.accuracy.residual import Prediction
from simfrontier.core.collectives import HopTimes, Library, load_library
from simfrontier.core.collectives.laws import LowLatency
from simfrontier.core.cost import EqualGroups
from simfrontier.core.machine import load_machine
from simfrontier.core.program.ir import CollectiveKind
from simfrontier.inputs.measured.rows import CallRow
from simfrontier.inputs.measured.tables import read_calls

US, MIB = 1e-6, 2**20
FRONTIER, PERLMUTTER = load_machine("frontier"), load_machine("perlmutter")
TABLE = Path(simfrontier.inputs.measured.__file__).parent / "tables" / "mpi_and_hierarchical.csv"
HALVING = load_library("recursive-halving-mpi4py")


def mpich(hop_us: float = 20.0, eager_us: float = 4.0, rate_share: float = 0.1) -> Library:
    """Cray-MPICH with round numbers: 20 GB/s through a NIC, 25 GB/s over a link of 50."""
    mpi = load_library("cray-mpich")
    ring = replace(mpi.ring, base_s=0.0, hop_in_node_s=hop_us * US, hop_between_nodes_s=hop_us * US)
    low = LowLatency(
        base_s=0.0,
        hop_in_node_s=eager_us * US,
        hop_between_nodes_s=eager_us * US,
        bytes_per_channel=1e9,
        rate_share=rate_share,
    )
    shares = {"nic": 0.8, "xgmi1": 0.5, "pcie": 0.5}
    return replace(mpi, ring=ring, ring_ll=low, shares=shares)


# ── Cray-MPICH ──


def test_one_nic_carries_the_ring_of_a_node() -> None:
    """32 GCDs of Frontier: one ring, so 25 GB/s for all 8 GCDs of a node, of which a share of 0.8 is 20 GB/s.
    256 MiB: 31 blocks of 8 MiB: 31 (20 us + 8 MiB / 20 GB/s) = 31 * 439.4304 us."""
    groups = EqualGroups(FRONTIER, 32)
    library = mpich()
    assert groups.sent_per_s("ring", library) == pytest.approx(20e9)
    assert groups.seconds(library, "all_gather", 256 * MIB) == pytest.approx(31 * 439.4304 * US)


def test_the_narrowest_link_inside_a_node_holds_up_its_ring() -> None:
    """8 GCDs in their own order pass links of 50 GB/s, at 0.5 of them: 7 (20 us + 1 MiB / 25 GB/s) for 8 MiB."""
    assert EqualGroups(FRONTIER, 8).seconds(mpich(), "all_gather", 8 * MIB) == pytest.approx(7 * 61.94304 * US)


def test_perlmutters_rings_are_held_up_by_pcie() -> None:
    """Half of 31.5 GB/s is less than 0.8 of a NIC's 25."""
    assert EqualGroups(PERLMUTTER, 16).sent_per_s("ring", mpich()) == pytest.approx(15.75e9)


def test_small_blocks_go_eagerly() -> None:
    """512 GCDs, 1 MiB: 511 steps of 2 KiB, each 4 us + 2 KiB / 2 GB/s = 5.024 us, less than 20 us + 2 KiB / 20 GB/s."""
    assert EqualGroups(FRONTIER, 512).seconds(mpich(), "all_gather", MIB) == pytest.approx(511 * 5.024 * US)


@given(size=st.integers(1, 2**33), devices=st.sampled_from([8, 16, 32, 256]))
def test_more_bytes_never_take_less_time(size: int, devices: int) -> None:
    groups, library = EqualGroups(FRONTIER, devices), load_library("cray-mpich")
    assert groups.seconds(library, "all_gather", size) <= groups.seconds(library, "all_gather", 1.1 * size)


# ── recursive halving ──


def test_halves_go_to_the_nearest_first() -> None:
    """16 GCDs, 256 MiB, hops of 100 us, shares of 1 for xGMI, 0.8 for NICs:
    128 MiB to the neighbour in the package, 200 GB/s:                        671.08864 us
    64 MiB two GCDs further, one link of 50 GB/s:                            1342.17728 us
    32 MiB four further; two pairs share links of 50 GB/s, so 25 GB/s:       1342.17728 us
    16 MiB to the other node; 8 pairs share 4 NICs of 20 GB/s, so 10 GB/s:   1677.7216 us
    and 4 hops."""
    hops = HopTimes(base_s=0.0, hop_in_node_s=100 * US, hop_between_nodes_s=100 * US)
    shares = {"nic": 0.8, "xgmi1": 1.0, "xgmi2": 1.0, "xgmi4": 1.0}
    library = replace(HALVING, direct=hops, shares=shares)
    total = (671.08864 + 2 * 1342.17728 + 1677.7216 + 400) * US
    assert EqualGroups(FRONTIER, 16).seconds(library, "reduce_scatter", 256 * MIB) == pytest.approx(total)
    assert EqualGroups(FRONTIER, 16).seconds(library, "all_gather", 256 * MIB) == pytest.approx(total)
    assert EqualGroups(FRONTIER, 16).seconds(library, "all_reduce", 256 * MIB) == pytest.approx(2 * total)


# ── the measured tables ──


def rows_of(library: str, machine: str = "", collective: str = "") -> list[CallRow]:
    """Rows from 4 MiB on, without those of 2 GiB of the C++ program, which are a pathology."""
    return [
        row
        for row in read_calls(TABLE)
        if row.library == library and 4 * MIB <= row.num_bytes < 2**31
        if row.machine.startswith(machine) and row.collective.startswith(collective)
    ]


def errors(rows: list[CallRow]) -> list[float]:
    """Absolute errors as shares of the measured times."""
    known = [(row, predict_call(row)) for row in rows]
    return [abs(made.value / row.seconds - 1.0) for row, made in known if isinstance(made, Prediction)]


@pytest.mark.parametrize(
    ("library", "machine", "collective", "num_rows", "mean_abs"),
    [
        ("cray-mpich", "frontier", "all_gather", 57, 0.12),
        ("cray-mpich", "perlmutter", "all_gather", 84, 0.08),
        ("recursive-halving-mpi4py", "frontier", "reduce_scatter", 36, 0.07),
        ("hierarchical-mpi-rccl", "frontier", "all_gather", 36, 0.12),
        ("hierarchical-mpi-rccl", "frontier", "reduce_scatter", 36, 0.10),
        ("hierarchical-mpi-nccl", "perlmutter", "all_gather", 63, 0.10),
        ("hierarchical-nccl-nccl", "perlmutter", "all_gather", 27, 0.16),
    ],
)
def test_large_messages_are_near_the_measured_times(
    library: str, machine: str, collective: str, num_rows: int, mean_abs: float
) -> None:
    result = errors(rows_of(library, machine, collective))
    assert len(result) == num_rows
    assert sum(result) / num_rows <= mean_abs


US, MIB = 1e-6, 2**20
LASSEN = load_machine("lassen")
MVAPICH = load_library("mvapich2-gdr")
KINDS: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")


def test_a_ring_inside_a_node_goes_at_the_pace_of_half_of_the_x_bus() -> None:
    """4 GPUs, 64 MiB: 3 (19.35 us + 16 MiB / (0.635 * 32 GB/s))."""
    expected = 3 * (19.35 * US + 16 * MIB / (0.635 * 32e9))
    assert EqualGroups(LASSEN, 4).seconds(MVAPICH, "all_gather", 64 * MIB) == pytest.approx(expected)


def test_one_rail_carries_the_ring_of_a_node() -> None:
    """192 GPUs on 48 nodes, 192 MiB: 191 (19.35 us + 1 MiB / (0.872 * 12.5 GB/s)), there and back for an all-reduce."""
    groups = EqualGroups(LASSEN, 192)
    expected = 191 * (19.35 * US + MIB / (0.872 * 12.5e9))
    assert groups.seconds(MVAPICH, "reduce_scatter", 192 * MIB) == pytest.approx(expected)
    assert groups.seconds(MVAPICH, "all_reduce", 192 * MIB) == pytest.approx(2 * expected)


def test_an_all_to_all_over_three_leaves_waits_for_the_uplinks() -> None:
    """192 GPUs: 72 under each of two leaves send 120/191 of 191/192 of 192 MiB out, at 0.872 of 225 GB/s; 191 hops."""
    expected = 191 * 19.35 * US + 72 * 120 * MIB / (0.872 * 225e9)
    assert EqualGroups(LASSEN, 192).seconds(MVAPICH, "all_to_all", 192 * MIB) == pytest.approx(expected)


@pytest.mark.parametrize("num_devices", [4, 16, 192])
@pytest.mark.parametrize("kind", KINDS)
def test_no_call_is_faster_than_its_links_and_none_far_slower(kind: CollectiveKind, num_devices: int) -> None:
    """A ring moves (n-1)/n of the message over one NIC or half of the X-Bus; an all-to-all sends what is for other
    nodes over both NICs."""
    groups, nodes = EqualGroups(LASSEN, num_devices), num_devices // 4
    for size in (64 * 1024, MIB, 64 * MIB, 1024 * MIB):
        moved = size * (num_devices - 1) / num_devices * (2 if kind == "all_reduce" else 1)
        least_s = moved / (32e9 if nodes == 1 else 12.5e9)
        if kind == "all_to_all":
            least_s = size / 107e9 / 4 if nodes == 1 else 4 * size * (num_devices - 4) / num_devices / 25e9
        took_s = groups.seconds(MVAPICH, kind, size)
        assert took_s >= least_s
        if size == 1024 * MIB and kind != "all_to_all":
            assert took_s <= 2 * least_s
