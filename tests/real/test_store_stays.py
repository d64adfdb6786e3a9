"""Rank 0, whose process holds the store, ends after the ranks that ask who reports; real time, no other process."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest
import torch.distributed as dist

from simfrontier_real import failure
from simfrontier_real.heartbeat import Heartbeat
from simfrontier_real.world import RankAddress, World
from tests.real.ranks import free_port


def world(port: int, rank: int) -> World:
    """A rank of three: its connection to the store, and its signs of life."""
    store = dist.TCPStore("127.0.0.1", port, None, rank == 0, timeout=timedelta(seconds=10), wait_for_workers=False)
    place = RankAddress(rank=rank, size=3, local_rank=rank, address="127.0.0.1", port=port)
    return World(place, "gloo", "cpu", store, None, Heartbeat(rank, 3, store, None, 60.0))


@pytest.mark.parametrize("other", ["asks late", "is silent"])
def test_rank_0_waits_for_ranks_that_are_alive(other: str) -> None:
    """Rank 1 has asked. Rank 2 counts on for 3 s, twice as long as a look at the counts takes, before it asks; or it
    does not count at all."""
    port = free_port()
    first, second, third = worlds = [world(port, rank) for rank in range(3)]
    assert [failure._is_first(each) for each in worlds[:2]] == [True, False]
    begin, asked = time.monotonic(), threading.Event()
    if other == "asks late":
        third.heartbeat.start()

        def ask() -> None:
            assert not failure._is_first(third)
            asked.set()

        timer = threading.Timer(3.0, ask)
        timer.start()
    failure._stay_for_others(first)
    took = time.monotonic() - begin
    assert took < failure.STAY_S - 2.0
    if other == "asks late":
        assert asked.is_set() and took >= 3.0
        timer.join()
        third.heartbeat.leave()
    assert second.store.add("said", 0) == (3 if other == "asks late" else 2)
