"""Dumps of PyTorch's flight recorder: sizes of calls, whose times are taken, what is left out, and what is refused."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from simfrontier.inputs.measured import Reading, Setup, readings
from tests.inputs.measured.tables import read_any, refused

SETUP = Setup(machine="perlmutter", library="nccl", nodes=1)
RECORDED = Path(__file__).parent / "recorded"  # of two ranks with gloo, by torch 2.13: no durations


def entry(number: int, name: str, given: list[list[int]], got: list[list[int]], ms: float | None) -> dict[str, Any]:
    """A call on floats."""
    known = {
        **{"process_group": ("0", "default_pg"), "collective_seq_id": number, "op_id": number, "is_p2p": False},
        **{"profiling_name": name, "state": "completed", "input_sizes": given, "output_sizes": got},
        **{"input_dtypes": ["Float"] * len(given), "output_dtypes": ["Float"] * len(got)},
    }
    return known if ms is None else known | {"duration_ms": ms}


GATHER = entry(1, "nccl:_all_gather_base", [[256]], [[4, 256]], 0.5)
REDUCE = entry(2, "nccl:all_reduce", [[1024, 2]], [[1024, 2]], 0.25)


def dump(*entries: dict[str, Any], ranks: str = "[0, 1, 2, 3]", version: str = "2.4") -> dict[str, Any]:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}}
    return {"version": version, "pg_config": config, "pg_status": {}, "entries": list(entries)}


def written(path: Path, value: object, protocol: int | None = 2) -> Path:
    path.write_bytes(json.dumps(value).encode() if protocol is None else pickle.dumps(value, protocol=protocol))
    return path


def read(*paths: Path, setup: Setup = SETUP) -> Reading:
    (reading,) = readings(paths, setup)
    return reading


def refusal(folder: Path, value: object, setup: Setup = SETUP) -> str:
    return refused(lambda path: read_any(path, setup), written(folder / "rank_0", value))


@pytest.mark.parametrize("protocol", [None, 2, 3, 4, 5])
def test_a_dump_is_read_as_pickle_and_as_json(tmp_path: Path, protocol: int | None) -> None:
    reading = read(written(tmp_path / "rank_0", dump(GATHER, REDUCE), protocol))
    # 4 x 256 floats of 4 bytes are 4,096 bytes, 1024 x 2 of them 8,192; 0.5 and 0.25 ms
    assert [(row.collective, row.devices, row.num_bytes, row.seconds) for row in reading.rows] == [
        ("all_gather", 4, 4096, 0.0005),
        ("all_reduce", 4, 8192, 0.00025),
    ]


def test_the_whole_message_is_the_side_that_has_it(tmp_path: Path) -> None:
    half = {"input_dtypes": ["BFloat16"]}
    entries = [
        entry(1, "nccl:_reduce_scatter_base", [[64]], [[16]], 1.0) | half,  # 64 x 2 bytes
        entry(2, "nccl:all_to_all", [[3], [5], [4], [4]], [[4]] * 4, 1.0),  # (3 + 5 + 4 + 4) x 4 bytes
        entry(3, "nccl:broadcast", [[]], [[]], 1.0),  # a number of 4 bytes
    ]
    rows = read(written(tmp_path / "rank_0", dump(*entries))).rows
    assert [(row.collective, row.num_bytes) for row in rows] == [
        ("all_to_all", 64),
        ("broadcast", 4),
        ("reduce_scatter", 128),
    ]


def test_what_is_not_finished_or_no_collective_is_left_out_and_counted(tmp_path: Path) -> None:
    entries = [
        *(GATHER, REDUCE, entry(3, "nccl:all_reduce", [[1]], [[1]], None) | {"state": "started"}),
        *(entry(4, "nccl:send 0->1", [[1]], [[1]], 1.0), entry(5, "nccl:all_reduce_barrier", [[1]], [[1]], 1.0)),
        *(entry(6, "nccl:all_reduce", [[1]], [[1]], None), entry(7, "nccl:all_reduce", [[0]], [[0]], 1.0)),
    ]
    reading = read(written(tmp_path / "rank_0", dump(*entries)))
    assert len(reading.rows) == 2
    assert reading.said == (
        "Left out: 2 records: barriers, single messages and others of which no times are taken.",
        "Left out: 1 record: no duration.",
        "Left out: 1 record: not finished, or not known to be (started).",
        "Left out: 1 record of one rank, or without bytes or time.",
        "Read: a file of 1 rank, of groups of up to 4: where the rank that came last is missing, times hold waiting.",
    )


def test_a_group_that_no_dump_tells_is_as_large_as_the_user_says(tmp_path: Path) -> None:
    other = GATHER | {"process_group": ("9", "tp")}
    setup = Setup(machine="perlmutter", library="nccl", devices=2)
    rows = read(written(tmp_path / "rank_0", dump(other, REDUCE)), setup=setup).rows
    assert [row.devices for row in rows] == [2, 4]
    assert refusal(tmp_path, dump(other, REDUCE)) == (
        "FILE: 1 measurement, allowed: 2 or more. "
        "Left out: 1 record of a group whose ranks no dump lists (--devices N says how many they are)"
    )


def test_dumps_that_torch_has_written_say_that_they_have_no_durations() -> None:
    """Six collectives and a barrier of either rank, the pickle of one and the JSON of the other."""
    for name in ("gloo_rank_0.pickle", "gloo_rank_1.json"):
        assert refused(lambda path: read_any(path, SETUP), RECORDED / name) == (
            "FILE: 6 calls, and no duration of any; allowed: dumps of a job with TORCH_NCCL_ENABLE_TIMING=1"
        )


def test_dumps_that_torch_has_written_are_read_where_they_have_durations(tmp_path: Path) -> None:
    """The same with durations put in: what torch writes of shapes and groups is what is read."""
    value = json.loads((RECORDED / "gloo_rank_1.json").read_text())
    value["pg_config"]["0"] = value["pg_config"].pop("")  # gloo's recorder lists the ranks under no name
    for each in value["entries"]:
        each |= {"state": "completed", "duration_ms": 0.5}
    rows = read(written(tmp_path / "rank_1.json", value, None)).rows
    assert [(row.collective, row.devices, row.num_bytes) for row in rows] == [
        ("all_gather", 2, 64),  # 2 x 8 floats
        ("all_gather", 2, 2048),
        ("all_reduce", 2, 1024),
        ("all_reduce", 2, 4096),
        ("all_to_all", 2, 32),
        ("broadcast", 2, 4096),
    ]


class Touches:
    """Unpickled by Python it makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_calls_something_is_refused_and_nothing_is_called(tmp_path: Path) -> None:
    made = tmp_path / "made"
    data = pickle.dumps({"version": Touches(made)}, protocol=2)
    (tmp_path / "rank_0").write_bytes(data)
    message = refused(lambda file: read_any(file, SETUP), tmp_path / "rank_0")
    assert message.endswith("names posix.mkdir; allowed: plain values alone")
    assert not made.exists()
    pickle.loads(data)
    assert made.exists()  # the pickle was a live one
