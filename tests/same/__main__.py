"""Hold this work tree against another commit: `python -m tests.same REF`. Exit code 1 where anything differs.

Both are run at the same time, a process each, so that their CPU seconds are taken under the same load. What a commit
gave is kept in reports/same by its hash; such stored seconds were taken at another time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.same.collect import SECONDS
from tests.same.compare import differences
from tests.same.jobs import TIMED

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 60


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"same: git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def _start(checkout: Path, out: Path) -> subprocess.Popen[bytes]:
    """Collect the outputs of a checkout, with its own list of jobs, in a process of its own."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": os.pathsep.join(map(str, (checkout, checkout / "real")))}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    parts = [
        str(part) for name in ("simfrontier", "simfrontier_extras", "tests/same") if (part := checkout / name).is_dir()
    ]
    subprocess.run([sys.executable, "-m", "compileall", "-q", *parts], env=environment, check=True)
    return subprocess.Popen([sys.executable, "-m", "tests.same.collect", str(out)], cwd=checkout, env=environment)


@contextmanager
def _checkout(commit: str, folder: Path) -> Iterator[Path]:
    """The files of a commit in a folder of their own."""
    _git("worktree", "add", "--detach", "--force", str(folder), commit)
    try:
        if not (folder / "tests" / "same").is_dir():
            raise SystemExit(f"same: {commit[:12]} has no tests/same; allowed: commits that have it")
        yield folder
    finally:
        _git("worktree", "remove", "--force", str(folder))


def _collected(ref: str, store: Path, scratch: Path, fresh: bool) -> tuple[Path, Path, bool]:
    """(outputs of the commit, outputs of this work tree, whether the first were stored)."""
    commit = _git("rev-parse", "--verify", f"{ref}^{{commit}}")
    before, after = store / commit, scratch / "after"
    if (before / SECONDS).exists() and not fresh:
        _finished(_start(ROOT, after))
        return before, after, True
    with _checkout(commit, scratch / "before"):
        both = [_start(scratch / "before", scratch / "new"), _start(ROOT, after)]
        for process in both:
            _finished(process)
    before.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["rm", "-rf", str(before)], check=True)
    subprocess.run(["mv", str(scratch / "new"), str(before)], check=True)
    return before, after, False


def _finished(process: subprocess.Popen[bytes]) -> None:
    if process.wait():
        raise SystemExit("same: the outputs could not be collected")


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.same", description=__doc__)
    parser.add_argument("ref", nargs="?", default="HEAD", help="commit to compare with (default: HEAD)")
    parser.add_argument(
        "--store", type=Path, default=ROOT / "reports" / "same", help="where outputs of commits are kept"
    )
    parser.add_argument("--fresh", action="store_true", help="run the commit although its outputs are stored")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="simfrontier-same-") as scratch:
        before, after, stored = _collected(given.ref, given.store.resolve(), Path(scratch), given.fresh)
        lines = differences(before, after)
        old, new = (json.loads((side / SECONDS).read_text(encoding="utf-8")) for side in (before, after))
    for job in TIMED:
        when = " (stored)" if stored else ""
        sys.stdout.write(f"{job.name}: {old[job.name]:.2f} CPU s{when}, now {new[job.name]:.2f}\n")
    for line in lines[:MOST_LINES]:
        sys.stdout.write(f"{line}\n")
    if len(lines) > MOST_LINES:
        sys.stdout.write(f"and {len(lines) - MOST_LINES} more\n")
    sys.stdout.write(f"{len(lines)} differences from {given.ref}\n" if lines else f"the same as {given.ref}\n")
    raise SystemExit(1 if lines else 0)


if __name__ == "__main__":
    main()
