"""An emulated fabric as the kernel has it: ways, rates, counters, and nothing left whatever ends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
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

LIMIT_S = 30.0  # from a fault to when all is gone
RUN = "import sys; from pathlib import Path; from simfrontier_extras.emulation.real.launch import run_in_fabric; "
RUN += "sys.exit(run_in_fabric(Path(sys.argv[1]), sys.argv[2:]))"
HEADER = 66  # Ethernet 14, IP 20, TCP 20, time stamps 12
PAYLOAD = 9000 - 52
PAIR = wired(2, (0, 1), [(0, 1), (1, 0)], {(0, 1): [0, 1], (1, 0): [1, 0]})
LINE = wired(
    3,
    (0, 1, 2),
    [(0, 1), (1, 2), (2, 1), (1, 0)],
    {(0, 1): [0, 1], (0, 2): [0, 1, 2], (1, 2): [1, 2], (2, 1): [2, 1], (2, 0): [2, 1, 0], (1, 0): [1, 0]},
)


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


class Running(NamedTuple):
    """A fabric that runs, in a folder where its ranks have left their names: network namespace by rank."""

    process: subprocess.Popen[str]
    folder: Path
    namespaces: frozenset[str]

    def ended(self, limit_s: float = LIMIT_S) -> tuple[int, str]:
        """Exit code and what was said; all is gone by then, or soon after where the launcher was killed."""
        deadline = time.monotonic() + limit_s
        _, message = self.process.communicate(timeout=limit_s)
        while self.left():
            assert time.monotonic() < deadline, self.left()
            time.sleep(0.05)
        return self.process.returncode, message

    def left(self) -> list[str]:
        """Processes of the run (its folder is in their commands), or in its namespaces."""
        out = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes().decode(errors="replace")
                namespace = os.readlink(process / "ns/net")
            except OSError:
                continue  # has ended, or is not ours
            if namespace in self.namespaces or (str(self.folder) in command and process.name != str(os.getpid())):
                out.append(f"{process.name}: {command[:80]}")
        return out


@pytest.fixture
def running(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Running]:
    """Three ranks that have left their names, and then do what the test's parameter says."""
    save_wiring(LINE, tmp_path / "wiring.json")
    code = BEGIN.format(where=str(tmp_path)) + getattr(request, "param", WAIT)
    command = [sys.executable, "-c", RUN, str(tmp_path / "wiring.json"), sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 20.0
            while len(result := list(tmp_path.glob("rank *"))) < 3:
                assert time.monotonic() < deadline and process.poll() is None
                time.sleep(0.02)
            running = Running(process, tmp_path, frozenset(each.name.split()[2] for each in result))
            assert len(running.namespaces) == 3 and os.readlink("/proc/self/ns/net") not in running.namespaces
            (tmp_path / "go").touch()
            yield running
        finally:
            process.kill()


BEGIN = """
import os, sys, time
rank, where = int(os.environ["RANK"]), {where!r}
open(f"{{where}}/rank {{rank}} {{os.readlink('/proc/self/ns/net')}}", "w").close()
while not os.path.exists(f"{{where}}/go"):
    time.sleep(0.02)
"""
WAIT = "import time; time.sleep(600)"
KILLED = f"import signal; rank == 1 and os.kill(os.getpid(), signal.SIGKILL); {WAIT}"
FAILED = f"rank == 2 and sys.exit(7); {WAIT}"
WITH_CHILD = f"import subprocess; subprocess.Popen([sys.executable, '-c', '{WAIT}', where]); {KILLED}"


@pytest.mark.parametrize(
    ("running", "code", "message"),
    [
        (FAILED, 7, "rank 2 ended with 7"),
        (WITH_CHILD, 1, "rank 1 was killed by signal 9"),
    ],
    indirect=["running"],
    ids=["failed", "killed, with a child"],
)
def test_a_rank_that_fails_ends_all(running: Running, code: int, message: str) -> None:
    assert running.ended() == (code, f"simfrontier-real: {message}; all 3 ranks are stopped\n")


def test_a_signal_ends_all(running: Running) -> None:
    assert len(running.left()) >= 4
    running.process.send_signal(signal.SIGTERM)
    assert running.ended() == (143, "simfrontier-real: stopped by signal 15; all 3 ranks are stopped\n")


def test_killing_the_launcher_ends_all(running: Running) -> None:
    assert len(running.left()) >= 4  # so that what is looked for afterwards can be found
    running.process.kill()
    assert running.ended() == (-signal.SIGKILL, "")


def test_the_system_outside_is_as_before(tmp_path: Path) -> None:
    def seen() -> list[str]:
        settings = [Path("/proc/sys/net/ipv4", name) for name in ("ip_forward", "tcp_rmem", "tcp_congestion_control")]
        devices = [each.name for each in Path("/sys/class/net").iterdir()]
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8")
        return [*(each.read_text(encoding="ascii") for each in settings), *sorted(devices), mounts]

    before = seen()
    transferred(PAIR, [[(0, 1, 1000)]], tmp_path)
    assert seen() == before
