"""Changed files for the readers of wirings and of lists of jobs (`tests.fuzz`)."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

from tests.fuzz.reader import Reader


def _jobs(path: Path, _: random.Random) -> None:
    from simfrontier_extras.emulation.real.jobs import load_jobs

    load_jobs(path)


def _wiring(path: Path, _: random.Random) -> None:
    from simfrontier_extras.emulation.wiring import load_wiring

    load_wiring(path)


def _wirings() -> list[bytes]:
    from simfrontier_extras.emulation.tests.wirings import frontier
    from simfrontier_extras.emulation.wiring import save_wiring

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wiring.json"
        save_wiring(frontier(1e6), path)
        return [path.read_bytes()]


def _job_files() -> list[bytes]:
    return [json.dumps(_listed()).encode()]


def _listed() -> object:
    job = {
        "out": "a",
        "schedules": ["s.json"],
        "waits": "w",
        "collectives": "lowered",
        "iterations": 2,
        "warmup": 1,
        "rates": {"node 0 nic0>net": 0.5},
    }
    return {"wiring": "wiring.json", "jobs": [job]}


ADDS = (
    Reader(kind="jobs", suffix=".json", share=4.0, read=_jobs, samples=_job_files),
    Reader(kind="wiring", suffix=".json", share=4.0, read=_wiring, samples=_wirings),
)
