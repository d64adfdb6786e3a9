"""gloo's device is one thread for all groups of a process, and torch is left as it was."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

GROUPS = """
import os, sys
from contextlib import nullcontext
from datetime import timedelta
import torch, torch.distributed as dist
from simfrontier_real.gloo_device import shared_device

def tasks():
    return len(os.listdir("/proc/self/task"))

before = tasks()
with {manager}:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1, timeout=timedelta(seconds=20))
    groups = [dist.new_group([0]) for _ in range(3)]
value = torch.ones(4)
for group in groups:
    dist.all_reduce(value, group=group)
assert value.tolist() == [1.0] * 4
print(tasks() - before)
sys.stdout.flush()
os._exit(0)
"""


def threads(manager: str) -> int:
    """Threads that four groups of a process have started."""
    done = subprocess.run(
        [sys.executable, "-c", GROUPS.format(manager=manager)], capture_output=True, text=True, timeout=60.0
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_four_groups_have_one_device_instead_of_four() -> None:
    assert threads("nullcontext()") - threads("shared_device()") == 3


def test_torch_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.distributed import distributed_c10d as inside

    from simfrontier_real.gloo_device import shared_device

    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    before = inside.ProcessGroupGloo
    with pytest.raises(ValueError, match="x"), shared_device():
        assert inside.ProcessGroupGloo is not before and issubclass(inside.ProcessGroupGloo, before)
        raise ValueError("x")
    assert inside.ProcessGroupGloo is before


@pytest.mark.parametrize("lacking", ["_Options", "create_device", "create_default_device", None])
def test_another_torch_makes_devices_of_its_own(monkeypatch: pytest.MonkeyPatch, lacking: str | None) -> None:
    from torch.distributed import distributed_c10d as inside

    from simfrontier_real.gloo_device import shared_device

    names = {"_Options", "create_device", "create_default_device"} - {lacking}
    other = None if lacking is None else type("ProcessGroupGloo", (), dict.fromkeys(names))
    monkeypatch.setattr(inside, "ProcessGroupGloo", other)
    with shared_device():
        assert inside.ProcessGroupGloo is other
