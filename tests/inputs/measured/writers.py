"""What programs that measure would have written of rows: each format as its source says, all ranks' files included.

Each writer gets the rows of one source among one number of devices, `per_node` of them on a node, and a folder; it
gives the files back. Where ranks write files of their own, the last rank has the row's time; others came earlier and
waited. Of groups of more than 64 ranks the files of 8 are written, the last one's among them.
"""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from simfrontier.inputs.measured import CallRow

Write = Callable[[Sequence[CallRow], int, Path], list[Path]]
TESTS = {"all_gather": "all_gather_perf", "reduce_scatter": "reduce_scatter_perf", "all_reduce": "all_reduce_perf"}
NCCL_NAMES = {"all_gather": "AllGather", "reduce_scatter": "ReduceScatter", "all_reduce": "AllReduce"}
TORCH_NAMES = {
    "all_gather": "nccl:_all_gather_base",
    "reduce_scatter": "nccl:_reduce_scatter_base",
    "all_reduce": "nccl:all_reduce",
}
OPS = {
    "all_gather": "all_gather_into_tensor",
    "reduce_scatter": "reduce_scatter_tensor",
    "all_reduce": "all_reduce",
}
OSU_NAMES = {"all_gather": "Allgather", "reduce_scatter": "Reduce_scatter", "all_reduce": "Allreduce"}


def micros(row: CallRow) -> float:
    return row.seconds * 1e6


def part(row: CallRow) -> int:
    """Bytes of one rank, of a message that is whole on each."""
    assert row.num_bytes % row.devices == 0
    return row.num_bytes // row.devices


def by_kind(rows: Sequence[CallRow]) -> Iterator[tuple[str, list[CallRow]]]:
    def kind(row: CallRow) -> str:
        return row.collective

    for name, several in groupby(sorted(rows, key=kind), key=kind):
        yield name, list(several)


# ── nccl-tests, rccl-tests, OSU ──


def nccl_text(rows: Sequence[CallRow], per_node: int, folder: Path) -> list[Path]:
    """The printed table of each test, with -S: the time at the end of each line (src/util.cu, getFloatStr)."""
    paths = []
    for kind, several in by_kind(rows):
        lines = [f"# Collective test starting: {TESTS[kind]}", "# Using devices"]
        for rank in range(rows[0].devices):
            node, device = divmod(rank, per_node)
            lines.append(
                f"#  Rank {rank:2} Group  0 Pid {rank + 9:6} on    node{node} device {device:2} [0000:c1:00] X"
            )
        names = "time algbw busbw #wrong"
        lines += ["#", f"#       size         count      type   redop    root {names} {names} timestamp"]
        for row in several:
            assert micros(row) < 1e7
            side = f"  {printed_us(micros(row)):>7}   10.67    8.00      0"
            line = f"{row.num_bytes:12}  {row.num_bytes // 2:12}  bfloat16    none      -1{side}{side}"
            lines.append(f"{line}  2025-10-01 12:00:00")
        path = folder / f"{kind}.log"
        path.write_text("\n".join([*lines, "# Avg bus bandwidth    : 9", ""]))
        paths.append(path)
    return paths


def printed_us(value: float) -> str:
    decimals = 2 if value < 1e4 else 1 if value < 1e5 else 0
    return f"{value:7.{decimals}f}"


def nccl_json(rows: Sequence[CallRow], per_node: int, folder: Path) -> list[Path]:
    """The file of -J for each test; each process has all devices of a node as threads, and lists its first alone."""
    paths = []
    for kind, several in by_kind(rows):
        nodes = rows[0].devices // per_node
        path = folder / f"{kind}.json"
        path.write_text(json.dumps(nccl_document(kind, several, nodes, per_node), separators=(",", ":")))
        paths.append(path)
    return paths


