"""Parts of an emulated fabric by themselves: forked ranks, the counters' server, what a rank asks, and the meter."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from simfrontier.errors import SimfrontierError
from simfrontier_extras.emulation.real import client, counters, meter, probe
from simfrontier_extras.emulation.real.client import CableCount
from simfrontier_extras.emulation.tests.test_fabric import transferred
from simfrontier_extras.emulation.tests.wirings import wired
from simfrontier_extras.emulation.wiring import save_wiring

LACKING = probe.missing()
PAIR = wired(2, (0, 1), [(0, 1), (1, 0)], {(0, 1): [0, 1], (1, 0): [1, 0]})

# ── forked ranks ──

FORKED = """
import os, signal, sys, time
import simfrontier_real.cli
from simfrontier_extras.emulation.real import forked

def main():
    {main}

simfrontier_real.cli.main = main
child = forked.run(["replay", "x"], {{"PLACE": "here"}})
{then}
while child.poll() is None:
    time.sleep(0.01)
assert "PLACE" not in os.environ and child.poll() == child.poll()
child.send_signal(signal.SIGTERM)  # it has ended: nothing happens
sys.exit(100 + child.poll())
"""


TO_NOBODY = "sys.stdout.reconfigure(write_through=False); r, w = os.pipe(); os.dup2(w, 1); os.close(w); os.close(r)"


def forked(main: str, then: str = "") -> subprocess.CompletedProcess[str]:
    """A child that does `main` in place of the command line's; the exit code is 100 more than what was seen of it."""
    command = [sys.executable, "-c", FORKED.format(main=main, then=then)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30.0)


@pytest.mark.parametrize(
    ("main", "code"),
    [
        ("pass", 0),
        ("sys.exit()", 0),
        ("sys.exit(3)", 3),
        ("sys.exit('no')", 1),
        ("os.kill(os.getpid(), signal.SIGKILL)", -9),
        (f"{TO_NOBODY}; print('this is still to be said')", 0),
        ("sys.stdout.close(); sys.exit(3)", 3),
        ("os._exit(9 * (sys.argv != ['simfrontier-real', 'replay', 'x'] or os.environ['PLACE'] != 'here'))", 0),
    ],
)
def test_a_forked_ranks_exit_code_is_seen(main: str, code: int) -> None:
    done = forked(main)
    assert (done.returncode, done.stderr) == (100 + code, "")


def test_a_forked_rank_can_be_ended() -> None:
    assert forked("time.sleep(60)", "child.send_signal(signal.SIGTERM)").returncode == 100 - 15


def test_what_nobody_expected_in_a_forked_rank_is_said_and_nothing_of_the_parent_runs_twice() -> None:
    done = forked("raise LookupError('of a kind')", "print('parent', flush=True)")
    assert (done.returncode, done.stdout) == (101, "parent\n")
    assert done.stderr.startswith("Traceback") and done.stderr.endswith("LookupError: of a kind\n")


# ── counters ──

HEAD = "Inter-|   Receive |  Transmit\n face |bytes    packets ...|bytes    packets ...\n"


def test_a_table_of_devices_is_read_whole_though_it_comes_by_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel gives it: less than was asked for, until there is nothing more."""
    lines = [f"  c{k}: {k} 1 0 0 0 0 0 0 {1000 + k} {k} 0 0 0 0 0 0\n" for k in range(100)]
    table = (HEAD + "".join(lines)).encode("ascii")
    monkeypatch.setattr(os, "pread", lambda file, size, begin: table[begin : begin + min(size, 1000)])
    layout = SimpleNamespace(senders=(0, 0), devices=("c99", "c7"))
    fabric: Any = SimpleNamespace(layout=layout, tables=(3,))
    known = counters.read_counters(fabric, ("a", "b"))
    assert known == {"a": CableCount(num_bytes=1099, num_packets=99), "b": CableCount(num_bytes=1007, num_packets=7)}


@pytest.mark.skipif(bool(LACKING), reason=f"no emulated fabric here: {'; '.join(LACKING)}")
def test_a_switch_of_forty_cables_is_counted(tmp_path: Path) -> None:
    """A page of the kernel's table of devices holds some thirty."""
    spokes = range(1, 41)
    links = [link for spoke in spokes for link in ((spoke, 0), (0, spoke))]
    wiring = wired(41, (1, 40), links, {(1, 40): [1, 0, 40], (40, 1): [40, 0, 1]})
    (result,) = transferred(wiring, [[(0, 1, 10_000)]], tmp_path)
    assert len(result.carried) == 80
    loaded = {name for name, (num_bytes, _) in result.carried.items() if num_bytes > 10_000}
    assert loaded == {wiring.cables[k].name for k in wiring.routes[0][1]}


