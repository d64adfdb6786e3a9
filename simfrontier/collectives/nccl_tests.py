"""Reading what nccl-tests and rccl-tests print: one table of times per run of a test in a log.

Format: NVIDIA/nccl-tests and ROCm/rccl-tests, src/common.cu. The size column is the larger of send and receive buffer,
hence the whole message in our sense for all four tests (doc/PERFORMANCE.md); times are averages over iterations. The
same of a file that nccl-tests write as JSON stands in `nccl_tests_json`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from simfrontier.collectives.calibration import CallTable, MeasuredPoint
from simfrontier.collectives.merge import merged
from simfrontier.errors import InputError, nearest
from simfrontier.limits import LOG_LINE, TABLE_FILE
from simfrontier.schedule import CollectiveKind

TESTS: dict[str, CollectiveKind] = {
    "all_gather_perf": "all_gather",
    "reduce_scatter_perf": "reduce_scatter",
    "all_reduce_perf": "all_reduce",
    "alltoall_perf": "all_to_all",
}
TEST_NAME = re.compile(r"(?<![a-z_])([a-z]+(?:_[a-z]+)*_perf)(?![a-z])")
_RANK = re.compile(r"#\s*Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\b")
_HEADER = re.compile(r"#\s+size\s+count\s+type\b")
_ROW = re.compile(r"\s*\d+\s+\d+\s+[a-z]\w*\s")
TIMESTAMP = "timestamp"  # the last column of nccl-tests' -S: one word in the head, date and time in a row


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The tables of a log, one per run of a test and size of group, and the hosts that it names, sorted."""

    tables: tuple[CallTable, ...]
    hosts: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _Run:
    """One run while it is read: `ranks` is (group, host) of each, `columns` how many belong to times."""

    test: str | None
    line: int
    ranks: list[tuple[str, str]] = field(default_factory=list)
    columns: int = 0
    times: list[tuple[int, float]] = field(default_factory=list)


def read_log(path: Path, packages: int | None = None) -> Log:
    """The runs of a log; `packages`: how many packages the ranks of a group are on (default: one each).

    The test is taken from the last line before the run that names it (newer versions print it), or from the file's
    name. Out-of-place times are taken. Raises InputError: one line that names file, line and what is wrong.
    """
    try:
        text = TABLE_FILE.read(path).decode("utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: cannot read this log: {error.strerror}") from None
    except ValueError as error:  # of its size
        raise InputError(f"{path}: cannot read this log: {error}") from None
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        from simfrontier.collectives.nccl_tests_json import read_json_log

        return read_json_log(path, packages)
    runs = [run for run in _runs(path, text) if run.times]
    if not runs:
        raise InputError(f"{path}: no times of nccl-tests or rccl-tests in it, allowed: their output, or a calibration")
    hosts = sorted({host for run in runs for _, host in run.ranks})
    return Log(tables=tuple(_table(path, run, packages) for run in runs), hosts=tuple(hosts))


def _runs(path: Path, text: str) -> Iterator[_Run]:
    named, run = None, None
    for number, line in enumerate(text.splitlines(), 1):
        if LOG_LINE.fault(len(line)):
            continue  # nothing that these tests print
        match = TEST_NAME.search(line)
        if match:
            named = match[1]
        if "Using devices" in line:
            if run is not None:
                yield run
            run, named = _Run(test=named, line=number), None
        if run is None:
            continue
        rank = _RANK.search(line)
        if rank:
            run.ranks.append((rank[2] or "0", rank[3]))
        elif _HEADER.search(line):
            words = line.split()
            run.columns = len(words) - words.index("time") if "time" in words else 0
            run.columns += bool(run.columns) and words[-1] == TIMESTAMP
        elif run.columns and _ROW.match(line):
            _read_row(run, line.split(), f"{path}: line {number}")
    if run is not None:
        yield run


def _read_row(run: _Run, words: list[str], where: str) -> None:
    """`size count type [redop] [root] time algbw busbw #wrong time algbw busbw #wrong`, times in microseconds."""
    try:
        size, micros = int(words[0]), float(words[-run.columns])
    except (ValueError, IndexError):
        raise InputError(f"{where}: got {' '.join(words)!r}, allowed: size, count, type, ..., time in us") from None
    if run.columns >= 4 and words[-run.columns + 3] not in ("0", "N/A", "0e+00"):
        wrong = words[-run.columns + 3]
        if not _is_small(wrong):
            raise InputError(f"{where}: {wrong} wrong values, allowed: a run whose results are right")
    if size > 0 and micros > 0.0:
        run.times.append((size, micros / 1e6))


def _is_small(error: str) -> bool:
    """Versions before 2.13 print the largest error of the results (1e-06) where later ones count wrong values; what
    they allow for 16-bit numbers is the most that is taken (1e-2: deltaMaxValue in nccl-tests' src/common.cu)."""
    try:
        return "e" in error and float(error) <= 1e-2
    except ValueError:
        return False


def _table(path: Path, run: _Run, packages: int | None) -> CallTable:
    name = run.test or next((test for test in TESTS if test in path.name), None)
    where = f"{path}: the run at line {run.line}"
    if name is None:
        raise InputError(f"{where} does not say its test, allowed: a file called after it, e.g. all_gather_perf.log")
    if name not in TESTS:
        raise InputError(f"{where} is of {name!r}, {nearest(name, TESTS)}")
    return table_of(where, TESTS[name], run.ranks, run.times, packages)


def table_of(
    where: str,
    kind: CollectiveKind,
    group_and_host: Iterable[tuple[str, str]],
    times: Iterable[tuple[int, float]],
    packages: int | None,
) -> CallTable:
    """The table of a run whose ranks are in these groups on these hosts; `times`: (bytes, seconds) of its lines, of
    which those of one size become their median. Raises InputError, which begins with `where`."""
    groups: dict[str, list[str]] = {}
    for group, host in group_and_host:
        groups.setdefault(group, []).append(host)
    shapes = {(len(hosts), len(set(hosts))) for hosts in groups.values()}
    if len(shapes) != 1:
        text = "names no ranks" if not shapes else "has groups of several sizes"
        raise InputError(f'{where} {text}, allowed: lines "# Rank 0 ... on HOST device 0", equally many per group')
    (ranks, nodes) = shapes.pop()
    for what, parts in (("--packages", packages or ranks), ("hosts", nodes)):
        if ranks % parts:
            raise InputError(f"{where}: {what}: got {parts}, allowed: a divisor of its {ranks} ranks")
    if (packages or ranks) % nodes:
        raise InputError(f"{where}: --packages: got {packages}, allowed: a multiple of its {nodes} hosts")
    if ranks < 2:
        raise InputError(f"{where} is of one rank, allowed: two or more")
    passes = [
        CallTable(
            kind=kind,
            ranks=ranks,
            nodes=nodes,
            packages=packages or ranks,
            points=(MeasuredPoint(bytes=size, seconds=seconds),),
        )
        for size, seconds in times
    ]
    return merged(passes)[0]
