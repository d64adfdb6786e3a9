"""Sizes as people write them: 4KiB, 1MiB, 65536."""

from __future__ import annotations

import re

from simfrontier.errors import InputError

_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 1000, "MB": 10**6, "GB": 10**9}


def parse_sizes(text: str) -> tuple[int, ...]:
    """Ascending sizes in bytes out of `4KiB,1MiB`; raises InputError."""
    out = set()
    for part in filter(None, (each.strip() for each in text.split(","))):
        match = re.fullmatch(r"(\d{1,12})\s*([A-Za-z]*)", part)
        if match is None or match[2] not in _UNITS or int(match[1]) < 1:
            raise InputError(f"--sizes: got {part!r}; allowed: numbers of bytes or KiB, MiB, GiB, e.g. 4KiB,1MiB")
        out.add(int(match[1]) * _UNITS[match[2]])
    if not out:
        raise InputError("--sizes: got nothing; allowed: sizes separated by commas, e.g. 4KiB,1MiB")
    return tuple(sorted(out))
