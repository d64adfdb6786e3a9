"""Reading the file that rccl-tests write with -x FILE -Z json or csv: one line for each size, in and out of place.

Format: ROCm/rccl-tests, src/common.cpp (class Reporter); before 2025 src/common.cu, with a JSON object in each line
instead of a list. Sizes are those of the printed table, times microseconds to six decimals. `nodes` and `ranksPerNode`
are no nodes: the program fills in the processes of a communicator for the latter, and all processes over these for the
former; where that is not 1, only the user knows the group. Rows of the CSV have a cell for `nodes`, and its head none.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from simfrontier.errors import InputError, shown
from simfrontier.io import Node, json_of
from simfrontier.measured.calls_of_ranks import CallsOfRanks, What
from simfrontier.measured.csvfile import read_text
from simfrontier.measured.reading import Reading
from simfrontier.measured.rows import kind_of
from simfrontier.measured.setup import Setup

TITLE: Final = "file of rccl-tests"
NAMES: Final = {
    "collective": "name",
    "rankspernode": "ranksPerNode",
    "gpusperrank": "gpusPerRank",
    "inplace": "inPlace",
    "algbw": "algBw",
    "busbw": "busBw",
    "#wrong": "wrong",
}
"""What the head of the CSV calls the keys of the JSON, where it calls them otherwise."""


def read_rccl_tests(path: Path, setup: Setup) -> Reading:
    """The calls of a file: out of place, or in place where it has no others. Raises InputError: one line that names
    file, place and fault."""
    text = read_text(path, TITLE)
    results = list(_of_csv(str(path), text) if text.lstrip()[:1] not in ("{", "[") else _of_json(str(path), text))
    side = min((result.member("inPlace").whole(0, 1) for result in results), default=0)
    calls = CallsOfRanks()
    for number, result in enumerate(results):
        if result.value["inPlace"] == side:
            _add(calls, number, result, setup)
    return calls.reading([path], setup)


def _add(calls: CallsOfRanks, number: int, result: Node, setup: Setup) -> None:
    name = result.member("name")
    kind = kind_of(name.text())
    if kind is None:
        calls.leave_out(f"of {shown(name.value)}, of which no times are taken")
        return
    if result.member("wrong").text() not in ("0", "N/A"):
        calls.leave_out("wrong results")
        return
    size, micros = result.member("size").whole(0), result.member("time").amount("microseconds")
    if size == 0 or micros == 0.0:
        calls.leave_out("no bytes or no time")
        return
    if (devices := _devices(result, setup)) < 2:
        calls.leave_out("of one device")
        return
    calls.add(number, What(kind=kind, devices=devices, nodes=setup.nodes, num_bytes=size), micros / 1e6)


def _devices(result: Node, setup: Setup) -> int:
    """Devices of a group. Raises InputError where only the user can know them."""
    gpus = result.optional("gpus")
    if gpus is not None:  # built without MPI: one process
        return gpus.whole(1)
    ranks, each = (result.member(name).whole(1) for name in ("ranks", "gpusPerRank"))
    groups = result.member("nodes").whole(1)
    if groups > 1 and setup.devices is None:
        result.key("nodes").fail(
            f"got {groups}, of which rccl-tests mean groups of processes, or nodes; allowed: --devices N beside it"
        )
    return setup.devices_of(result.where) if groups > 1 else ranks * each


def _of_json(where: str, text: str) -> Iterator[Node]:
    """The objects of a list, or of lines."""
    if text.lstrip().startswith("["):
        yield from Node(json_of(text, where, TITLE), where).items()
        return
    for number, line in enumerate(text.splitlines(), 1):
        place = f"{where} line {number}"
        if line.strip():
            yield Node(json_of(line, place, TITLE), place)


def _of_csv(where: str, text: str) -> Iterator[Node]:
    """The same objects of the lines below a head."""
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True)
    names: list[str] = []
    try:
        for cells in reader:
            place = f"{where} line {reader.line_num}"
            if not names:
                names = [NAMES.get(cell.strip().lower(), cell.strip()) for cell in cells]
                continue
            if len(cells) == len(names) + 1 and "ranks" in names and "nodes" not in names:
                names.insert(names.index("ranks"), "nodes")
            if len(cells) != len(names):
                raise InputError(f"{len(cells)} values, allowed: {len(names)}, one for each column", where=place)
            yield Node({name: _value(name, cell.strip()) for name, cell in zip(names, cells, strict=True)}, place)
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", where=f"{where} line {reader.line_num}") from None


def _value(name: str, cell: str) -> Any:
    """A cell as the JSON would have it: a number where it is one, else a text."""
    if name == "wrong" or len(cell) > 30:
        return cell
    try:
        return int(cell) if cell.isdecimal() else float(cell)
    except ValueError:
        return cell
