"""How much faster two passes are than three on this machine (`make bench`)."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def _run() -> None:
    """How much longer three passes over a row take than two, for a row that the last cache cannot hold; where the real
    half is installed."""
    if find_spec("numba") is None:
        return
    from simfrontier_extras.softmax.real.softmax import last_cache_bytes, time_all

    cache_bytes = last_cache_bytes()
    elements = cache_bytes  # floats: four times the cache
    timed = {each.algorithm: each.median_s for each in time_all([elements], 9, cache_bytes, lambda: None)}
    two = timed["two-pass"]
    text = ", ".join(f"{name} {seconds / two:.2f} ×" for name, seconds in timed.items() if name != "two-pass")
    what = f"softmax of {elements:,} float32: two-pass {1e3 * two:.1f} ms, {text}"
    sys.stdout.write(f"{what}   aim 1.15 × both\n\n")
    sys.stdout.flush()


ADDS = (_run,)
