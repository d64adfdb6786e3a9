"""How much memory this host has left."""

from __future__ import annotations

import os
import re
from pathlib import Path


def free_bytes() -> int:
    """Memory in bytes that is available without swapping (Linux MemAvailable)."""
    try:
        match = re.search(r"^MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        match = None
    return 1024 * int(match[1]) if match else os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
