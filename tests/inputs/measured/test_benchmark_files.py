"""Files that nccl-tests (JSON) and rccl-tests (JSON, CSV) write: which ranks and times they are of, and wrong ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simfrontier.inputs.measured import CallRow, Setup, readings
from tests.inputs.measured.tables import read_any, refused, shipped
from tests.inputs.measured.writers import nccl_document
from tests.invoke import invoke, refusal as refused_command

SETUP = Setup(machine="perlmutter", library="nccl")
OF_16 = [row for row in shipped("nccl_perlmutter", CallRow) if row.devices == 16 and row.collective == "all_gather"]
ROWS = [row for row in OF_16 if row.source == OF_16[0].source][:3]
RCCL = (
    '{{"numCycle":{cycle}, "name":"AllReduce", "nodes":{nodes}, "ranks":16, "ranksPerNode":{each}, "gpusPerRank":1, '
    '"size":{size}, "type":"float", "redop":"sum", "inPlace":{side}, "time":{time}, "algBw":1.0, "busBw":1.9, '
    '"wrong":"{wrong}"}}'
)


def document() -> dict[str, Any]:
    return nccl_document("all_gather", ROWS, nodes=4, per_node=4)


def rccl(**changes: object) -> str:
    known: dict[str, object] = {"cycle": 0, "nodes": 1, "each": 16, "size": 1024, "side": 0, "time": 12.5, "wrong": 0}
    return RCCL.format(**(known | changes))


def test_each_listed_device_stands_for_all_of_its_process(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document()))
    rows = read_any(path, SETUP)  # 4 processes with 4 GPUs each are listed as 4 devices, and are 16 ranks on 4 nodes
    assert {(row.devices, row.nodes, row.packages) for row in rows} == {(16, 4, 16)}
    assert [row.seconds for row in rows] == [row.seconds for row in ROWS]


def test_in_place_times_are_taken_where_there_are_no_others(tmp_path: Path) -> None:
    value = document()
    for result in value["results"]:
        result["out_of_place"] = None
    path = tmp_path / "x.json"
    path.write_text(json.dumps(value))
    assert [row.seconds for row in read_any(path, SETUP)] == pytest.approx([2 * row.seconds for row in ROWS])


def change(value: dict[str, Any], *keys: str | int, to: object) -> None:
    for key in keys[:-1]:
        value = value[key]  # type: ignore[index]
    value[keys[-1]] = to  # type: ignore[index]


def test_a_printed_table_with_times_of_day_is_read_at_its_times(tmp_path: Path) -> None:
    names = "time   algbw   busbw  #wrong"
    path = tmp_path / "all_gather_perf.log"
    path.write_text(
        "# Using devices\n#  Rank  0 Group  0 Pid 1 on n0 device  0 [0] X\n"
        "#  Rank  1 Group  0 Pid 2 on n0 device  1 [0] X\n"
        f"#       size         count      type   redop    root     {names}     {names}           timestamp\n"
        "     1048576     262144  float  none  -1   12.50  83.9  41.94  0  13.50  77.7  38.8  0  2025-10-01 12:00:00\n"
        "     2097152     524288  float  none  -1   22.50  93.2  46.60  0  23.50  89.2  44.6  0  2025-10-01 12:00:00\n"
    )
    assert [row.seconds for row in read_any(path, SETUP)] == [12.5e-6, 22.5e-6]


@pytest.mark.parametrize("joined", ["[\n{}\n]\n", "{}\n"])
def test_cycles_of_rccl_tests_become_their_median(tmp_path: Path, joined: str) -> None:
    """A list, and a line for each object as before 2025."""
    times = [10.0, 30.0, 14.5]
    objects = [rccl(cycle=cycle, time=time) for cycle, time in enumerate(times)]
    objects += [rccl(cycle=cycle, side=1, time=1.0) for cycle in range(3)] + [rccl(size=2048), rccl(size=0)]
    path = tmp_path / "x.json"
    path.write_text(joined.format((",\n" if "[" in joined else "\n").join(objects)))
    rows = read_any(path, Setup(machine="frontier", library="rccl"))
    assert [(row.num_bytes, row.seconds) for row in rows] == [(1024, 14.5e-6), (2048, 12.5e-6)]
    assert {(row.collective, row.devices, row.nodes) for row in rows} == {("all_reduce", 16, None)}


def test_what_rccl_tests_call_nodes_only_the_user_can_read(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(f"[{rccl(nodes=2, each=8)}, {rccl(nodes=2, each=8, size=4096)}]")
    setup = Setup(machine="frontier", library="rccl")
    assert refused(lambda file: read_any(file, setup), path).startswith("FILE: [0]: nodes: got 2, of which rccl-tests")
    assert {row.devices for row in read_any(path, Setup(machine="frontier", library="rccl", devices=8))} == {8}


def test_a_line_of_wrong_results_in_a_file_of_nccl_tests_is_left_out(tmp_path: Path) -> None:
    value = document()
    change(value, "results", 1, "out_of_place", "nwrong", to=3.0)
    path = tmp_path / "x.json"
    path.write_text(json.dumps(value))
    (reading,) = readings([path], SETUP)
    assert [row.seconds for row in reading.rows] == [ROWS[0].seconds, ROWS[2].seconds]
    assert reading.said == ("Left out: 1 line: wrong results.",)


def test_the_csv_of_rccl_tests_is_no_table_of_ours(tmp_path: Path) -> None:
    """It is not fitted by itself, and a line with other cells than its head has is told."""
    head = "numCycle,collective,ranks,rankspernode,gpusperrank,size,type,redop,inplace,time,algbw,busbw,#wrong\n"
    line = '0,"AllReduce",1,16,16,1,{},"float","sum",0,12.500000,1.0,1.9,"0"\n'
    path = tmp_path / "x.csv"
    path.write_text(head + line.format(1024) + line.format(4096))
    options = ("--machine", "frontier", "--library", "rccl", "--nodes", "2")
    ran = invoke("calibrate", path, *options, "--out", tmp_path / "mine.toml")
    assert (ran.code, ran.err) == (0, "") and "all_reduce" in ran.out
    path.write_text(head + line.format(1024) + "0,1\n")
    assert refused_command("calibrate", path, *options, "--out", tmp_path / "mine.toml") == (
        f"{path} line 3: 2 values, allowed: 14, one for each column"
    )


def test_a_folder_is_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    assert (
        refused_command("validate", folder)
        == f"{folder}: no files in this folder, allowed: a file, or a folder with files"
    )
    (folder / ".hidden").write_text("x")
    (folder / "a.json").write_text(json.dumps(document()))
    (folder / "b.json").write_text(f"[{rccl()}, {rccl(size=4096)}]")
    options = ("--machine", "perlmutter", "--library", "nccl", "--nodes", "4")
    ran = invoke("validate", "--data", folder, *options, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert sorted(json.loads(ran.out)["tables"]) == ["a.json", "b.json"]
