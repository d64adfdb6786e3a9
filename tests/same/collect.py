"""Runs the commands and the fixed steps in one checkout, and keeps what they gave in a folder."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from tests.same.job import Job
from tests.same.jobs import JOBS

ROOT = Path(__file__).resolve().parents[2]
SECONDS = "cpu-seconds.json"
TIMELINES = "timelines.npz"
GOLDEN = "golden texts"
_ALLOWED = (0, 1)  # exit code 1 is an answer: a plan does not fit


def _once(job: Job, folder: Path) -> float:
    """Run a job once; its CPU seconds. Raises SystemExit where it cannot run."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    arguments = [str(folder / "files") if word == "{out}" else word for word in job.arguments]
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        process = subprocess.Popen([sys.executable, "-m", "simfrontier", *arguments], cwd=ROOT, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in _ALLOWED:
        message = (folder / "stderr").read_text(encoding="utf-8")[-2000:]
        raise SystemExit(f"{ROOT}: simfrontier {' '.join(arguments)}: exit code {process.returncode}: {message}")
    (folder / "stderr").unlink()  # progress
    text = (folder / "stdout").read_text(encoding="utf-8").replace(str(folder), "OUT").replace(str(ROOT), "ROOT")
    (folder / "stdout").write_text(text, encoding="utf-8")
    return usage.ru_utime + usage.ru_stime


def collect(out: Path) -> None:
    """Leave all outputs in `out`, a folder for each job, and the CPU seconds of each."""
    from tests.same.timelines import save

    out.mkdir(parents=True, exist_ok=True)
    seconds = {}
    for job in JOBS:
        seconds[job.name] = statistics.median(_once(job, out / job.name) for _ in range(job.repeats))
        sys.stderr.write(f"{ROOT.name}: {job.name}: {seconds[job.name]:.2f} CPU s\n")
    shutil.copytree(ROOT / "tests" / "golden", out / GOLDEN)
    save(out / TIMELINES)
    (out / SECONDS).write_text(json.dumps(seconds, indent=1), encoding="utf-8")


if __name__ == "__main__":
    collect(Path(sys.argv[1]))
