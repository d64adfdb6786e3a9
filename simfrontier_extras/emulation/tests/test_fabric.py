"""An emulated fabric as the kernel has it: ways, rates, counters, and nothing left whatever ends it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from simfrontier_extras.emulation.real import probe
from simfrontier_extras.emulation.tests.wirings import frontier, wired
from simfrontier_extras.emulation.wiring import Wiring, save_wiring
from tests.some import some

ROOT = Path(__file__).resolve().parents[3]
PEER = Path(__file__).with_name("fabric_peer.py")
LACKING = probe.missing()
pytestmark = pytest.mark.skipif(bool(LACKING), reason=f"no emulated fabric here: {'; '.join(LACKING)}")

RUN = "import sys; from pathlib import Path; from simfrontier_extras.emulation.real.launch import run_in_fabric; "
RUN += "sys.exit(run_in_fabric(Path(sys.argv[1]), sys.argv[2:]))"
HEADER = 66  # Ethernet 14, IP 20, TCP 20, time stamps 12
PAYLOAD = 9000 - 52
PAIR = wired(2, (0, 1), [(0, 1), (1, 0)], {(0, 1): [0, 1], (1, 0): [1, 0]})


def packets(num_bytes: int) -> int:
    return -(-num_bytes // PAYLOAD)


class Carried(NamedTuple):
    """Seconds of a group of transfers, and bytes that each cable carried meanwhile."""

    seconds: float
    carried: dict[str, int]


def transferred(wiring: Wiring, groups: list[list[tuple[int, int, int]]], folder: Path) -> list[Carried]:
    """Lay the wiring out, and send groups of (source, target, bytes) by plain TCP."""
    save_wiring(wiring, folder / "wiring.json")
    (folder / "groups.json").write_text(json.dumps(groups), encoding="utf-8")
    peer = [
        sys.executable,
        str(PEER),
        str(folder / "groups.json"),
        str(folder / "out.json"),
    ]
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(folder / "wiring.json"), *peer],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    return [Carried(**each) for each in results]


PAIRS = [(0, 1), (0, 3), (2, 7), (6, 5), (1, 9), (0, 8), (7, 12), (15, 2)]  # in a package, over two hops in a node,
# to the other node from a GCD with a NIC and from one without
ALONE, TOGETHER = 200_000, 100_000  # bytes of messages, one at a time and between all pairs at once
MOST_REPLIES = 2 * packets(ALONE)  # acknowledgements and updates of the window
EVERY = [(a, b) for a in range(16) for b in range(16) if a != b]


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Wiring, list[Carried]]:
    """Messages of PAIRS, one by one, and of EVERY at once, over connections that are there."""
    wiring = frontier(6e6)
    groups = [[(a, b, ALONE)] for a, b in PAIRS]
    opened, every = [(a, b, 0) for a, b in EVERY], [(a, b, TOGETHER) for a, b in EVERY]
    return wiring, transferred(wiring, [opened, *groups, every], tmp_path_factory.mktemp("two-nodes"))[1:]


def test_messages_pass_the_simulators_links_and_no_others(two_nodes: tuple[Wiring, list[Carried]]) -> None:
    wiring, results = two_nodes
    for (a, b), result in zip(PAIRS, some(results), strict=False):
        there = {wiring.cables[k].name for k in wiring.routes[a][b]}
        back = {wiring.cables[k].name for k in wiring.routes[b][a]}
        assert {name for name, num_bytes in result.carried.items() if num_bytes} == there | back
        for name in there:
            # a packet is cut as large as it may be, so nothing longer passes a shaper: 200000 / 8948 is 22.4, so 23
            count, rest = divmod(result.carried[name] - ALONE, HEADER)
            assert packets(ALONE) <= count <= packets(ALONE) + 2 and not rest
        for name in back:  # acknowledgements, and the peer's one byte
            count, rest = divmod(result.carried[name] - 1, HEADER)
            assert 1 <= count <= MOST_REPLIES and not rest


def test_all_pairs_at_once_load_the_links_as_the_routes_add_up(two_nodes: tuple[Wiring, list[Carried]]) -> None:
    wiring, (*_, result) = two_nodes
    there = Counter(wiring.cables[k].name for a, b in EVERY for k in wiring.routes[a][b])
    back = Counter(wiring.cables[k].name for a, b in EVERY for k in wiring.routes[b][a])
    of_one, replies = HEADER * (packets(TOGETHER) + 3), 1 + HEADER * MOST_REPLIES  # at most
    for name, carried in result.carried.items():
        least = there[name] * (TOGETHER + HEADER * packets(TOGETHER))
        assert least <= carried <= there[name] * (TOGETHER + of_one) + back[name] * replies, name
    # one message more or less would be seen, also on the link that most of them pass
    busiest = max(there, key=lambda name: there[name])
    assert there[busiest] * 3 * HEADER + back[busiest] * replies < TOGETHER


def test_the_system_outside_is_as_before(tmp_path: Path) -> None:
    def seen() -> list[str]:
        settings = [Path("/proc/sys/net/ipv4", name) for name in ("ip_forward", "tcp_rmem", "tcp_congestion_control")]
        devices = [each.name for each in Path("/sys/class/net").iterdir()]
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8")
        return [*(each.read_text(encoding="ascii") for each in settings), *sorted(devices), mounts]

    before = seen()
    transferred(PAIR, [[(0, 1, 1000)]], tmp_path)
    assert seen() == before
