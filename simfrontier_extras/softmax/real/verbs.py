"""The verb `softmax` of simfrontier-real, with its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simfrontier.base.extras import Verb


def softmax(
    sizes: Annotated[str, typer.Option(help="elements of a row, e.g. 1e3,3e7 (default: 1e3, 3e3 ... 1e8)")] = "",
    repeat: Annotated[int, typer.Option(min=1, help="timed calls of each algorithm; the table holds medians")] = 15,
    cache_bytes: Annotated[
        int | None, typer.Option(min=1, help="size of the last-level cache, if the system does not report it")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="table (CSV) to write (default: print it)")] = None,
) -> None:
    """Time float32 softmax with two and with three passes over memory on one CPU thread; `simfrontier softmax` renders
    the table as a page."""
    from simfrontier_extras.softmax.real.softmax import DEFAULT_SIZES, parse_elements, time_to
    from simfrontier_real.options import refuse_places

    refuse_places(None, out)
    time_to(out, parse_elements(sizes or DEFAULT_SIZES), repeat, cache_bytes)


ADDS = (Verb(function=softmax),)
