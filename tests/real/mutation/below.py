"""Which faults are smaller than what codecs, narrow types or old weights lose anyway: no verdict can see them."""

from __future__ import annotations


def is_below_noise(case: str, fault: str) -> bool:
    return False
