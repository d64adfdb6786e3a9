"""Writes a folder or a file again and again, each time with one operation on files killed or failed: the first, the
second ... until all succeed; prints what was then there as JSON. A process of its own, because it forks."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from simfrontier.errors import InputError
from simfrontier.wholefile import MANIFEST, filled, refuse_unfinished, write_whole
from tests.strike import strike

FOREIGN = {"notes.txt": "mine", "trace-mine.json": "mine"}
OLD = {"results.csv": "old", "trace-a.json": "old", "trace-b.json": "old"}
NEW = {"results.csv": "new", "trace-a.json": "new", "trace-c.json": "new"}
THIRD = {"results.csv": "third", "trace-d.json": "third"}
COMMANDS: dict[str, str | None] = {"run": MANIFEST, "export": None}


def fill(folder: Path, command: str, files: Mapping[str, str]) -> None:
    with filled(folder, command, COMMANDS[command]) as new:
        for name, text in files.items():
            write_whole(new / name, text)


def struck(work: Callable[[], None], at: int, how: str, path: Path) -> dict[str, Any]:
    """What became of the work in a child: `code` (0: done, 2: refused, -9: killed), what it said, the operation."""
    path.write_text("")
    pid = os.fork()
    if pid:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        text = path.read_text()
        return {"code": code, **(json.loads(text) if text else {"said": "", "operation": "it was killed at"})}
    code, reason, write, file = 1, "", os.write, os.open(path, os.O_WRONLY)
    operation = strike(at, how)
    try:
        work()
        code = 0
    except InputError as error:
        code, reason = 2, str(error)
    finally:
        if code != 1:
            write(file, json.dumps({"said": reason, "operation": operation()}).encode())
        os._exit(code)


def state(folder: Path) -> dict[str, Any]:
    """The folder's files that show, those that do not, and whether a reader would refuse it."""
    there = {file.name: file.read_text() if file.is_file() else "" for file in folder.iterdir()}
    try:
        refuse_unfinished(folder)
        unfinished = ""
    except InputError as error:
        unfinished = str(error)
    hidden = sorted(name for name in there if name.startswith("."))
    return {"files": {k: v for k, v in there.items() if k not in hidden}, "hidden": hidden, "unfinished": unfinished}


def main(command: str, how: str, scratch: Path) -> None:
    out = []
    for at in range(1000):
        folder = scratch / str(at)
        folder.mkdir()
        for name, text in FOREIGN.items():
            (folder / name).write_text(text)
        if command == "file":
            write_whole(folder / "results.csv", "old")
            known = struck(lambda: write_whole(folder / "results.csv", "new"), at, how, scratch / "told")  # noqa: B023
        else:
            fill(folder, command, OLD)
            known = struck(lambda: fill(folder, command, NEW), at, how, scratch / "told")  # noqa: B023
        known["after"] = state(folder)
        if command == "file":
            write_whole(folder / "results.csv", "third")
        else:
            fill(folder, command, THIRD)
        known["again"] = state(folder)
        out.append(known)
        if known["code"] == 0 and not known["operation"]:
            break
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
