"""Garbage collection between calls, for processes that live long and have Python's own collector off."""

from __future__ import annotations

import gc
import time
from typing import Final

REST: Final = 20  # times as long as a collection took, until the next one: a twentieth of the time
SHORTEST_REST_S: Final = 60.0


class Garbage:
    """When this process collects garbage: where the collector is on during calls, looking through all schedules again
    and again takes a third of the processor's time (12.9 s instead of 9.1 s of a study). Calls make few cycles, but a
    worker, and the process that hands out its calls, may live for days."""

    def __init__(self) -> None:
        self._collected = time.monotonic()
        self._rest_s = SHORTEST_REST_S

    def collect(self) -> None:
        """Collect, if the collector is off and the last collection was long enough ago."""
        if not gc.isenabled() and time.monotonic() - self._collected > self._rest_s:
            self._collected = began = time.monotonic()
            gc.collect()
            self._collected = time.monotonic()
            self._rest_s = max(SHORTEST_REST_S, REST * (self._collected - began))
