"""Facts about the platform of real runs: the device, its driver, torch and its libraries, and missing packages."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, Final

import simfrontier
from simfrontier_real.ranks.device import NO_GPU, has_gpu

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
    """Return the facts about the platform by name; `devices` is empty if torch has no usable GPU."""
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
    """Yield (tool, output) for each installed command-line tool of the GPU drivers."""
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
    """Yield the facts as lines of text."""
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
    """Return the version of the package that is imported as `name`; the version of the loaded module if this process
    has imported it."""
    try:
        return version(name.replace("_", "-"))
    except PackageNotFoundError:
        return str(getattr(sys.modules.get(name), "__version__", "unknown"))
