"""Ranks with torch in an emulated fabric: the links carry what the schedule sends; nothing outside is changed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from simfrontier_extras.emulation.real import fabric, ranks as launch
from simfrontier_extras.emulation.tests.wirings import wired
from simfrontier_extras.emulation.wiring import save_wiring

LACKING = fabric.missing()
pytestmark = pytest.mark.skipif(bool(LACKING), reason=f"no emulated fabric here: {'; '.join(LACKING)}")

PAIR = wired(2, (0, 1), [(0, 1), (1, 0)], {(0, 1): [0, 1], (1, 0): [1, 0]})

GLOO = """
import json, os, sys, time
import torch, torch.distributed as dist
from simfrontier_extras.emulation.real.fabric import carried_bytes
from simfrontier_real.ranks.world import join, leave, place_of
world = join(place_of(os.environ), "gloo", 30.0, 30.0)
ones = torch.ones(1 << 18)
dist.all_reduce(ones)
def counted():
    world.barrier()
    time.sleep(0.2)
    out = carried_bytes()
    world.barrier()
    return out
before = counted()
world.gather(b"x" * 500_000)
beside = counted()
dist.all_reduce(ones)
after = counted()
if world.rank == 0:
    said = [{name: b[name] - a[name] for name in a} for a, b in ((before, beside), (beside, after))]
    with open(sys.argv[1], "w") as file:
        json.dump(said, file)
leave(world)
"""


def test_only_what_the_schedule_sends_is_on_the_fabric(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    fast = tuple(cable.model_copy(update={"bytes_per_s": 20e6}) for cable in PAIR.cables)
    save_wiring(PAIR.model_copy(update={"cables": fast}), tmp_path / "wiring.json")
    command = [sys.executable, "-c", GLOO, str(tmp_path / "out.json")]
    assert launch.run_in_fabric(tmp_path / "wiring.json", command) == 0
    beside, sent = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert set(beside.values()) == {0}
    for carried in sent.values():  # two ranks: each sends half, then the sum of half
        assert (1 << 20) < carried < 1.1 * (1 << 20)


def test_the_system_outside_is_as_before(tmp_path: Path) -> None:
    def seen() -> list[str]:
        settings = [Path("/proc/sys/net/ipv4", name) for name in ("ip_forward", "tcp_rmem", "tcp_congestion_control")]
        devices = [each.name for each in Path("/sys/class/net").iterdir()]
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8")
        return [*(each.read_text(encoding="ascii") for each in settings), *sorted(devices), mounts]

    before = seen()
    save_wiring(PAIR, tmp_path / "wiring.json")
    assert launch.run_in_fabric(tmp_path / "wiring.json", ["true"]) == 0
    assert seen() == before
