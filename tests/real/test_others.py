"""What other programs take of the processors: by hand, and on this machine."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from simfrontier_real.others import STAT, ProcessorTime, others_share, processor_time


def test_the_share_by_hand() -> None:
    """Two ranks on host a, 10 s on two processors: 20 s in all, 12 s busy, of which the ranks took 4 and 3 s: others
    5 of 20 s, a quarter. On host b 1 of 20 s. The busiest counts."""
    a = [ProcessorTime(4.0, 12.0, 20.0), ProcessorTime(3.0, 12.0, 20.0)]
    b = [ProcessorTime(9.0, 10.0, 20.0)]
    assert others_share(["a", "a"], a) == 0.25
    assert others_share(["a", "b", "a"], [a[0], b[0], a[1]]) == 0.25
    assert others_share(["b"], b) == 0.05
    assert others_share(["b"], [ProcessorTime(10.5, 10.0, 20.0)]) == 0.0  # counted in ticks of 10 ms


def test_what_is_not_known_is_not_made_up(tmp_path: Path) -> None:
    assert others_share(["a", "a"], [ProcessorTime(1.0, 1.0, 2.0), None]) is None
    assert others_share([], []) is None
    assert processor_time(tmp_path / "none") is None
    (tmp_path / "stat").write_text("cpu0 nonsense\n", encoding="ascii")
    assert processor_time(tmp_path / "stat") is None
    (tmp_path / "stat").write_text("intr 5\n", encoding="ascii")
    assert processor_time(tmp_path / "stat") is None


@pytest.mark.skipif(not STAT.exists(), reason="this system does not count the time of processors in /proc/stat")
def test_own_work_is_own_and_that_of_another_process_is_not() -> None:
    """Another process computes for half a second or more while this one sleeps."""
    before = processor_time()
    work = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", work], check=True)
    between = processor_time()
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass
    after = processor_time()
    assert before is not None and between is not None and after is not None
    theirs, mine = between.since(before), after.since(between)
    assert theirs.busy_s - theirs.own_s >= 0.4
    assert 0.5 <= mine.own_s < 0.7 and mine.busy_s >= 0.4
