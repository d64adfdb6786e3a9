"""Output of nccl-tests and rccl-tests: one table of times per run of a test in a log, or a file of JSON.

Format of a log: NVIDIA/nccl-tests and ROCm/rccl-tests, src/common.cu.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from simfrontier.base.errors import InputError
from simfrontier.base.io import log_text
from simfrontier.core.collectives import CallTable
from simfrontier.inputs.measured.format import FileStart, Format
from simfrontier.inputs.measured.nccl_tests_json import read_json_log
from simfrontier.inputs.measured.nccl_tests_run import TEST_NAME, TESTS, TWO_JOBS, WRONG_RESULTS, Log, Rank, table_of
from simfrontier.inputs.measured.reading import Reading, Setup, Unusable, counted_faults
from simfrontier.inputs.measured.stored_calibration import rows_of

_RANK = re.compile(r"#\s*Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\b")
_HEADER = re.compile(r"#\s+size\s+count\s+type\b")
_END = "# Out of bounds values"  # the first line below a table
_ROW = re.compile(r"\s*\d+\s+\d+\s+[a-z]\w*\s")
TIMESTAMP = "timestamp"  # the last column of nccl-tests' -S: one word in the head, date and time in a row
_NOT_WHOLE = "no whole row"
_LOG: Final = re.compile(r"^#\s*(Using devices|Rank\s+\d+\s)", re.MULTILINE)
_JSON: Final = re.compile(r'\A\s*\{\s*"version"\s*:\s*\d{1,9}\s*,\s*"start_time"|"average_bus_bandwidth"\s*:')


@dataclass(slots=True, kw_only=True)
class _Run:
    """One run while it is read.

    `columns` of a row belong to times, `words` are in a whole row; `num_heads` and `num_ends` count lines above and
    below a table, `faults` are those of rows.
    """

    test: str | None
    line: int
    ranks: list[Rank] = field(default_factory=list)
    columns: int = 0
    words: int = 0
    num_heads: int = 0
    num_ends: int = 0
    times: list[tuple[int, float]] = field(default_factory=list)
    faults: list[Unusable] = field(default_factory=list)


def read_nccl_tests(files: Sequence[Path], setup: Setup) -> Reading:
    """Read times and what is left out; machine and library come from the setup. Raises InputError.

    A log does not say what packages its ranks are on: without `setup.packages` as many of the machine's as they fill.
    """
    path = files[0]
    log = read_log(path, setup.packages)
    rows = rows_of(path, placed(log.tables, setup), setup, path.name)
    return Reading(files=(path,), rows=rows, said=log.left_out)


def placed(tables: Iterable[CallTable], setup: Setup) -> tuple[CallTable, ...]:
    """Return the tables of a log with the ranks of each node on as few packages as the machine has for them; unchanged
    where no known machine is stated."""
    return tuple(
        replace(table, packages=setup.packages_of(table.ranks, table.nodes) or table.packages) for table in tables
    )


def read_log(path: Path, packages: int | None = None) -> Log:
    """Read the runs of a file; `packages`: how many packages the ranks of a group are on (default: one each).

    The test is taken from the last line before the run that names it (newer versions print it), or from the file's
    name. Out-of-place times are taken. Runs of other tests, runs that two jobs print at once, and lines that are cut
    short or of wrong results are left out. Raises InputError if nothing is left.
    """
    text = log_text(path, "log")
    if text.lstrip().startswith("{"):
        return read_json_log(path, packages)
    runs = list(_runs(path, text))
    of_lines = [fault for run in runs for fault in run.faults]
    tables: list[CallTable] = []
    of_runs: list[Unusable] = []
    hosts: set[str] = set()
    for run in runs:
        if not run.times:
            continue
        try:
            tables.append(_table(path, run, packages))
            hosts |= {rank.host for rank in run.ranks}
        except Unusable as error:
            of_runs.append(error)
    if not tables:
        nothing = f"{path}: no times of nccl-tests or rccl-tests in it, allowed: their output, or a calibration"
        raise next(iter([*of_runs, *of_lines]), InputError(nothing))
    said = (*counted_faults(of_runs, "run"), *counted_faults(of_lines, "line"))
    return Log(tables=tuple(tables), hosts=tuple(sorted(hosts)), left_out=said)


def _runs(path: Path, text: str) -> Iterator[_Run]:
    named, run = None, None
    for number, line in enumerate(text.splitlines(), 1):
        match = TEST_NAME.search(line)
        if match:
            named = match[1]
        if "Using devices" in line:
            if run is not None:
                yield run
            run, named = _Run(test=named, line=number), None
        if run is not None:
            _read_line(run, line, f"{path}: line {number}")
    if run is not None:
        yield run


def _read_line(run: _Run, line: str, where: str) -> None:
    if rank := _RANK.search(line):
        run.ranks.append(Rank(number=int(rank[1]), group=rank[2] or "0", host=rank[3]))
    elif _HEADER.search(line):
        words = line.split()
        run.columns = len(words) - words.index("time") if "time" in words else 0
        run.columns += bool(run.columns) and words[-1] == TIMESTAMP
        run.num_heads += 1
    elif run.columns and _ROW.match(line):
        try:
            _read_row(run, line.split(), where)
        except Unusable as error:
            run.faults.append(error)
    elif line.startswith(_END):
        run.num_ends += 1


def _read_row(run: _Run, words: list[str], where: str) -> None:
    """`size count type [redop] [root] time algbw busbw #wrong time algbw busbw #wrong`, times in microseconds."""
    run.words = run.words or len(words)
    try:
        size, micros = int(words[0]), float(words[-run.columns])
    except (ValueError, IndexError):
        text = f"got {' '.join(words)!r}, allowed: size, count, type, ..., time in us"
        raise Unusable(text, where=where, why=_NOT_WHOLE) from None
    if len(words) != run.words:
        text = f"{len(words)} columns, allowed: {run.words}, as in the first row"
        raise Unusable(text, where=where, why=_NOT_WHOLE)
    if run.columns >= 4 and words[-run.columns + 3] not in ("0", "N/A", "0e+00"):
        wrong = words[-run.columns + 3]
        if not _is_small(wrong):
            text = f"{wrong} wrong values, allowed: a run whose results are right"
            raise Unusable(text, where=where, why=WRONG_RESULTS)
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
        raise Unusable("does not say its test, allowed: a file called after it, e.g. all_gather_perf.log", where=where)
    if name not in TESTS:
        raise Unusable(f"of {name}, allowed: {', '.join(TESTS)}", where=where)
    table = table_of(where, TESTS[name], run.ranks, run.times, packages)
    if max(run.num_heads, run.num_ends) > 1:
        raise Unusable(f"two tables, {TWO_JOBS}, allowed: one", where=where)
    return table


def _is_log(start: FileStart) -> bool:
    return _LOG.search(start.log) is not None


def _is_json(start: FileStart) -> bool:
    return start.is_json and _JSON.search(start.text) is not None


LOG: Final = Format(
    name="nccl-tests", title="output of nccl-tests or rccl-tests", recognises=_is_log, read=read_nccl_tests
)
JSON: Final = Format(name="nccl-tests", title="JSON of nccl-tests", recognises=_is_json, read=read_nccl_tests)
