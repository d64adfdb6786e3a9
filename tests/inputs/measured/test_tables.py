"""CSV tables of calls, copies, rates and kernels: what is read, what rows work out, and one line for what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from simfrontier.inputs.measured import CallRow, RowPlace, read_calls
from simfrontier.inputs.measured.rows import kind_of
from simfrontier.inputs.measured.tables import read_copies, read_kernels, read_rates
from tests.inputs.measured.tables import refused

CALLS = "machine,collective,library,devices,bytes,time_s,source"
ONE = "frontier,all_gather,rccl,8,1048576,0.000151,lab"
TWO = "frontier,all_gather,rccl,8,2097152,0.00016,lab"
COPIES = "machine,benchmark,scope,path_class,gcd_pair,bytes,library,value,unit,source"
BW = "lumi-g,osu_bw,intra-node,4 links,0-1,1000000,cray-mpich,50,GB/s,lab"
MATMULS = "machine,quantity,value,status,source,statistic,dtype,m,n,k"
MATMUL = "frontier,seconds,0.5,measured,lab,best,bf16,1000,2000,3000"
TRAININGS = "machine,quantity,value,status,source,model,plan,devices"
TRAINING = "frontier,machine_flops_per_s,8e15,paper,lab,20B,zero3,64"
KERNELS = "machine,kernel,dtype,shape,bytes,flops,statistic,time_s,status,source"


def table(folder: Path, *lines: str, end: str = "\n") -> Path:
    path = folder / "mine.csv"
    path.write_bytes((end.join(lines) + end).encode())
    return path


def test_rows_are_read_in_order_with_their_lines(tmp_path: Path) -> None:
    path = table(tmp_path, CALLS, ONE, "", TWO.replace("all_gather", "Allgather"))
    first = CallRow(
        machine="frontier",
        collective="all_gather",
        library="rccl",
        devices=8,
        num_bytes=1 << 20,
        seconds=0.000151,
        source="lab",
        place=RowPlace(str(path), 2),
    )
    assert read_calls(path) == (first, replace(first, num_bytes=1 << 21, seconds=0.00016, place=RowPlace(str(path), 4)))
    assert read_calls(path, "mine")[0].place == RowPlace("mine", 2)


def test_order_of_columns_others_beside_them_a_mark_and_ends_of_lines_do_not_matter(tmp_path: Path) -> None:
    lines = (
        "\ufeffnote,source,time_s,bytes,devices,library,collective,machine,nodes,packages",
        '"a, b",lab,1.51e-4,1048576,8,rccl,all_gather,frontier,2,8',
        "c,,2e-4,2097152,8,rccl,bcast,frontier,,",
    )
    (first, second) = read_calls(table(tmp_path, *lines, end="\r\n"), "mine.csv")
    assert (first.seconds, first.nodes, first.packages) == (0.000151, 2, 8)
    assert (second.collective, second.nodes, second.packages) == ("broadcast", None, None)
    assert second.source == "mine.csv"  # without a source of its own, the file is it


def test_a_row_may_say_the_devices_of_its_groups(tmp_path: Path) -> None:
    rows = read_calls(
        table(tmp_path, CALLS + ",groups,read_off", ONE.replace(",8,", ",2,") + ",0-2 1-3,shares.nic", TWO + ",,")
    )
    assert [(row.groups, row.read_off) for row in rows] == [(((0, 2), (1, 3)), "shares.nic"), ((), "")]


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
    ("read", "lines", "place", "said"),
    [
        (read_calls, [CALLS, ONE, TWO, ONE], "line 4", "the same row as line 2"),
        (read_calls, [CALLS, ONE.replace("0.000151", "151"), TWO], "line 2", "looks like microseconds"),
        (read_calls, [f"{CALLS},groups", f"{ONE},0-2 2-3"], "line 2: groups", "every device once"),
        (read_copies, [COPIES, BW.replace("GB/s", "us")], "line 2: unit", "GB/s or MB/s"),
        (read_rates, [MATMULS, MATMUL.replace("seconds", "share_of_peak")], "line 2: quantity", "seconds or flops"),
        (read_kernels, [KERNELS, "m,adam,fp32,9,8,7,best,1,paper,s"], "line 2: flops", "nothing for other kernels"),
    ],
)
def test_a_wrong_table_is_one_line_with_its_place(
    tmp_path: Path, read: Callable[[Path], object], lines: list[str], place: str, said: str
) -> None:
    message = refused(read, table(tmp_path, *lines))
    assert message.startswith(f"FILE {place}: ") and said in message


def test_kinds_are_known_in_the_spellings_that_are_used() -> None:
    for spelling in ("all_gather", "allgather", "AllGather", "All-Gather", "all gather"):
        assert kind_of(spelling) == "all_gather"
    assert [kind_of(name) for name in ("bcast", "reduceScatter", "alltoall", "gather")] == [
        "broadcast",
        "reduce_scatter",
        "all_to_all",
        None,
    ]