def nccl_document(kind: str, rows: Sequence[CallRow], nodes: int, per_node: int) -> dict[str, Any]:
    def side(row: CallRow, factor: float) -> dict[str, Any]:
        return {"time": round(micros(row) * factor, 6), "alg_bw": 10.0, "bus_bw": 9.0, "nwrong": 0.0}

    devices = [
        {"rank": node * per_node, "group": 0, "pid": 900 + node, "hostname": f"nid{node:06}", "device": 0}
        for node in range(nodes)
    ]
    results = [
        {"size": row.num_bytes, "type": "bfloat16", "out_of_place": side(row, 1.0), "in_place": side(row, 2.0)}
        for row in rows
    ]
    return {
        "version": 2,
        "start_time": "2025-10-01 12:00:00",
        "args": [f"./build/{TESTS[kind]}", "-b", "1M", "-J", "x.json"],
        "nccl_version": 22703,
        "config": {"nthreads": 1, "ngpus": per_node, "iterations": 20, "validation": 1, "devices": devices},
        "results": results,
        "average_bus_bandwidth": {"bandwidth": 9.0, "okay": "unchecked"},
        "end_time": "2025-10-01 12:01:00",
    }


def rccl_cells(row: CallRow, in_place: int) -> dict[str, str]:
    """A result as class Reporter gives it; `ranksPerNode` are the processes of the communicator."""
    time = micros(row) * (1 + in_place)
    return {
        **{"numCycle": "0", "name": f'"{NCCL_NAMES[row.collective]}"', "nodes": "1", "ranks": f"{row.devices}"},
        **{"ranksPerNode": f"{row.devices}", "gpusPerRank": "1", "size": f"{row.num_bytes}", "type": '"bfloat16"'},
        **{"redop": '"none"', "inPlace": f"{in_place}", "time": f"{time:f}", "algBw": "10.000000"},
        **{"busBw": "9.000000", "wrong": '"0"'},
    }


def rccl_json(rows: Sequence[CallRow], _: int, folder: Path) -> list[Path]:
    objects = [
        "{" + ", ".join(f'"{name}":{value}' for name, value in rccl_cells(row, side).items()) + "}"
        for row in rows
        for side in (0, 1)
    ]
    path = folder / "rccl.json"
    path.write_text("[\n" + ",\n".join(objects) + "\n]\n")
    return [path]


def rccl_csv(rows: Sequence[CallRow], _: int, folder: Path) -> list[Path]:
    """Its head has no name for the cell of `nodes`."""
    head = "numCycle,collective,ranks,rankspernode,gpusperrank,size,type,redop,inplace,time,algbw,busbw,#wrong"
    lines = [",".join(rccl_cells(row, side).values()) for row in rows for side in (0, 1)]
    path = folder / "rccl.csv"
    path.write_text("\n".join([head, *lines, ""]))
    return [path]


def osu(rows: Sequence[CallRow], _: int, folder: Path) -> list[Path]:
    """The lines of version 7, with columns of other statistics behind the mean."""
    lines = []
    for kind, several in by_kind(rows):
        lines += [f"# OSU MPI-ROCM {OSU_NAMES[kind]} Latency Test v7.5", "# Datatype: MPI_CHAR."]
        lines.append("# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations  P50 Tail Lat(us)")
        for row in several:
            size = part(row) if kind == "all_gather" else row.num_bytes
            lines.append(f"{size:<10}{micros(row):18.2f}{1.0:18.2f}{1e9:18.2f}{100:12}{2.0:18.2f}")
    path = folder / "osu.txt"
    path.write_text("\n".join([*lines, ""]))
    return [path]


# ── files of ranks ──


def ranks_of(devices: int) -> list[int]:
    return list(range(devices)) if devices <= 64 else [*range(7), devices - 1]


def waited(row: CallRow, rank: int) -> int:
    """Microseconds of a rank in the call: the last rank waits for none."""
    return round(micros(row)) + 7 * (row.devices - 1 - rank)


