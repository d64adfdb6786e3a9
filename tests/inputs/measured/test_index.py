"""The shipped tables: all rows of the published ones, their sources, and which of them are known faults."""

from __future__ import annotations

from math import fsum

import pytest

from simfrontier.inputs.measured import CallRow, CopyRow, RateRow, Table, load_table, load_tables
from tests.inputs.measured.tables import shipped

# Rows, sums of devices and bytes, and sum of the times: of the published tables, worked out apart from this reader.
CALLS = {
    "rccl_frontier": (88, 22_440, 17_171_480_576, 0.822169),
    "lumi_rccl_one_node": (53, 424, 35_650_716, 0.00274316),
    "nccl_perlmutter": (150, 22_528, 57_798_557_696, 1.163518),
    "nccl_in_node": (504, 2_352, 27_610_490_880, 0.09062153),
    "nccl_in_node_others": (1013, 4_354, 55_987_935_232, 0.121509525),
    "nccl_in_node_pcie": (336, 1_568, 18_406_993_920, 3.24374079),
    "mpi_and_hierarchical": (411, 88_384, 96_484_720_640, 4.553091),
    "lumi_mpi_collectives": (64, 832, 80_802_992, 0.01815117),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_call_of_the_published_tables_is_there(name: str) -> None:
    rows = shipped(name, CallRow)
    assert len(rows) == len(load_table(name).rows)
    got = len(rows), sum(row.devices for row in rows), sum(row.num_bytes for row in rows)
    assert got == CALLS[name][:3]
    assert fsum(row.seconds for row in rows) == pytest.approx(CALLS[name][3], rel=1e-12)


def test_every_copy_of_the_published_tables_is_there() -> None:
    lumi, lab = shipped("lumi_p2p", CopyRow), shipped("mi250x_p2p_16MiB", CopyRow)
    assert (len(lumi), sum(row.num_bytes for row in lumi)) == (74, 694_147_858)
    assert fsum(row.value for row in lumi) == pytest.approx(2778.233005, rel=1e-12)
    assert [row.benchmark for row in lab] == ["kernel_copy", "sdma_copy"] * 7
    assert fsum(row.value for row in lab[::2]) == pytest.approx(435062.83, rel=1e-12)
    assert fsum(row.value for row in lab[1::2]) == pytest.approx(315210.73, rel=1e-12)
    assert {row.num_bytes for row in lab} == {1 << 24}


def test_matrix_products_are_those_of_the_sources() -> None:
    rates = shipped("compute_rates", RateRow)
    known = {(row.machine, row.statistic, row.m, row.flops_per_s) for row in rates if row.m != 32768}
    coral = {("frontier", "reference", edge, rate) for edge, rate in zip(EDGES, CORAL, strict=True)}
    others = {("frontier", 127e12), ("frontier", 147e12), ("perlmutter", 271e12)}
    assert coral <= known
    assert others == {(row[0], row[3]) for row in known if row[1] == "best shape found"}
    # 2 × 32768³ = 7.0369e13 operations, in 0.529, 0.557 and 0.601 s
    big = {(row.machine, row.statistic): row.flops_per_s or 0.0 for row in rates if row.m == 32768}
    assert [round(big["frontier", which] / 1e12) for which in ("best", "typical", "worst")] == [133, 126, 117]
    assert [round(big["perlmutter", which] / 1e12, 1) for which in ("p01", "median", "p99")] == [275.1, 258.7, 251.4]


EDGES = (3200, 6400, 12800, 32000)  # the source gives bytes of the result's 4-byte elements
CORAL = (93.0e12, 108.6e12, 119.8e12, 87.5e12)


def faults(table: Table) -> set[tuple[object, ...]]:
    return {
        (getattr(row, "devices", None), getattr(row, "num_bytes", None), row.place)
        for row in table.rows
        if table.pathology_of(row) is not None
    }


def test_known_faults_are_marked_and_nothing_else() -> None:
    marked = {(table.name, devices, size) for table in load_tables() for devices, size, _ in faults(table)}
    assert marked == {
        *(("rccl_frontier", devices, 1 << 20) for devices in (128, 256, 512, 1024)),
        *(("mpi_and_hierarchical", devices, 1 << 31) for devices in (32, 128)),  # of both machines
        ("lumi_mpi_collectives", 16, 128),
        *(("lumi_p2p", None, size) for size in (1, 128)),
    }
    assert len(faults(load_table("mpi_and_hierarchical"))) == 4
