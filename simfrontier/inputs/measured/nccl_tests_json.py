"""File that nccl-tests write with -J FILE (--json): one run of a test, its devices and its times.

Format: NVIDIA/nccl-tests, src/util.cu, file versions 1 and 2. Times are microseconds to six decimals; sizes are those
of the printed table. Of each process only its first rank is listed under `config.devices`: it stands for all
`nthreads` x `ngpus` ranks of the process.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Le, Len

from simfrontier.base.errors import InputError, nearest, shown
from simfrontier.base.io import External, NotNegative, read_json, typed
from simfrontier.inputs.measured.nccl_tests_run import TEST_NAME, TESTS, WRONG_RESULTS, Log, Rank, table_of
from simfrontier.inputs.measured.reading import Unusable, counted_faults

TITLE: Final = "JSON file of nccl-tests"
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


def read_json_log(path: Path, packages: int | None = None) -> Log:
    """Read the run of a file; `packages` as in `read_log`. Out-of-place times are taken, in-place ones where a line has
    no others; lines of wrong results are left out. Raises InputError."""
    where = str(path)
    file = typed(read_json(path, TITLE), _File, where)
    ranks = list(_ranks(file.config))
    times: list[tuple[int, float]] = []
    faults: list[Unusable] = []
    for number, result in enumerate(file.results):
        try:
            seconds = _seconds(result, f"{where}: results[{number}]")
        except Unusable as error:
            faults.append(error)
            continue
        if result.size > 0 and seconds > 0.0:
            times.append((result.size, seconds))
    if not times:
        raise next(iter(faults), InputError("results: no times above 0", where=where))
    table = table_of(where, TESTS[_test(file.args, path)], ranks, times, packages)
    hosts = tuple(sorted({rank.host for rank in ranks}))
    return Log(tables=(table,), hosts=hosts, left_out=counted_faults(faults, "line"))


def _test(args: tuple[str, ...], path: Path) -> str:
    """Return the test's name: that of the program which was started, or the file's where it is another's."""
    program = PurePosixPath(args[0]).name if args else ""
    named = TEST_NAME.search(program)  # its MPI build may be all_gather_perf_mpi
    name = named[1] if named else next((test for test in TESTS if test in path.name), program)
    if name not in TESTS:
        raise InputError(f"args: the test {shown(name)}, {nearest(name, TESTS)}", where=str(path))
    return name


def _ranks(config: _Config) -> list[Rank]:
    """Return every rank; those of a process follow its first one."""
    each = config.nthreads * config.ngpus
    return [
        Rank(number=number, group=str(device.group), host=device.hostname)
        for device in config.devices
        for number in range(device.rank, device.rank + each)
    ]


def _seconds(result: _Result, where: str) -> float:
    """Return the time of a line. Raises InputError where it has none of the device, Unusable for wrong results."""
    side = result.out_of_place or result.in_place
    if side is None or side.time is None:
        raise InputError("no time of the device, allowed: out_of_place or in_place, measured with -C 0", where=where)
    if side.nwrong not in (None, 0):
        raise Unusable(f"{shown(side.nwrong)} wrong values, allowed: right results", where=where, why=WRONG_RESULTS)
    return side.time / 1e6
