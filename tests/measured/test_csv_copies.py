"""Reading copies and rates from CSV, and what rows work out: seconds, bytes/s, flop/s."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.measured.csv_copies import read_copies
from simfrontier.measured.csv_rates import read_rates
from simfrontier.measured.place import RowPlace
from simfrontier.measured.rows import kind_of
from tests.measured.tables import AGAIN, refused

COPIES = "machine,benchmark,scope,path_class,gcd_pair,bytes,library,value,unit,source"
BW = "lumi-g,osu_bw,intra-node,4 links,0-1,1000000,cray-mpich,50,GB/s,lab"
MATMULS = "machine,quantity,value,status,source,statistic,dtype,m,n,k"
MATMUL = "frontier,seconds,0.5,measured,lab,best,bf16,1000,2000,3000"
TRAININGS = "machine,quantity,value,status,source,model,plan,devices"
TRAINING = "frontier,machine_flops_per_s,8e15,paper,lab,20B,zero3,64"


def table(folder: Path, *lines: str) -> Path:
    path = folder / "mine.csv"
    path.write_text("\n".join(lines))
    return path


def test_seconds_follow_from_what_a_benchmark_prints(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        COPIES,
        BW,  # 1 MB at 50 GB/s: 20 us
        BW.replace("50,GB/s", "50000,MB/s"),
        BW.replace("osu_bw", "osu_bibw"),  # 1 MB each way, 50 GB/s both ways together: 40 us
        BW.replace("osu_bw", "osu_latency").replace("50,GB/s", "12.5,us"),  # 12.5 us, 1 MB in that: 80 GB/s
    )
    rows = read_copies(path)
    assert [row.seconds for row in rows] == pytest.approx([20e-6, 20e-6, 40e-6, 12.5e-6])
    assert [row.bytes_per_s for row in rows] == pytest.approx([50e9, 50e9, 50e9, 80e9])
    assert (rows[0].pair, rows[0].path_class, rows[0].place) == ("0-1", "4 links", RowPlace(str(path), 2))


def test_rates_of_matrix_products(tmp_path: Path) -> None:
    lines = (MATMULS, MATMUL, MATMUL.replace("seconds,0.5", "flops_per_s,6e9"), MATMUL.replace("1000,2000,3000", ",,"))
    by_time, by_rate, unknown = read_rates(table(tmp_path, *lines))
    # 2 × 1000 × 2000 × 3000 = 1.2e10 operations
    assert (by_time.flops, by_time.flops_per_s, by_time.seconds) == (12_000_000_000, 2.4e10, 0.5)
    assert (by_rate.flops_per_s, by_rate.seconds) == (6e9, 2.0)
    assert (unknown.flops, unknown.flops_per_s, unknown.seconds) == (None, None, 0.5)


def test_rates_of_training(tmp_path: Path) -> None:
    share = TRAINING.replace("machine_flops_per_s,8e15", "share_of_peak,0.38")
    whole, part, unknown = read_rates(table(tmp_path, TRAININGS, TRAINING, share, TRAINING.replace(",64", ",")))
    assert (whole.flops_per_s, whole.seconds, whole.devices) == (125e12, None, 64)  # 8e15 / 64
    assert (part.flops_per_s, part.value) == (None, 0.38)
    assert (unknown.flops_per_s, unknown.devices) == (None, None)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([COPIES, BW.replace("osu_bw", "osu_bv")], 'FILE line 2: benchmark: got "osu_bv"; did you mean "osu_bw"?'),
        ([COPIES, BW.replace("GB/s", "us")], 'FILE line 2: unit: got "us", allowed: GB/s or MB/s of osu_bw'),
        (
            [COPIES, BW.replace("osu_bw", "osu_latency")],
            'FILE line 2: unit: got "GB/s", allowed: us of osu_latency',
        ),
        (
            [COPIES, BW.replace("intra-node", "node")],
            'FILE line 2: scope: got "node"; allowed: inter-node, intra-node',
        ),
        ([COPIES, BW.replace("50,", "-50,")], 'FILE line 2: value: got "-50", allowed: a number above 0'),
        (
            [COPIES, BW, BW],
            f"FILE line 3: {AGAIN}",
        ),
    ],
)
def test_a_wrong_table_of_copies_is_one_line(tmp_path: Path, lines: list[str], message: str) -> None:
    assert refused(read_copies, table(tmp_path, *lines)) == message


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [MATMULS.replace("dtype", "type"), MATMUL],
            'FILE line 1: missing columns: dtype; got "type", did you mean "dtype"?',
        ),
        (
            [MATMULS, MATMUL.replace("seconds", "share_of_peak")],
            'FILE line 2: quantity: got "share_of_peak"; allowed: flops_per_s, seconds',
        ),
        ([MATMULS, MATMUL.replace("1000", "0")], 'FILE line 2: m: got "0", allowed: a whole number of 1 or more'),
        (
            [TRAININGS, TRAINING.replace("8e15", "nan")],
            'FILE line 2: value: got "nan", allowed: a number of machine_flops_per_s above 0',
        ),
        ([TRAININGS, TRAINING.replace("paper", "papr")], 'FILE line 2: status: got "papr"; did you mean "paper"?'),
        (
            [TRAININGS, TRAINING, TRAINING],
            f"FILE line 3: {AGAIN}",
        ),
    ],
)
def test_a_wrong_table_of_rates_is_one_line(tmp_path: Path, lines: list[str], message: str) -> None:
    assert refused(read_rates, table(tmp_path, *lines)) == message


def test_kinds_are_known_in_the_spellings_that_are_used() -> None:
    for spelling in ("all_gather", "allgather", "AllGather", "All-Gather", "all gather"):
        assert kind_of(spelling) == "all_gather"
    assert [kind_of(name) for name in ("bcast", "reduceScatter", "alltoall", "gather")] == [
        "broadcast",
        "reduce_scatter",
        "all_to_all",
        None,
    ]
