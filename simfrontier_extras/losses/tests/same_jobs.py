"""A run whose outputs must stay the same (`tests.same`)."""

from __future__ import annotations

from tests.same.job import run

ADDS = (run("Lassen", "lassen-neox-20b", "--devices", "96", "--no-page", "--no-sensitivity"),)
