"""Output of nccl-tests and rccl-tests: a log with one table of times per run of a test, or a JSON file of one run.

Format of a log: NVIDIA/nccl-tests and ROCm/rccl-tests, src/common.cu; of JSON (-J FILE, --json): NVIDIA/nccl-tests,
src/util.cu, file versions 1 and 2. The size column is the larger of send and receive buffer, and thus the whole message
as `CallRow` defines it, for all four tests (doc/PERFORMANCE.md); times are averages over iterations, in microseconds.
In JSON, `config.devices` lists only the first rank of each process: it stands for all `nthreads` x `ngpus` ranks of the
process.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal, NamedTuple

from annotated_types import Ge, Le, Len

from simfrontier.base.errors import InputError, shown
from simfrontier.base.io import External, NotNegative, log_text, read_json, typed
from simfrontier.core.collectives import CallTable, MeasuredPoint, merged
from simfrontier.core.program import CollectiveKind
from simfrontier.inputs.measured.reading import Format, Reading, Setup, Unusable, counted_faults, json_with, log_with

TESTS: Final[dict[str, CollectiveKind]] = {
    "all_gather_perf": "all_gather",
    "reduce_scatter_perf": "reduce_scatter",
    "all_reduce_perf": "all_reduce",
    "alltoall_perf": "all_to_all",
}
_TEST: Final = re.compile(r"(?<![a-z_])([a-z]+(?:_[a-z]+)*_perf)(?![a-z])")  # an MPI build: all_gather_perf_mpi
_RANK: Final = re.compile(r"#\s*Rank\s+(\d{1,9})\s+(?:Group\s+(\d{1,9})\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\b")
_HEADER: Final = re.compile(r"#\s+size\s+count\s+type\b")
_END: Final = "# Out of bounds values"  # the first line below a table
_ROW: Final = re.compile(r"\s*\d{1,18}\s+\d+\s+[a-z]\w*\s")
_TIMESTAMP: Final = "timestamp"  # the last column of nccl-tests' -S: one word in the head, date and time in a row
_NOT_WHOLE: Final = "no whole row"
_WRONG_RESULTS: Final = "wrong results"
_TWO_JOBS: Final = "as in the output of two jobs at once"


class Rank(NamedTuple):
    """A rank of a test run: its number, its group, and its host."""

    number: int
    group: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """Contents of a log: one table for each run of a test and group size, the sorted names of the hosts, and sentences
    about the runs and lines that are left out."""

    tables: tuple[CallTable, ...]
    hosts: tuple[str, ...]
    left_out: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Run:
    """A test run while it is being read: `times` are (bytes, seconds) pairs, `faults` are those of lines without usable
    times.

    In a printed table, the last `columns` columns of a row belong to the times, and a complete row has `words` words;
    `num_heads` and `num_ends` count the lines printed above and below the table.
    """

    where: str
    test: str | None
    ranks: list[Rank] = field(default_factory=list)
    times: list[tuple[int, float]] = field(default_factory=list)
    faults: list[Unusable] = field(default_factory=list)
    columns: int = 0
    words: int = 0
    num_heads: int = 0
    num_ends: int = 0

    def add(self, num_bytes: int, microseconds: float) -> None:
        """Add the time of a line, unless its bytes or its time are zero."""
        if num_bytes > 0 and microseconds > 0.0:
            self.times.append((num_bytes, microseconds / 1e6))


def read_nccl_tests(files: Sequence[Path], setup: Setup) -> Reading:
    """Read the collective times of a file and what is left out; machine and library come from the setup. Raises
    InputError."""
    path = files[0]
    log = read_log(path, setup)
    return Reading(files=(path,), rows=setup.rows_of(path, log.tables, path.name), said=log.left_out)


def read_log(path: Path, setup: Setup) -> Log:
    """Read the test runs of a file. The file does not say on how many packages its ranks are. If the setup does not
    either, the ranks are assumed on as few packages of the stated machine as hold them, or each on a package of its own
    if no known machine is stated.

    The name of the test comes from the last line before the run that has it (newer versions print it), or from the
    file's name. Out-of-place times are used. Runs of other tests, runs whose output two jobs print at once, and lines
    that are cut short or report wrong results are left out. Raises InputError if nothing is left.
    """
    text = log_text(path, "log")
    runs = [_json_run(path)] if text.lstrip().startswith("{") else list(_printed_runs(path, text))
    of_lines = [fault for run in runs for fault in run.faults]
    tables: list[CallTable] = []
    of_runs: list[Unusable] = []
    hosts: set[str] = set()
    for run in runs:
        if not run.times:
            continue
        try:
            tables.append(_table(path, run, setup))
            hosts |= {rank.host for rank in run.ranks}
        except Unusable as error:
            of_runs.append(error)
    if not tables:
        nothing = f"{path}: no times of nccl-tests or rccl-tests in it, allowed: their output, or a calibration"
        raise next(iter([*of_runs, *of_lines]), InputError(nothing))
    said = (*counted_faults(of_runs, "run"), *counted_faults(of_lines, "line"))
    return Log(tables=tuple(tables), hosts=tuple(sorted(hosts)), left_out=said)


def _table(path: Path, run: _Run, setup: Setup) -> CallTable:
    """Return the table of a run; several times of one size are replaced by their median. Raises Unusable, and
    InputError for a number of packages that cannot hold the ranks."""
    name = run.test or next((test for test in TESTS if test in path.name), None)
    if name is None:
        text = "does not say its test, allowed: a file called after it, e.g. all_gather_perf.log"
        raise Unusable(text, where=run.where)
    if name not in TESTS:
        raise Unusable(f"of {name}, allowed: {', '.join(TESTS)}", where=run.where)
    ranks, nodes = _shape(run)
    if max(run.num_heads, run.num_ends) > 1:
        raise Unusable(f"two tables, {_TWO_JOBS}, allowed: one", where=run.where)
    packages = setup.packages_of(ranks, nodes) or ranks
    if setup.packages and ranks % packages:
        raise InputError(f"--packages: got {packages}, allowed: a divisor of its {ranks} ranks", where=run.where)
    if setup.packages and packages % nodes:
        raise InputError(f"--packages: got {packages}, allowed: a multiple of its {nodes} hosts", where=run.where)
    points = [(MeasuredPoint(bytes=size, seconds=seconds),) for size, seconds in run.times]
    passes = [CallTable(kind=TESTS[name], ranks=ranks, nodes=nodes, packages=packages, points=each) for each in points]
    return merged(passes)[0]


def _shape(run: _Run) -> tuple[int, int]:
    """Return the number of ranks and of hosts of each group. Raises Unusable if the groups differ, or if the ranks
    belong to several jobs."""
    for number, times in Counter(rank.number for rank in run.ranks).items():
        if times > 1:
            text = f"rank {number} is there {times} times, {_TWO_JOBS}, allowed: every rank once"
            raise Unusable(text, where=run.where)
    groups: dict[str, list[str]] = {}
    for rank in run.ranks:
        groups.setdefault(rank.group, []).append(rank.host)
    shapes = {(len(hosts), len(set(hosts))) for hosts in groups.values()}
    if len(shapes) != 1:
        text = "names no ranks" if not shapes else "has groups of several sizes"
        text += ', allowed: lines "# Rank 0 ... on HOST device 0", equally many per group'
        raise Unusable(text, where=run.where)
    num_ranks, nodes = shapes.pop()
    if num_ranks < 2:
        raise Unusable("of one rank, allowed: two or more", where=run.where)
    if num_ranks % nodes:
        raise Unusable(f"{num_ranks} ranks on {nodes} hosts, allowed: equally many on each", where=run.where)
    return num_ranks, nodes


# ── printed tables ──


def _printed_runs(path: Path, text: str) -> Iterator[_Run]:
    named, run = None, None
    for number, line in enumerate(text.splitlines(), 1):
        if match := _TEST.search(line):
            named = match[1]
        if "Using devices" in line:
            if run is not None:
                yield run
            run, named = _Run(where=f"{path}: the run at line {number}", test=named), None
        if run is not None:
            _read_line(run, line, f"{path}: line {number}")
    if run is not None:
        yield run


def _read_line(run: _Run, line: str, where: str) -> None:
    if rank := _RANK.search(line):
        run.ranks.append(Rank(int(rank[1]), rank[2] or "0", rank[3]))
    elif _HEADER.search(line):
        words = line.split()
        run.columns = len(words) - words.index("time") if "time" in words else 0
        run.columns += bool(run.columns) and words[-1] == _TIMESTAMP
        run.num_heads += 1
    elif run.columns and _ROW.match(line):
        try:
            _read_row(run, line.split(), where)
        except Unusable as error:
            run.faults.append(error)
    elif line.startswith(_END):
        run.num_ends += 1


def _read_row(run: _Run, words: list[str], where: str) -> None:
    """Parse a row `size count type [redop] [root] time algbw busbw #wrong time algbw busbw #wrong`, times in
    microseconds."""
    run.words = run.words or len(words)
    try:
        size, micros = int(words[0]), float(words[-run.columns])
    except (ValueError, IndexError):
        text = f"got {' '.join(words)!r}, allowed: size, count, type, ..., time in us"
        raise Unusable(text, where=where, why=_NOT_WHOLE) from None
    if len(words) != run.words:
        text = f"{len(words)} columns, allowed: {run.words}, as in the first row"
        raise Unusable(text, where=where, why=_NOT_WHOLE)
    wrong = words[-run.columns + 3] if run.columns >= 4 else "0"
    if wrong not in ("0", "N/A", "0e+00") and not _is_small(wrong):
        text = f"{wrong} wrong values, allowed: a run whose results are right"
        raise Unusable(text, where=where, why=_WRONG_RESULTS)
    run.add(size, micros)


def _is_small(error: str) -> bool:
    """Return whether the last column of a row is an acceptable error of the results. Versions before 2.13 print the
    largest error (1e-06) in the column in which later versions count wrong values. The limit is that of these versions
    for 16-bit numbers (1e-2: deltaMaxValue in nccl-tests' src/common.cu)."""
    try:
        return "e" in error and float(error) <= 1e-2
    except ValueError:
        return False


# ── JSON ──

_Each = Annotated[int, Ge(1), Le(1024)]


class _Device(External):
    rank: Annotated[int, Ge(0)]
    group: int
    hostname: str


class _Config(External):
    nthreads: _Each
    ngpus: _Each
    devices: tuple[_Device, ...]


class _Side(External):
    time: NotNegative | None = None
    nwrong: Any = None  # a number, 0 also as a float, or a text where results were not checked


class _Result(External):
    size: Annotated[int, Ge(0)]
    out_of_place: _Side | None = None
    in_place: _Side | None = None


class _File(External):
    version: Literal[1, 2]
    args: tuple[str, ...]
    config: _Config
    results: Annotated[tuple[_Result, ...], Len(1)]  # none in the file of a run that has not ended


def _json_run(path: Path) -> _Run:
    """Return the run of a JSON file; the in-place time of a size is used if there is no out-of-place time. Raises
    InputError."""
    file = typed(read_json(path, "JSON file of nccl-tests"), _File, str(path))
    named = _TEST.search(PurePosixPath(file.args[0]).name if file.args else "")
    run = _Run(where=str(path), test=named[1] if named else None)
    each = file.config.nthreads * file.config.ngpus
    for device in file.config.devices:
        numbers = range(device.rank, device.rank + each)
        run.ranks += [Rank(number, str(device.group), device.hostname) for number in numbers]
    for number, result in enumerate(file.results):
        where = f"{path}: results[{number}]"
        side = result.out_of_place or result.in_place
        if side is None or side.time is None:
            text = "no time of the device, allowed: out_of_place or in_place, measured with -C 0"
            raise InputError(text, where=where)
        if side.nwrong in (None, 0):
            run.add(result.size, side.time)
        else:
            text = f"{shown(side.nwrong)} wrong values, allowed: right results"
            run.faults.append(Unusable(text, where=where, why=_WRONG_RESULTS))
    return run


LOG: Final = Format(
    name="nccl-tests",
    title="output of nccl-tests or rccl-tests",
    recognises=log_with(r"^#\s*(Using devices|Rank\s+\d+\s)"),
    read=read_nccl_tests,
)
JSON: Final = Format(
    name="nccl-tests",
    title="JSON of nccl-tests",
    recognises=json_with(r'\A\s*\{\s*"version"\s*:\s*\d{1,9}\s*,\s*"start_time"|"average_bus_bandwidth"\s*:'),
    read=read_nccl_tests,
)
