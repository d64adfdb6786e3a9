"""Dask's words on the terminal: none, because whoever uses workers says what matters."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LIBRARIES: Final = ("distributed", "dask_jobqueue", "tornado", "bokeh", "asyncio")
ABOVE_ALL: Final = logging.CRITICAL + 1


def silence() -> dict[str, int]:
    """Let the loggers of Dask, and of what it is built on, say nothing in this process; gives the levels before."""
    named = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in LIBRARIES]
    levels = {name: logging.getLogger(name).level for name in {*named, *LIBRARIES}}
    for name, level in levels.items():
        if level != logging.NOTSET or name in LIBRARIES:
            logging.getLogger(name).setLevel(ABOVE_ALL)
    return levels


@contextmanager
def silenced() -> Iterator[None]:
    """Silence meanwhile. To be left only when no thread of Dask runs any more."""
    levels = silence()
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
