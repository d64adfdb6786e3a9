"""Runs whose outputs must stay the same (`tests.same`)."""

from __future__ import annotations

from tests.same.job import run

ADDS = (
    run("mugs-vit-l", "mugs-vit-l", "--no-page"),
    run("mugs-vit-l-frontier", "mugs-vit-l-frontier", "--devices", "8,40", "--no-page"),
)
