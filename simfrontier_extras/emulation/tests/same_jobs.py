"""A run whose outputs must stay the same (`tests.same`)."""

from __future__ import annotations

from tests.same.job import run

ADDS = (run("emulate", "emulate", "--no-page"),)
