"""A stand-in for Slurm: `sbatch`, `squeue` and `scancel` that run a job's script in a session of its own on this
machine, and write down what they were asked for."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

SBATCH = """#!/bin/bash
# Job N is folder/N.pid; its script is kept. What the file `refused` says is why no more jobs are taken; with a
# file `waits`, jobs do not start.
cd {folder}
if [ -f refused ]; then cat refused >&2; exit 1; fi
if [ "$1" = --test-only ]; then exit 0; fi
number=$(( $(ls *.sh 2>/dev/null | wc -l) + 1001 ))
cp "$1" $number.sh
echo "sbatch $number" >> log
if [ ! -f waits ]; then
    setsid bash $number.sh > $number.out 2>&1 < /dev/null &
    echo $! > $number.pid
fi
echo "Submitted batch job $number"
"""
SCANCEL = """#!/bin/bash
cd {folder}
for number in "$@"; do
    echo "scancel $number" >> log
    [ -f $number.pid ] && kill -KILL -- -$(cat $number.pid) 2>/dev/null && rm -f $number.pid
done
exit 0
"""
SQUEUE = """#!/bin/bash
cd {folder}
for each in *.pid; do echo "${{each%.pid}} R"; done
"""


def installed(folder: Path) -> Path:
    """The folder of the programs, to be put before PATH."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL), ("squeue", SQUEUE)):
        path = programs / name
        path.write_text(text.format(folder=folder), encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return programs


def log(folder: Path) -> list[str]:
    path = folder / "log"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def refuse(folder: Path, text: str) -> None:
    """From now on `sbatch` says this and takes no job."""
    (folder / "refused").write_text(text, encoding="utf-8")


def kill(folder: Path, number: int) -> None:
    """Kill everything of a job, as a node that fails does."""
    os.killpg(int((folder / f"{number}.pid").read_text()), signal.SIGKILL)


def running(folder: Path) -> list[int]:
    """The leaders of the jobs that run."""
    out = []
    for path in folder.glob("*.pid"):
        pid = int(path.read_text())
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            continue
        out.append(pid)
    return out