def inspector(rows: Sequence[CallRow], per_node: int, folder: Path) -> list[Path]:
    """A log for each rank in one folder (inspector_json.cc, v4.2): a line with statistics, then a line for each call,
    and one of a single message."""
    folder = folder / "nccl-inspector-1"
    folder.mkdir()
    for rank in ranks_of(rows[0].devices):
        (folder / f"nid{rank // per_node:06}-pid{rank}.log").write_text("".join(inspector_lines(rows, per_node, rank)))
    return [folder]


def inspector_lines(rows: Sequence[CallRow], per_node: int, rank: int) -> Iterator[str]:
    devices = rows[0].devices
    header = {"id": "0x7f8c496ae9f661", "comm_name": "unknown", "rank": rank}
    header |= {"n_ranks": devices, "nnodes": devices // per_node}
    metadata = {"inspector_output_format_version": "v4.2", "hostname": f"nid{rank // per_node:06}", "pid": rank}
    bodies: list[dict[str, Any]] = [{"dump_stats": {"coll_records": len(rows), "coll_dropped_total": 0}}]
    for number, row in enumerate(rows):
        size = row.num_bytes if row.collective == "all_reduce" else part(row)
        perf = {"coll": NCCL_NAMES[row.collective], "coll_algo": "RING", "coll_proto": "SIMPLE", "coll_sn": number}
        perf |= {"coll_msg_size_bytes": size, "coll_exec_time_us": waited(row, rank)}
        bodies.append({"coll_perf": perf | {"coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 1.5}})
    bodies.append({"p2p_perf": {"p2p": "Send", "p2p_sn": 0, "p2p_peer": 1, "p2p_exec_time_us": 3}})
    for body in bodies:
        yield json.dumps({"header": header, "metadata": metadata} | body, separators=(",", ":")) + "\n"


def flight_pickles(rows: Sequence[CallRow], _: int, folder: Path) -> list[Path]:
    """The default files of all ranks, by the same opcodes as torch's pickler (protocol 2)."""
    paths = []
    for rank in ranks_of(rows[0].devices):
        path = folder / f"nccl_trace_rank_{rank}"
        path.write_bytes(pickle.dumps(flight_dump(rows, rank), protocol=2))
        paths.append(path)
    return paths


def flight_jsons(rows: Sequence[CallRow], _: int, folder: Path) -> list[Path]:
    """The same by _dump_nccl_trace_json: keys in alphabetical order, tuples as lists; the files of two ranks alone."""
    paths = []
    for rank in (0, rows[0].devices - 1):
        path = folder / f"rank_{rank}.json"
        path.write_text(json.dumps(flight_dump(rows, rank), sort_keys=True, separators=(",", ":")))
        paths.append(path)
    return paths


def flight_dump(rows: Sequence[CallRow], rank: int) -> dict[str, Any]:
    """The dump of a rank: its calls, then a barrier and a call that has not ended."""
    entries = [flight_entry(row, number, waited(row, rank)) for number, row in enumerate(rows, 1)]
    last = flight_entry(rows[0], len(rows) + 1, None) | {"state": "started"}
    barrier = flight_entry(rows[0], len(rows) + 2, 5) | {"profiling_name": "nccl:all_reduce_barrier"}
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(rows[0].devices)))}}
    return {
        "version": "2.10",
        "pg_config": config,
        "pg_status": {"0": {"last_enqueued_collective": 9}},
        "entries": [*entries, barrier, last],
    }


