"""Whether the device that a trace names is that of a machine."""

from __future__ import annotations

import pytest

from simfrontier.core.machine import load_machine
from simfrontier.inputs.profiler.changed_job import difference
from simfrontier.inputs.profiler.rank_trace import DeviceModel

GIB = 1 << 30


@pytest.mark.parametrize(
    ("name", "gib", "units", "machine"),
    [
        ("NVIDIA A100-SXM4-40GB", 39.4, 108, "perlmutter"),
        ("NVIDIA A100-SXM4-80GB", 79.2, 108, "perlmutter-80gb"),
        ("NVIDIA A100-SXM4-80GB", 79.2, 108, "selene"),
        ("NVIDIA H100 80GB HBM3", 79.1, 132, "h100-node"),
        ("NVIDIA GH200 120GB", 94.5, 132, "alps"),
        ("Tesla V100-SXM2-16GB", 15.8, 80, "lassen"),
        ("AMD Instinct MI250X", 64.0, 110, "frontier"),
        ("AMD Instinct MI250X / MI250", 64.0, 110, "lumi-g"),
        ("", 64.0, 110, "frontier"),
        ("AMD Radeon Graphics", None, None, "frontier"),
    ],
)
def test_a_machines_own_device_differs_in_nothing(
    name: str, gib: float | None, units: int | None, machine: str
) -> None:
    device = DeviceModel(name, None if gib is None else int(gib * GIB), units)
    assert difference(load_machine(machine), device) == ""


@pytest.mark.parametrize(
    ("name", "gib", "units", "machine", "said"),
    [
        ("NVIDIA A100-SXM4-40GB", 39.4, 108, "frontier", "A100-SXM4-40GB, not MI250X"),
        ("AMD Instinct MI250X", 64.0, 110, "perlmutter", "MI250X, not A100"),
        ("NVIDIA H200", None, None, "h100-node", "H200, not H100"),
        ("NVIDIA GH200 480GB", None, None, "h200-node", "GH200 480GB, not H200"),
        ("NVIDIA A100-SXM4-80GB", 79.2, 108, "perlmutter", "with 85.04 GB of memory, not 40 GB"),
        ("NVIDIA H100 PCIe", 79.1, 114, "h100-node", "with 114 compute units, not 132"),
        ("NVIDIA A100-SXM4-40GB", 39.4, 108, "toy-cluster", "memory, not 16 GB"),
    ],
)
def test_a_device_of_another_product_memory_or_size_is_another(
    name: str, gib: float | None, units: int | None, machine: str, said: str
) -> None:
    device = DeviceModel(name, None if gib is None else int(gib * GIB), units)
    assert said in difference(load_machine(machine), device)
