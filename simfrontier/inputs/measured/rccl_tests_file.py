"""Files that rccl-tests write with -x FILE -Z json or csv: lines with message size and times, out of place and in
place.

Format: ROCm/rccl-tests, src/common.cpp (class Reporter); before 2025 src/common.cu, with one JSON object per line
instead of a list. Sizes are those of the printed table; times are in microseconds, with six decimals. `nodes` and
`ranksPerNode` do not describe nodes: the program writes the number of processes of a communicator into `ranksPerNode`,
and the number of all processes divided by it into `nodes`; if `nodes` is not 1, only the user knows the group. Rows of
the CSV have a cell for `nodes`, but its header lacks this column.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge

from simfrontier.base.errors import InputError
from simfrontier.base.io import External, NotNegative, json_of, text_of, typed
from simfrontier.inputs.measured.reading import Call, CallsOfRanks, FileStart, Format, Reading, Setup, json_with
from simfrontier.inputs.measured.rows import kind_of

TITLE: Final = "file of rccl-tests"
NAMES: Final = {
    "collective": "name",
    "rankspernode": "ranksPerNode",
    "gpusperrank": "gpusPerRank",
    "inplace": "inPlace",
    "#wrong": "wrong",
}
"""Keys of the JSON by the CSV's names of columns, where these differ."""
_TEXTS: Final = ("name", "wrong")
_Count = Annotated[int, Ge(1)]


class _Result(External):
    name: str
    inPlace: Literal[0, 1]
    wrong: str
    size: Annotated[int, Ge(0)]
    time: NotNegative
    gpus: _Count | None = None  # of a build without MPI: one process
    ranks: _Count | None = None
    gpusPerRank: _Count = 1
    nodes: _Count = 1


def read_rccl_tests(files: Sequence[Path], setup: Setup) -> Reading:
    """Read the collective calls of a file: out-of-place times, or in-place times if there are no others. Raises
    InputError."""
    path = files[0]
    text = text_of(path, TITLE).removeprefix("\ufeff")
    objects = _of_json(str(path), text) if text.lstrip()[:1] in ("{", "[") else _of_csv(str(path), text)
    results = [(where, typed(each, _Result, where)) for where, each in objects]
    side = min((result.inPlace for _, result in results), default=0)
    calls = CallsOfRanks()
    for where, result in results:
        if result.inPlace != side:
            continue
        if result.wrong in ("0", "N/A"):
            call = Call(kind_of(result.name), _devices(where, result, setup), setup.nodes, result.size)
            calls.add(where, result.name, call, result.time / 1e6)
        else:
            calls.leave_out("wrong results")
    return calls.reading(files, setup)


def _devices(where: str, result: _Result, setup: Setup) -> int:
    """Return the number of devices of a group. Raises InputError if only the user can know it."""
    if result.gpus is not None:
        return result.gpus
    if result.ranks is None:
        raise InputError("missing; allowed: ranks, or gpus of a build without MPI", where=where, key=("ranks",))
    if result.nodes == 1:
        return result.ranks * result.gpusPerRank
    if setup.devices is None:
        text = f"got {result.nodes}, of which rccl-tests mean groups of processes, or nodes; allowed: --devices N"
        raise InputError(f"{text} beside it", where=where, key=("nodes",))
    return setup.devices_of(where)


def _of_json(where: str, text: str) -> Iterator[tuple[str, Any]]:
    """Yield the objects of a JSON list, or of JSON lines, with their places in the file."""
    if text.lstrip().startswith("["):
        for number, each in enumerate(json_of(text, where, TITLE)):
            yield f"{where}: [{number}]", each
        return
    for number, line in enumerate(text.splitlines(), 1):
        place = f"{where} line {number}"
        if line.strip():
            yield place, json_of(line, place, TITLE)


def _of_csv(where: str, text: str) -> Iterator[tuple[str, Any]]:
    """Yield the lines below a CSV header as objects like those of the JSON format, with their places in the file."""
    reader = csv.reader(text.splitlines(), skipinitialspace=True)
    names = [NAMES.get(cell.strip().lower(), cell.strip()) for cell in next(reader)]
    for cells in reader:
        place = f"{where} line {reader.line_num}"
        if len(cells) == len(names) + 1 and "nodes" not in names and "ranks" in names:
            names.insert(names.index("ranks"), "nodes")
        if len(cells) != len(names):
            raise InputError(f"{len(cells)} values, allowed: {len(names)}, one for each column", where=place)
        yield place, {name: _value(name, cell.strip()) for name, cell in zip(names, cells, strict=True)}


def _value(name: str, cell: str) -> Any:
    """Return the value of a CSV cell as JSON would have it: a number if the cell is one, else a string."""
    try:
        return cell if name in _TEXTS else json.loads(cell)
    except ValueError:
        return cell


_is_json: Final = json_with(r'"inPlace"\s*:')


def _recognises(start: FileStart) -> bool:
    return _is_json(start) or {column.lower() for column in start.columns} >= {"collective", "inplace", "busbw"}


FORMAT: Final = Format(
    name="rccl-tests-file",
    title="files of rccl-tests (JSON, CSV)",
    recognises=_recognises,
    read=read_rccl_tests,
)
