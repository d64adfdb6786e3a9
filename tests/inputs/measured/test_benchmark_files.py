"""Files that nccl-tests (JSON) and rccl-tests (JSON, CSV) write: which ranks and times they are of, and wrong ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simfrontier.inputs.measured import CallRow, Setup, readings
from tests.inputs.measured.tables import read_any, refused, shipped
from tests.inputs.measured.writers import nccl_document

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


def test_in_place_times_are_taken_where_there_are_no_others(tmp_path: Path) -> None:
    value = document()
    for result in value["results"]:
        result["out_of_place"] = None
    path = tmp_path / "x.json"
    path.write_text(json.dumps(value))
    assert [row.seconds for row in read_any(path, SETUP)] == pytest.approx([2 * row.seconds for row in ROWS])


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
    value["results"][1]["out_of_place"]["nwrong"] = 3.0
    path = tmp_path / "x.json"
    path.write_text(json.dumps(value))
    (reading,) = readings([path], SETUP)
    assert [row.seconds for row in reading.rows] == [ROWS[0].seconds, ROWS[2].seconds]
    assert reading.said == ("Left out: 1 line: wrong results.",)
