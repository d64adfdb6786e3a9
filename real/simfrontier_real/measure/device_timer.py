"""How long work takes on a device, by its own clock: repeated, each time with caches full of something else."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, Final

import simfrontier
from simfrontier_real.cli_options import NO_GPU, has_gpu

FLUSH_BYTES: Final = {"cuda": 512 << 20, "cpu": 64 << 20}  # more than caches hold (MI300X: 256 MiB; H100: 50 MiB)
Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of the repetitions of one piece of work."""

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
    """Times work on the current device of a kind, cpu or cuda: `warmup` times unseen, then `most` times, or as often as
    `budget_s` has room for, `least` times at least.

    On a GPU times are those between two events. What fills the caches before each repetition keeps the device busy
    while the host hands over the work, so that what the host takes does not count.
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
        import torch

        self._torch, self._kind, self._warmup = torch, kind, warmup
        self._least, self._most, self._budget_s = least, most, budget_s
        count = FLUSH_BYTES[kind] if flush_bytes is None else flush_bytes
        self._flushed = torch.empty(count, dtype=torch.uint8, device=kind)

    def times(self, work: Work) -> Times:
        """How long `work` takes."""
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


TOOL_S: Final = 15.0  # for a driver's own tool to answer
# Packages that runs need, by the names that they are imported by.
NEEDED: Final = (
    *("torch", "array_api_compat", "numpy", "pydantic", "annotated_types", "typer", "rich", "jinja2"),
    *("plotly", "scipy", "simpy", "pandas"),
)
# A driver's own tool, and what it is asked: for one line of facts for each device, then for everything.
_NVIDIA: Final = "nvidia-smi"
_FIELDS: Final = (
    "name,driver_version,vbios_version,memory.total,compute_mode,mig.mode.current,power.limit,clocks.max.sm"
)
_AMD: Final = "rocm-smi"


def device_facts() -> dict[str, Any]:
    """What there is, by name; `devices` is empty where there is no GPU that torch can use."""
    facts: dict[str, Any] = {
        "simfrontier": simfrontier.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "missing_packages": [name for name in NEEDED if find_spec(name) is None],
        "packages": {name: _version(name) for name in NEEDED if find_spec(name) is not None},
        "driver": dict(_asked()),
        "devices": [],
    }
    if find_spec("torch") is not None:
        facts |= _of_torch()
    return facts


def _of_torch() -> dict[str, Any]:
    import torch.backends.cudnn

    cudnn: Any = torch.backends.cudnn
    facts: dict[str, Any] = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "rocm": torch.version.hip,
        "nccl": None,
        "cudnn": cudnn.version() if cudnn.is_available() else None,
    }
    if not has_gpu():
        return facts
    nccl: Any = torch.cuda.nccl
    if torch.distributed.is_nccl_available():
        facts["nccl"] = ".".join(map(str, nccl.version()))
    for number in range(torch.cuda.device_count()):
        device: Any = torch.cuda.get_device_properties(number)
        facts.setdefault("devices", []).append(
            {
                "name": device.name,
                "compute_capability": f"{device.major}.{device.minor}",
                "architecture": getattr(device, "gcnArchName", None),
                "compute_units": device.multi_processor_count,
                "memory_bytes": device.total_memory,
                "cache_bytes": getattr(device, "L2_cache_size", None),
            }
        )
    return facts


def _asked() -> Iterator[tuple[str, str]]:
    """What the drivers' own tools say, of those that are here."""
    for tool, *arguments in (
        (_NVIDIA, f"--query-gpu={_FIELDS}", "--format=csv"),
        (_AMD, "--showproductname", "--showdriverversion", "--showmeminfo", "vram"),
    ):
        if shutil.which(tool) is None:
            continue
        try:
            done = subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=TOOL_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            yield tool, f"does not answer: {type(error).__name__}"
            continue
        yield tool, (done.stdout if done.returncode == 0 else f"{done.stdout}{done.stderr}").strip()


def lines_of(facts: dict[str, Any]) -> Iterator[str]:
    """The facts for a person."""
    for device in facts["devices"]:
        units = f"{device['compute_units']} compute units, {device['memory_bytes'] / 1e9:.1f} GB"
        yield f"{device['name']}: {units}, capability {device['compute_capability']}"
    if not facts["devices"]:
        yield NO_GPU
    for tool, said in facts["driver"].items():
        yield from (f"{tool}: {line}" for line in said.splitlines())
    known = {key: facts.get(key) for key in ("torch", "cuda", "rocm", "nccl", "cudnn")}
    yield ", ".join(f"{key} {value}" for key, value in known.items() if value is not None) or "torch is not installed"
    yield f"simfrontier {facts['simfrontier']}, Python {facts['python']}, {facts['cores']} cores, {facts['system']}"
    if facts["missing_packages"]:
        yield f"missing packages: {', '.join(facts['missing_packages'])} (imported by these names)"


def _version(name: str) -> str:
    """The version of a package that is imported by that name; that of a module of this process where it is loaded."""
    try:
        return version(name.replace("_", "-"))
    except PackageNotFoundError:
        return str(getattr(sys.modules.get(name), "__version__", "unknown"))
