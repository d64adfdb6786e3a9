"""Softmax of float32 rows by two passes over memory or by three, compiled for this CPU (numba), and times of both."""

from __future__ import annotations

import csv
import io
import math
import platform
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import numpy as np
import typer
from numpy.typing import NDArray

from simfrontier.base.errors import InputError, SimfrontierError, nearest
from simfrontier.base.wholefile import write_whole
from simfrontier.inputs.measured import RowPlace
from simfrontier_extras.softmax.rates import COLUMNS, IN_MEMORY, Rate
from simfrontier_real.replay.timed import progress

Rows = NDArray[np.float32]
Kernel = Callable[[Rows, Rows], int]


def softmax(rows: Rows, algorithm: str = "two-pass") -> Rows:
    """Return the softmax of every row of [rows, elements], or of one row. Numbers may have any size; -inf has the
    probability 0.

    Where the softmax is 2^-125 or more, the relative error is at most 32 * 2^-24 with two passes (polynomial 2, its
    rounding 2, both in the sum and in the result, sum 16, the rest 3) and 136 * 2^-24 with three, which also round
    x - max, by up to 88 * 2^-24 in the result and 15 * 2^-24 in a sum of 10^8. Below 2^-125 the absolute error is at
    most 2^-125. With two passes, rows whose largest number is beyond +-90,852 (2^17 ln 2) are computed by scipy.

    Raises InputError for an unknown algorithm, and for a row with nan or inf, or of nothing but -inf.
    """
    if algorithm not in IN_MEMORY:
        raise InputError(f"algorithm: got {algorithm!r}; {nearest(algorithm, IN_MEMORY)}")
    table = np.atleast_2d(np.ascontiguousarray(rows, dtype=np.float32))
    out, work, begin = np.empty_like(table), kernel(algorithm), 0
    while table.size and (done := work(table[begin:], out[begin:])) >= 0:
        begin += done
        out[begin] = _in_float64(table[begin], begin)
        begin += 1
    return out.reshape(np.shape(rows))


def _in_float64(row: Rows, number: int) -> NDArray[np.float64]:
    from scipy.special import softmax as softmax_of_row

    if not (row < np.inf).all() or np.isneginf(row).all():
        got = "nan" if np.isnan(row).any() else "inf" if np.isposinf(row).any() else "nothing but -inf"
        raise InputError(f"rows: row {number}: got {got}; allowed: finite numbers, and -inf beside them")
    return np.asarray(softmax_of_row(row.astype(np.float64)))


def kernel(algorithm: str) -> Kernel:
    """Return the compiled function of an algorithm: ([rows, elements], out) → the first row that it cannot compute, or
    -1. Raises InputError where numba is not installed."""
    try:
        from simfrontier_extras.softmax.real import kernels
    except ModuleNotFoundError as error:
        text = f"{error.name} is not installed, which compiles softmax; make setup-real installs it"
        raise InputError(text) from None
    return {
        "two-pass": kernels.two_pass,
        "three-pass-recompute": kernels.recompute,
        "three-pass-reload": kernels.reload,
    }[algorithm]


DEFAULT_SIZES: Final = "1e3,3e3,1e4,3e4,1e5,3e5,1e6,3e6,1e7,3e7,1e8"
CACHED_BYTES: Final = 1 << 18  # of short rows and their results, used again and again: a core's own cache holds them
PAGE: Final = 4096
APART: Final = PAGE // 2  # of results
_CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def time_to(out: Path | None, sizes: Sequence[int], repeats: int, cache_bytes: int | None) -> None:
    """Time the algorithms, and write the table, or print it where there is no file. Raises InputError."""
    cache_bytes = last_cache_bytes() if cache_bytes is None else cache_bytes
    with progress(0, num_steps(sizes, repeats, cache_bytes), "softmax") as step:
        made = table(time_all(sizes, repeats, cache_bytes, step))
    if out is None:
        typer.echo(made, nl=False)
    else:
        write_whole(out, made)


def parse_elements(text: str) -> tuple[int, ...]:
    """Return ascending lengths of rows, given as `1000,3e3`. Raises InputError."""
    try:
        sizes = {float(part) for part in text.split(",")}
    except ValueError:
        sizes = {0.0}
    if not all(1 <= size < math.inf and size == int(size) for size in sizes):
        allowed = "whole numbers of elements above 0, e.g. 1e3,3e3,10000"
        raise InputError(f"got {text!r}; allowed: {allowed}", where="--sizes")
    return tuple(sorted(map(int, sizes)))


