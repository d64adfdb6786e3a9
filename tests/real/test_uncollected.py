"""Timed steps are not interrupted by the collector of garbage."""

import gc

from simfrontier_real.replay.timed import uncollected


def test_nothing_is_collected_meanwhile_and_all_is_as_before() -> None:
    runs = []
    gc.callbacks.append(lambda phase, _: runs.append(phase))
    try:
        with uncollected():
            before = len(runs)
            assert before and not gc.isenabled()  # once, at the beginning
            kept = [[[]] for _ in range(100_000)]  # many times the threshold
            assert len(runs) == before and len(kept) == 100_000
        assert gc.isenabled()
    finally:
        gc.callbacks.pop()
