"""Runs a small study again and again, each time with one operation on files killed or failed: the first, the second ...
until all succeed; each time the same command goes on. Prints what was then there as JSON. A process of its own, because
it forks; it imports nothing that starts threads before."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow.compute
import pyarrow.parquet  # noqa: F401 - before the forks, as it takes long; nothing of it runs before them

from simfrontier.errors import InputError
from simfrontier.sweep import PointRunner, SweepStudy, load_study, run_sweep
from simfrontier.sweep.digests import Digests
from simfrontier.workers import Local
from tests.strike import strike


def run(study: SweepStudy, folder: Path, at: int, how: str, log: Path) -> dict[str, Any]:
    """What became of a sweep in a child that is struck (never, where `at` is below nought): its code, what it said,
    how many points it simulated."""
    report = log.with_suffix(".json")
    report.write_text("")
    log.write_text("")
    pid = os.fork()
    if not pid:
        _child(study, folder, at, how, log, report)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    text = report.read_text()
    return {"code": code, **(json.loads(text) if text else {"said": "", "operation": how}), "log": log.read_text()}


def _child(study: SweepStudy, folder: Path, at: int, how: str, log: Path, report: Path) -> None:
    code, said, write, file = 1, "", os.write, os.open(report, os.O_WRONLY)
    lines = os.open(log, os.O_WRONLY | os.O_APPEND)

    def rows_of(self: PointRunner, point: Any) -> list[dict[str, Any]]:
        write(lines, b"%d " % point.number)
        step_s = 1.0 + point.number
        return [{"scenario": "small", "plan": plan, "devices": 2, "step_time_s": step_s} for plan in ("a", "b")]

    PointRunner.rows_of = rows_of  # type: ignore[method-assign]
    operation = strike(at, how) if at >= 0 else lambda: ""
    try:
        run_sweep(study, folder, Local(jobs=1))
        code = 0
    except InputError as error:
        code, said = 2, str(error)
    finally:
        if code != 1:
            write(file, json.dumps({"said": said, "operation": operation()}).encode())
        os._exit(code)


def state(folder: Path) -> dict[str, str]:
    """Every file of a folder, by its path from there, as hexadecimal digits."""
    return {str(path.relative_to(folder)): path.read_bytes().hex() for path in folder.rglob("*") if path.is_file()}


def main(path: Path, before: Path | None, work: Path, how: str) -> None:
    """Strike each operation of a sweep into a new folder, or into a copy of the folder `before`."""
    study, whole, found = load_study(path), work / "whole", []
    Digests(study).of(next(study.points()))  # reads machine and library
    if before is not None:
        shutil.copytree(before, whole)
    log = work / "log"
    expected = run(study, whole, -1, how, log)
    for at in range(1_000):
        folder = work / "struck"
        shutil.rmtree(folder, ignore_errors=True)
        if before is not None:
            shutil.copytree(before, folder)
        struck = run(study, folder, at, how, log)
        again = run(study, folder, -1, how, log)
        found.append({"struck": struck, "again": again, "same": state(folder) == state(whole)})
        if struck["code"] == 0 and not struck["operation"]:
            break
    print(json.dumps({"expected": expected, "found": found}))  # noqa: T201


if __name__ == "__main__":
    place = Path(sys.argv[2])
    main(Path(sys.argv[1]), place if place.name else None, Path(sys.argv[3]), sys.argv[4])
