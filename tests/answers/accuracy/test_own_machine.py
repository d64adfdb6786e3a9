"""A machine file of one's own where a name of the catalog may stand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.inputs.measured.tables import nccl_log
from tests.invoke import invoke

OWN = """\
name = "ours"
title = "ours"
base = "frontier"
[link_classes.nic]
bytes_per_s = { value = 50e9, kind = "quoted", source = "toy" }
"""
LOG = nccl_log({1048576 * size: 50.0 + 20.0 * size for size in (1, 2, 4)}, hosts=2, per_host=8)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "ours.toml"
    path.write_text(OWN)
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "all_gather_perf.log"
    path.write_text(LOG)
    return path


def test_a_log_is_compared_with_the_machines_own_numbers(own: Path, log: Path) -> None:
    """NICs of twice the speed: a call over two nodes is predicted to be shorter than on Frontier."""
    predicted = []
    for machine in ("frontier", own):
        ran = invoke("validate", log, "--machine", machine, "--library", "rccl", "--json")
        predicted.append([row["predicted_s"] for row in json.loads(ran.out)["rows"]])
    assert all(ours < theirs for theirs, ours in zip(*predicted, strict=True))
