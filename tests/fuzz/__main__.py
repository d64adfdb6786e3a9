"""`python -m tests.fuzz`: changed files for every reader. Exit code 1 where one takes more than 10 s of CPU time or
2 GB, or where more than one of 1,000 ends in an error that nobody foresaw (exit code 3 of a command). `--reader NAME
--seed S --number N` reads one input again."""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path

from simfrontier.base.errors import SimfrontierError
from tests.fuzz.changes import changed
from tests.fuzz.readers import READERS
from tests.fuzz.samples import made_in

MEMORY = 2 << 30  # bytes more than a process has that has read every sample
HANG_S = 10.0  # of CPU time
ASLEEP_S = 120.0  # of an input that waits for something
MOST_UNFORESEEN = 1e-3  # of all inputs
BATCH = 50  # inputs of one reader in one task

Samples = dict[str, list[bytes]]
Task = tuple[str, int, int]  # reader, first number, how many
Fault = tuple[str, int, str]  # reader, number, what was raised


def input_of(samples: Samples, seed: int, reader: str, number: int) -> bytes:
    """Return the changed file with this number: the same for the same seed."""
    rng = random.Random(f"{seed}/{reader}/{number}")
    own = samples[READERS[reader].kind]
    others = own if rng.random() < 0.7 else [each for kind in samples.values() for each in kind]
    return changed(rng, rng.choice(own), others)


def read_one(samples: Samples, seed: int, reader: str, number: int) -> str:
    """Read an input in the working folder; return what was raised, empty where it was read or refused."""
    path = Path(f"changed{READERS[reader].suffix}").absolute()
    path.write_bytes(input_of(samples, seed, reader, number))
    Path("reading").write_text(f"{reader} {number}", encoding="utf-8")
    faulthandler.dump_traceback_later(ASLEEP_S, exit=True)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANG_S)  # ends the process
    try:
        READERS[reader].read(path, random.Random(number))
    except SimfrontierError:
        pass  # refused, as it should be
    except Exception as error:  # what this looks for
        return f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        faulthandler.cancel_dump_traceback_later()
    return ""


def read_some(samples: Samples, seed: int, task: Task) -> tuple[Task, list[Fault]]:
    """Read the inputs of a task."""
    reader, first, count = task
    found = [(reader, number, read_one(samples, seed, reader, number)) for number in range(first, first + count)]
    return task, [fault for fault in found if fault[2]]


def start_worker(folder: Path, samples: Samples) -> None:
    """Work in a folder of its own, with a limit on memory."""
    mine = folder / str(os.getpid())
    mine.mkdir()
    os.chdir(mine)
    for reader in READERS:  # what they import is not counted as theirs
        read_one(samples, 0, reader, 0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def tasks_of(options: argparse.Namespace, seed: int) -> list[Task]:
    """Return runs of numbers of every reader, by their shares, in a random order."""
    chosen = options.reader or list(READERS)
    shares = sum(READERS[reader].share for reader in chosen)
    tasks: list[Task] = []
    for reader in chosen:
        count = max(1, round(options.count * READERS[reader].share / shares))
        tasks += [(reader, first, min(BATCH, count - first)) for first in range(0, count, BATCH)]
    random.Random(seed).shuffle(tasks)
    return tasks


def fuzz(samples: Samples, seed: int, options: argparse.Namespace, folder: Path) -> tuple[Counter[str], list[Fault]]:
    """Read the inputs of all tasks, or as many as there is time for."""
    counts, faults = Counter[str](), list[Fault]()
    until = time.monotonic() + (options.seconds or 1e9)
    with ProcessPoolExecutor(options.jobs, initializer=start_worker, initargs=(folder, samples)) as pool:
        for (reader, _, count), found in pool.map(partial(read_some, samples, seed), tasks_of(options, seed)):
            counts[reader] += count
            faults += found
            if time.monotonic() > until:
                pool.shutdown(cancel_futures=True)
                break
    return counts, faults


def main() -> int:
    options = parsed()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        samples = made_in(folder / "samples")
        if options.number is not None:
            os.chdir(folder)
            fault = read_one(samples, seed, options.reader[0], options.number)
            sys.stdout.write(f"{fault or 'read, or refused'}\n")
            return 1 if fault else 0
        try:
            counts, faults = fuzz(samples, seed, options, folder)
        except BrokenProcessPool:
            at = ", ".join(path.read_text(encoding="utf-8") for path in folder.glob("*/reading"))
            sys.stdout.write(f"seed {seed}: a process has ended or was ended after {HANG_S:.0f} s, at one of {at}\n")
            return 1
        for reader, number, words in faults:
            path = Path(options.out).absolute() / f"{reader}-{seed}-{number}{READERS[reader].suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(input_of(samples, seed, reader, number))
            sys.stdout.write(f"{reader} {number}: {words}\n  kept as {path}\n")
    read = f"{counts.total():,} inputs of {len(counts)} readers"
    sys.stdout.write(f"{read}, seed {seed}: {len(faults)} unforeseen errors\n")
    return 1 if len(faults) > MOST_UNFORESEEN * counts.total() or not counts else 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="inputs in all")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after so long (0: when all are read)")
    parser.add_argument("--seed", type=int, help="of all changes (default: a new one, which is printed)")
    parser.add_argument("--reader", choices=sorted(READERS), nargs="+", help="these readers alone")
    parser.add_argument("--number", type=int, help="read this one input again, in this process")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--out", default="reports/fuzz", help="folder for inputs that ended in a fault")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
