"""Runs whose outputs must stay the same (`tests.same`)."""

from __future__ import annotations

from tests.same.job import run

ADDS = (
    run("80B on Perlmutter", "axonn-perlmutter-80b", "--no-page", "--no-sensitivity"),
    run("weak scaling", "axonn-frontier-weak-scaling", "--devices", "512,8192", "--no-page", "--no-sensitivity"),
)