def flight_entry(row: CallRow, number: int, time_us: int | None) -> dict[str, Any]:
    whole = row.num_bytes // 2
    given, got = {
        "all_gather": (whole // row.devices, whole),
        "reduce_scatter": (whole, whole // row.devices),
        "all_reduce": (whole, whole),
    }[row.collective]
    entry = {
        **{"process_group": ("0", "default_pg"), "collective_seq_id": number, "op_id": number, "is_p2p": False},
        **{"profiling_name": TORCH_NAMES[row.collective], "state": "completed", "time_created_ns": 1 << 60},
        **{"input_sizes": [[given]], "input_dtypes": ["BFloat16"]},
        **{"output_sizes": [[got]], "output_dtypes": ["BFloat16"]},
    }
    if time_us is not None:
        (entry["duration_ms"],) = struct.unpack("f", struct.pack("f", time_us / 1e3))  # a float of C++
    return entry


# ── DeepSpeed ──


def converted(size: int) -> str:
    """convert_size of comms_logging.py."""
    unit = 0
    while size >= 1024 ** (unit + 1):
        unit += 1
    return f"{round(size / 1024**unit, 2)} {('B', 'KB', 'MB', 'GB', 'TB')[unit]}"


def logged_bytes(row: CallRow) -> int:
    return part(row) if row.collective == "all_gather" else row.num_bytes


def rates(row: CallRow) -> tuple[float, float]:
    """Gbit/s as calc_bw_log gives them, of the whole message; an all-reduce counts it twice."""
    factor = 2 if row.collective == "all_reduce" else 1
    rate = factor * row.num_bytes / (row.seconds * 1e3) * 8 / 1e6
    return rate, rate * (row.devices - 1) / row.devices


def deepspeed_lines(rows: Sequence[CallRow], _: int, folder: Path) -> list[Path]:
    lines = ["[2025-10-01 12:00:00,000] [INFO] [config.py:1] hello"]
    for row in rows:
        rate, bus = rates(row)
        lines.append(
            f"[2025-10-01 12:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] comm op: {OPS[row.collective]} | "
            f"time (ms): {row.seconds * 1e3:.2f} | msg size: {converted(logged_bytes(row))} | "
            f"algbw (Gbps): {rate:.2f} | busbw (Gbps): {bus:.2f}"
        )
    path = folder / "train.log"
    path.write_text("\n".join([*lines, ""]))
    return [path]


def deepspeed_table(rows: Sequence[CallRow], _: int, folder: Path) -> list[Path]:
    """The printed summary of calls that were made once."""
    heads = ("Comm. Op", "Message Size", "Count", "Total Latency(ms)", "Avg Latency(ms)", "tput_avg (Gbps)")
    lines = ["".join(f"{head: <20}" for head in (*heads, "busbw_avg (Gbps)"))]
    for kind, several in by_kind(rows):
        lines.append(OPS[kind])
        for row in several:
            numbers = (row.seconds * 1e3, row.seconds * 1e3, *rates(row))
            lines.append(
                f"{' ': <20}{converted(logged_bytes(row)): <20}{1: <20}"
                + "".join(f"{number: <20.2f}" for number in numbers)
            )
    path = folder / "summary.txt"
    path.write_text("\n".join([*lines, ""]))
    return [path]


def deepspeed_dict(rows: Sequence[CallRow], _: int, folder: Path) -> list[Path]:
    """log_summary(show_straggler=True, return_dict=True) as JSON."""
    summary: dict[str, Any] = {}
    least: dict[str, Any] = {}
    for row in rows:
        size, time = logged_bytes(row), row.seconds * 1e3
        shared = {"count": 3, "msg_size_bytes": size, "msg_size_str": converted(size)}
        mean = {"total_latency_ms": 6 * time, "avg_latency_ms": 2 * time, "tput_avg_gbps": 1.0, "busbw_avg_gbps": 0.5}
        summary.setdefault(OPS[row.collective], {})[str(size)] = shared | mean
        found = {"total_comm_lat_ms": 3 * time, "avg_comm_lat_ms": time, "avg_straggler_ms": time}
        least.setdefault(OPS[row.collective], {})[str(size)] = shared | found
    metadata = {"world_size": rows[0].devices, "rank": 0, "timestamp": "2025-10-01T12:00:00"}
    path = folder / "summary.json"
    path.write_text(json.dumps({"summary": summary, "straggler_analysis": least, "metadata": metadata}))
    return [path]
