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
from simfrontier_real.ranks.world import shared_device

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