def cpu_name() -> str:
    """Return the name of the CPU as its maker calls it."""
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        match = None
    return match[1].strip() if match else platform.processor() or platform.machine()


def last_cache_bytes() -> int:
    """Return the size of the largest cache in bytes, as Linux reports it. Raises SimfrontierError where it does not."""
    sizes = [0]
    for file in _CACHES.glob("index*/size"):
        size = re.fullmatch(r"(\d+)([KMG])", file.read_text(encoding="utf-8").strip())
        sizes.append(int(size[1]) * _UNITS[size[2]] if size else 0)
    if not max(sizes):
        raise SimfrontierError(f"{_CACHES}: says no size of a cache; give it by --cache-bytes")
    return max(sizes)


def time_all(sizes: Sequence[int], repeats: int, cache_bytes: int, step: Callable[[], None]) -> list[Rate]:
    """Time every algorithm for every length; `step` is called after each of `num_steps` parts of the work.

    Input is uniform(-1000, 1000), as in google/XNNPACK, bench/f32-softmax.cc. A call takes rows one after the other:
    cached ones fill `CACHED_BYTES`; uncached ones twice the last cache, so that a row has left it when its turn comes.
    Algorithms take turns, so that what else goes on meets them alike.
    """
    out = []
    for elements, starts in _kinds(sizes, cache_bytes):
        num_rows = max(1, _share(starts, cache_bytes) // (4 * elements))
        rows, made = _aligned(num_rows, elements, 0), _aligned(num_rows, elements, APART)
        rows[:] = np.random.default_rng(elements).uniform(-1000, 1000, rows.shape)
        made[:] = 0.0
        times = _times(rows, made, repeats, step)
        out += [
            Rate(
                elements=elements,
                algorithm=algorithm,
                starts=starts,
                median_s=statistics.median(seconds) / num_rows,
                least_s=min(seconds) / num_rows,
                cpu=cpu_name(),
                cache_bytes=cache_bytes,
                place=RowPlace(""),
            )
            for algorithm, seconds in times.items()
        ]
    return out


def num_steps(sizes: Sequence[int], repeats: int, cache_bytes: int) -> int:
    """Return the number of steps of `time_all`."""
    return repeats * len(list(_kinds(sizes, cache_bytes)))


def table(timed: Sequence[Rate]) -> str:
    """The times as CSV; bytes moved are counted by passes, not measured."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for each in timed:
        values = [getattr(each, column) for column in COLUMNS]
        rows.writerow(f"{value:.4g}" if isinstance(value, float) else value for value in values)
    return text.getvalue()


def _kinds(sizes: Sequence[int], cache_bytes: int) -> Iterator[tuple[int, Literal["cached", "uncached"]]]:
    """(elements, where a row is when a call begins); what no cache has room for is measured uncached alone."""
    for elements in sizes:
        if 8 * elements <= cache_bytes / 2:
            yield elements, "cached"
        yield elements, "uncached"


def _share(starts: str, cache_bytes: int) -> int:
    """Bytes of rows, without their results, that a call takes."""
    return CACHED_BYTES // 2 if starts == "cached" else 2 * cache_bytes


def _times(rows: Rows, made: Rows, repeats: int, step: Callable[[], None]) -> dict[str, list[float]]:
    kernels = {algorithm: kernel(algorithm) for algorithm in IN_MEMORY}
    calls = max(1, (1 << 18) // rows.size)  # of one sample: a few dozen microseconds are too few for a clock
    for work in kernels.values():
        work(rows, made)
    out: dict[str, list[float]] = {algorithm: [] for algorithm in kernels}
    for _ in range(repeats):
        for algorithm, work in kernels.items():
            begin = time.perf_counter()
            for _ in range(calls):
                work(rows, made)
            out[algorithm].append((time.perf_counter() - begin) / calls)
        step()
    return out


def _aligned(num_rows: int, elements: int, apart: int) -> Rows:
    """Return uninitialised rows that begin with a line of the cache, `apart` bytes into a page: where a row and its
    result lie alike in their pages, a core takes loads for dependent on stores."""
    size = 4 * num_rows * elements
    space = np.empty(size + PAGE + APART, dtype=np.uint8)
    begin = -space.ctypes.data % PAGE + apart
    rows: Rows = space[begin : begin + size].view(np.float32).reshape(num_rows, elements)
    return rows
