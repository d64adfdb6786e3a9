"""A rank whose thread hangs in a call, as in a connection to a rank that has ended, ends with the run."""

from __future__ import annotations

import pytest

from simfrontier_real.heartbeat import Heartbeat
from tests.real.hanging import LONG_S, connected
from tests.real.ranks import Ranks, free_port

SILENT_S = 2.0
LIMIT_S = 30.0


@pytest.fixture
def port() -> int:
    return free_port()


def hanging(port: int, hangs_s: float = LONG_S) -> Ranks:
    return Ranks.start([[str(SILENT_S), str(hangs_s)]], port, module="tests.real.hanging")


def test_it_ends_with_the_code_of_the_rank_that_reports(port: int) -> None:
    store = connected(port, listens=True)
    ranks = hanging(port)
    store.wait(["hangs"])
    Heartbeat(0, 2, store, 0, SILENT_S).end_all(2)
    ended = ranks.wait(LIMIT_S)
    assert (ended.codes, ended.err) == ((2,), "")


def test_it_ends_without_the_store(port: int) -> None:
    """Rank 0 held the store and is gone."""
    store = connected(port, listens=True)
    ranks = hanging(port)
    store.wait(["hangs"])
    del store
    ended = ranks.wait(LIMIT_S)
    assert ended.codes == (1,)
    assert "rank 0 gives no sign of life" in ended.err


def test_a_rank_that_ends_by_itself_is_left_alone(port: int) -> None:
    """It may hold the store, or collect what the others wait for."""
    store = connected(port, listens=True)
    ranks = hanging(port, hangs_s=4.0)  # twice as long as the other tests need
    store.wait(["hangs"])
    Heartbeat(0, 2, store, 0, SILENT_S).end_all(2)
    assert ranks.wait(LIMIT_S).codes == (7,)
