"""An export whose outputs must stay the same (`tests.same`)."""

from __future__ import annotations

from tests.same.job import Job

ADDS = (
    Job(
        name="chakra",
        arguments=(
            *("export", "scenarios/toy.toml", "--format", "chakra"),
            *("--plans", "zero3,zero-topo", "--devices", "8", "--out", "{out}"),
        ),
    ),
)