# ── what a rank asks ──


@contextmanager
def answering(folder: Path, monkeypatch: pytest.MonkeyPatch, answer: Callable[[Any], bytes]) -> Iterator[list[Any]]:
    """A server in place of the fabric's; what it was asked."""
    asked: list[Any] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(folder / "s"))
        listening.listen()
        monkeypatch.setenv(client.ENVIRONMENT, str(folder / "s"))

        def serve() -> None:
            while True:
                try:
                    talk, _ = listening.accept()
                except OSError:
                    return
                with talk, talk.makefile("rb") as reading:
                    asked.append(json.loads(reading.readline()))
                    talk.sendall(answer(asked[-1]))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield asked
        listening.shutdown(socket.SHUT_RDWR)  # wakes the one that accepts
        thread.join()


def test_counts_are_none_outside_a_fabric(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(client.ENVIRONMENT, raising=False)
    assert client.counters() is None and not client.is_inside()


def test_counts_are_those_of_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(tmp_path, monkeypatch, lambda _: b'{"a": [10, 2]}') as asked:
        assert client.counters() == {"a": CableCount(num_bytes=10, num_packets=2)}
    assert asked == [{}]


def test_cables_are_slowed_and_then_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(tmp_path, monkeypatch, lambda _: b"{}") as asked:
        with client.slowed({}):
            assert asked == []
        with client.slowed({"a": 0.5, "b": 0.25}):
            assert asked == [{"a": 0.5, "b": 0.25}]
    assert asked[1:] == [{"a": 1.0, "b": 1.0}]


@pytest.mark.parametrize(
    ("answer", "message"),
    [(b'"cable x"', "the fabric cannot do that: cable x"), (b"", "the fabric does not answer: ")],
)
def test_what_a_fabric_refuses_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes, message: str
) -> None:
    with (
        answering(tmp_path, monkeypatch, lambda _: answer),
        pytest.raises(SimfrontierError, match=message),
        client.slowed({"x": 0.5}),
    ):
        raise AssertionError("it is not slowed")


def test_a_fabric_that_is_gone_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(client.ENVIRONMENT, str(tmp_path / "s"))
    with pytest.raises(SimfrontierError, match="the fabric does not answer: No such file"):
        client.counters()


# ── the meter ──


@dataclass
class World:
    """A rank that counts its barriers."""

    rank: int
    barriers: int = 0

    def barrier(self) -> None:
        self.barriers += 1


def metered(rank: int, monkeypatch: pytest.MonkeyPatch, folder: Path) -> tuple[World, float | None]:
    """Two steps, of which the second counts; the cable has carried 5, 7 and 12 bytes when it is read."""
    readings = iter([5, 7, 12])
    monkeypatch.setenv(client.ENVIRONMENT, "somewhere")
    monkeypatch.setattr(
        meter,
        "counters",
        lambda: {
            "0>1 0": CableCount(num_bytes=(now := next(readings)), num_packets=1),
            "1>0 1": CableCount(num_bytes=now, num_packets=1),
        },
    )
    save_wiring(PAIR, folder / "wiring.json")
    monkeypatch.setenv(client.WIRING, str(folder / "wiring.json"))
    world = World(rank)
    made = meter.ByteMeter(world, 1)  # type: ignore[arg-type]
    made.begin(0)
    assert world.barriers == 0  # a step that warms up is not read
    made.begin(1)
    table = made.end(1, "d", "t")
    return world, None if table is None else table.links[0].num_bytes


def test_bytes_are_those_since_the_first_step_that_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, counted = metered(0, monkeypatch, tmp_path)
    assert counted == 2  # 7 - 5
    assert world.barriers == 4  # around each reading, so that nobody sends meanwhile


def test_other_ranks_meet_as_often_and_read_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, counted = metered(1, monkeypatch, tmp_path)
    assert (counted, world.barriers) == (None, 4)


def test_nothing_is_counted_outside_a_fabric(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(client.ENVIRONMENT, raising=False)
    world = World(0)
    made = meter.ByteMeter(world, 0)  # type: ignore[arg-type]
    made.begin(0)
    assert (made.end(1, "d", "t"), world.barriers) == (None, 0)


def test_a_table_has_the_mean_of_every_cable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_wiring(PAIR, tmp_path / "wiring.json")
    monkeypatch.setenv(client.WIRING, str(tmp_path / "wiring.json"))
    table = meter.link_table({"0>1 0": 30, "1>0 1": 0}, 4, "d", "t")
    assert [(each.name, each.src, each.dst, each.num_bytes) for each in table.links] == [
        ("0>1 0", "0", "1", 7.5),
        ("1>0 1", "1", "0", 0.0),
    ]
    assert (table.digest, table.title) == ("d", "t")
