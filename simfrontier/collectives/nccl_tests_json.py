"""Reading the file that nccl-tests write with -J FILE (--json): one run of a test, its devices and its times.

Format: NVIDIA/nccl-tests, src/util.cu, file versions 1 and 2. Times are microseconds to six decimals; sizes are those
of the printed table. Of each process only its first rank is listed under `config.devices`: it stands for all
`nthreads` x `ngpus` ranks of the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from simfrontier.collectives.nccl_tests_run import (
    TEST_NAME,
    TESTS,
    WRONG_RESULTS,
    Log,
    Rank,
    Unusable,
    counted_faults,
    table_of,
)
from simfrontier.errors import nearest, shown
from simfrontier.io import Node, json_of, text_of
from simfrontier.limits import COUNT, RANKS, SIZE

VERSIONS: Final = (1, 2)
TITLE: Final = "JSON file of nccl-tests"


def read_json_log(path: Path, packages: int | None = None) -> Log:
    """The run of a file; `packages` as in `read_log`. Out-of-place times are taken, in-place ones where a line has no
    others; lines of wrong results are left out. Raises InputError: one line that names file, key and what is wrong."""
    where = str(path)
    text = text_of(path, TITLE)
    top = Node(json_of(text, where, TITLE), where)
    _refuse_version(top)
    ranks = list(_ranks(top.member("config")))
    times: list[tuple[int, float]] = []
    faults: list[Unusable] = []
    for result in top.member("results").items():
        try:
            times += _times(result)
        except Unusable as error:
            faults.append(error)
    if not times:
        if faults:
            raise faults[0]
        top.member("results").fail("no times, allowed: lines of a run that has ended")
    table = table_of(where, TESTS[_test(top, path)], ranks, times, packages)
    hosts = tuple(sorted({rank.host for rank in ranks}))
    return Log(tables=(table,), hosts=hosts, left_out=counted_faults(faults, "line"))


def _refuse_version(top: Node) -> None:
    version = top.member("version")
    if version.whole() not in VERSIONS:
        version.wrong(" or ".join(map(str, VERSIONS)))


def _test(top: Node, path: Path) -> str:
    """The test's name: that of the program which was started, or the file's where it is another's."""
    words = top.member("args").items()
    program = PurePosixPath(words[0].text()).name if words else ""
    named = TEST_NAME.search(program)  # its MPI build may be all_gather_perf_mpi
    name = named[1] if named else next((test for test in TESTS if test in path.name), program)
    if name not in TESTS:
        top.member("args").fail(f"the test {shown(name)}, {nearest(name, TESTS)}")
    return name


def _ranks(config: Node) -> Iterator[Rank]:
    """Every rank; those of a process follow its first one."""
    each = 1
    for name in ("nthreads", "ngpus"):
        each *= config.member(name).whole(1, RANKS.most)
    devices = config.member("devices")
    if fault := RANKS.fault(each * len(devices.items())):
        devices.fail(fault)
    for device in devices.items():
        first, group = device.member("rank").whole(0, RANKS.most), str(device.member("group").whole())
        for number in range(first, first + each):
            yield Rank(number=number, group=group, host=device.member("hostname").name())


def _times(result: Node) -> list[tuple[int, float]]:
    """Bytes and seconds of a line; none for a size of 0, or a call below the clock's resolution."""
    size = result.member("size").whole(0, SIZE.most)
    for name in ("out_of_place", "in_place"):
        side = result.optional(name)
        if side is not None and side.value is not None:
            seconds = _seconds(side)
            return [(size, seconds)] if size > 0 and seconds > 0.0 else []
    result.fail("no times, allowed: out_of_place or in_place")


def _seconds(body: Node) -> float:
    """The time of one side of a line. Raises InputError where it is the CPU's, Unusable where results were wrong."""
    if body.optional("cpu_time") is not None and body.optional("time") is None:
        body.fail("the CPU's times (-C 1), allowed: those of the device (-C 0)")
    wrong_values = body.optional("nwrong")
    if wrong_values is not None and wrong_values.value not in (None, 0):
        text = f"{shown(wrong_values.value)} wrong values, allowed: a run whose results are right"
        raise Unusable(text, where=wrong_values.where, key=wrong_values.at, why=WRONG_RESULTS)
    time = body.member("time")
    value = time.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= COUNT.most:
        time.wrong("microseconds, 0 or more")
    return float(value) / 1e6
