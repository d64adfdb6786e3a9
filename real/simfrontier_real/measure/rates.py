"""Timing of matrix products and kernels on one device, written as tables that `simfrontier validate` reads."""

from __future__ import annotations

import csv
import io
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import torch

from simfrontier.base.wholefile import write_whole
from simfrontier.inputs.measured import KERNEL_COLUMNS, PRODUCT_COLUMNS
from simfrontier_real.measure.cases import TF32, KernelCase, ProductCase, kernel_cases, product_cases

FLUSH_BYTES: Final = {"cuda": 512 << 20, "cpu": 64 << 20}  # more than caches hold (MI300X: 256 MiB; H100: 50 MiB)
Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Times:
    """Times in seconds of the repetitions of one piece of work."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def least(self) -> float:
        return min(self.seconds)

    @property
    def most(self) -> float:
        return max(self.seconds)


class DeviceTimer:
    """Times work on the current device of a kind, cpu or cuda: after `warmup` untimed repetitions, as many as take
    `budget_s` seconds, but at least `least` and at most `most`.

    On a GPU, times are measured between two events. Caches are flushed before each repetition; the flush keeps the
    device busy while the host launches the work, so that launch overhead is not measured.
    """

    def __init__(
        self,
        kind: str,
        warmup: int = 2,
        least: int = 5,
        most: int = 20,
        budget_s: float = 0.4,
        flush_bytes: int | None = None,
    ) -> None:
        self._torch, self._kind, self._warmup = torch, kind, warmup
        self._least, self._most, self._budget_s = least, most, budget_s
        count = FLUSH_BYTES[kind] if flush_bytes is None else flush_bytes
        self._flushed = torch.empty(count, dtype=torch.uint8, device=kind)

    def times(self, work: Work) -> Times:
        """Return the times of the repetitions of `work`."""
        for _ in range(self._warmup):
            work()
        (first_s,) = self._repeated(work, 1)
        repeats = min(self._most, max(self._least, int(self._budget_s / max(first_s, 1e-9))))
        return Times(tuple(self._repeated(work, repeats)))

    def _repeated(self, work: Work, repeats: int) -> list[float]:
        return self._by_events(work, repeats) if self._kind == "cuda" else self._by_the_host(work, repeats)

    def _by_events(self, work: Work, repeats: int) -> list[float]:
        cuda: Any = self._torch.cuda
        pairs = []
        cuda.synchronize()
        for _ in range(repeats):
            begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
            self._flushed.zero_()
            begin.record()
            work()
            end.record()
            pairs.append((begin, end))
        cuda.synchronize()
        return [begin.elapsed_time(end) / 1e3 for begin, end in pairs]

    def _by_the_host(self, work: Work, repeats: int) -> list[float]:
        out = []
        for _ in range(repeats):
            self._flushed.zero_()
            begin_s = time.perf_counter()
            work()
            out.append(time.perf_counter() - begin_s)
        return out


PRODUCTS, KERNELS = "products.csv", "kernels.csv"
SPREAD: Final = ("least_s", "most_s", "repeats")  # columns that no reader needs, and people may want
KERNELS_SHARE: Final = 0.3  # fraction of the available time
# The catalog's machines whose device is surely the one of that name, as torch gives it.
MACHINES: Final = {
    "NVIDIA A100-SXM4-40GB": "a100-40gb-node",
    "NVIDIA A100-SXM4-80GB": "a100-node",
    "NVIDIA H100 80GB HBM3": "h100-node",
    "NVIDIA H200": "h200-node",
}
Row = tuple[object, ...]
Case = TypeVar("Case", ProductCase, KernelCase)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateCases:
    """Cases to be timed: edges of square matrix products, models of the catalog for matrix products and for kernels,
    numbers of elements of copies and of Adam steps, and number types."""

    edges: tuple[int, ...]
    product_models: tuple[str, ...]
    kernel_models: tuple[str, ...]
    counts: tuple[int, ...]
    dtypes: tuple[str, ...]

    def products(self, dtypes: Sequence[str]) -> Iterator[ProductCase]:
        return product_cases(self.edges, self.product_models, dtypes)

    def kernels(self) -> Iterator[KernelCase]:
        """Yield the kernel cases in all number types except tf32, which exists for matrix products only."""
        return kernel_cases(self.kernel_models, [each for each in self.dtypes if each != TF32], self.counts)


CASES: Final = {
    "cuda": RateCases(
        edges=(8192, 4096, 2048, 1024, 512, 256, 16384),
        product_models=("gpt-neox-20b", "gpt-80b", "gpt-5b", "llama-3-8b"),
        kernel_models=("gpt-neox-20b", "gpt-80b"),
        counts=(1 << 20, 1 << 24, 1 << 27),
        dtypes=("bf16", "fp16", TF32, "fp32"),
    ),
    "cpu": RateCases(
        edges=(256, 128, 64),
        product_models=("tiny",),
        kernel_models=("tiny",),
        counts=(1 << 16, 1 << 20),
        dtypes=("bf16", "fp32"),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSettings:
    """Settings of a rate measurement: output folder of the tables, name of the machine in the tables (None: the
    catalog's machine with this device name, or else the device name), and the time in seconds after which no further
    case starts."""

    kind: str
    out: Path
    machine: str | None
    seconds: float
    when: str


class RateTables:
    """Tables of one device; the files are rewritten after every row."""

    def __init__(self, settings: RateSettings, say: Callable[[str], None]) -> None:
        device = device_name(settings.kind)
        self.machine = settings.machine or MACHINES.get(device, device)
        self.source = f"simfrontier-real rates; {device}; torch {torch.__version__}; {settings.when}"
        self._settings, self._say = settings, say
        self._timer = DeviceTimer(settings.kind)

    def kernels(self, cases: Iterable[KernelCase], until_s: float) -> int:
        """Time kernels until time `until_s` of the monotonic clock; return the number of cases that could not be
        timed."""

        def row(case: KernelCase, median_s: str) -> Row:
            own = (self.machine, case.kernel, case.dtype, case.shape_text, case.num_bytes, case.flops or "")
            return (*own, "median", median_s, "measured", self.source)

        return self._table(self._settings.out / KERNELS, KERNEL_COLUMNS, cases, row, until_s)

    def products(self, cases: Iterable[ProductCase], until_s: float) -> int:
        """Time matrix products until time `until_s` of the monotonic clock; return the number of cases that could not
        be timed."""

        def row(case: ProductCase, median_s: str) -> Row:
            shape = case.shape
            # the form is in the source, too: two forms of one shape are two measurements
            own = (self.machine, "seconds", median_s, "measured", f"{self.source}; {shape.form}")
            return (*own, "median", case.dtype, shape.m, shape.n, shape.k)

        return self._table(self._settings.out / PRODUCTS, PRODUCT_COLUMNS, cases, row, until_s)

    def _table(
        self,
        path: Path,
        columns: Sequence[str],
        cases: Iterable[Case],
        row: Callable[[Case, str], Row],
        until_s: float,
    ) -> int:
        path.unlink(missing_ok=True)
        rows: list[Row] = [(*columns, *SPREAD)]
        num_failed, late = 0, 0
        for case in cases:
            if time.monotonic() > until_s:
                late += 1
                continue
            times = self._times(case)
            if times is None:
                num_failed += 1
                continue
            rows.append(row(case, _short(times.median)) + _spread(times))
            write_whole(path, _csv(rows))
        left = f"; {late} left out, for which there was no time" if late else ""
        self._say(f"{path}: {len(rows) - 1} times{left}")
        return num_failed

    def _times(self, case: ProductCase | KernelCase) -> Times | None:
        """Return the times of a case; if torch cannot run it, report this and return None."""
        try:
            with multiplied_as(case.dtype):
                return self._timer.times(case.work(self._settings.kind))
        except RuntimeError as error:  # as torch reports that there is no room, or no such kernel
            self._say(f"not timed: {case}: {str(error).strip().splitlines()[0][:200]}")
            return None


def measure_rates(settings: RateSettings, say: Callable[[str], None], cases: RateCases | None = None) -> bool:
    """Time kernels within their share of the time, then matrix products, and write both tables; `say` is called with a
    line for each case that was not timed. Return whether every case for which there was time could be timed."""
    chosen, begun_s = CASES[settings.kind] if cases is None else cases, time.monotonic()
    settings.out.mkdir(parents=True, exist_ok=True)
    tables = RateTables(settings, say)
    dtypes = [each for each in chosen.dtypes if each != TF32 or has_tf32(settings.kind)]
    if TF32 in chosen.dtypes and TF32 not in dtypes:
        say("products of tf32 numbers are left out, which this device does not have")
    num_failed = tables.kernels(chosen.kernels(), begun_s + KERNELS_SHARE * settings.seconds)
    num_failed += tables.products(chosen.products(dtypes), begun_s + settings.seconds)
    return num_failed == 0


def device_name(kind: str) -> str:
    """Return the name of the device: torch's for a GPU, the processor's architecture for the host."""
    return torch.cuda.get_device_name() if kind == "cuda" else platform.machine()


def has_tf32(kind: str) -> bool:
    """Return whether matrix products of fp32 numbers can be computed in tf32: on NVIDIA devices of compute capability 8
    and above."""
    return kind == "cuda" and torch.version.cuda is not None and torch.cuda.get_device_capability()[0] >= 8


@contextmanager
def multiplied_as(dtype: str) -> Iterator[None]:
    """Switch tf32 on or off for matrix products of fp32 numbers within the block."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if dtype == TF32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _csv(rows: Iterable[Row]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _spread(times: Times) -> Row:
    return _short(times.least), _short(times.most), len(times.seconds)


def _short(seconds: float) -> str:
    """Return a time with four significant digits; more would be noise."""
    return f"{seconds:.4g}"
