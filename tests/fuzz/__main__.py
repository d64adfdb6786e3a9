"""`python -m tests.fuzz`: changed files for every reader. Exit code 1 where one ends in a traceback, hangs, takes more
than 1 GB or leaves half a folder. `--reader NAME --seed S --number N` reads one input again."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.readers import READERS
from tests.fuzz.runner import BATCH, FAULTS, FuzzResult, Task, fuzz, input_of, read_one
from tests.fuzz.samples import made_in


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        samples = made_in(Path(folder))
        if options.number is not None:
            return _again(samples, options, Path(folder))
        seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
        sys.stdout.write(f"seed {seed}; {options.count:,} inputs over {len(READERS)} readers, {options.jobs} at once\n")
        sys.stdout.flush()
        started = time.monotonic()
        until = started + (options.seconds or 1e9)
        result = fuzz(samples, seed, _tasks(options, seed), options.jobs, until, _tell)
        took = time.monotonic() - started
        for reader in READERS:
            counts = {ended: result.ended[reader, ended] for ended in ("read", "refused", *FAULTS)}
            if sum(counts.values()):
                message = ", ".join(f"{count:,} {ended}" for ended, count in counts.items() if count)
                sys.stdout.write(f"  {reader:16} {message}\n")
        for fault, reader, number, words in result.faults[:40]:
            path = Path(options.out) / f"{reader}-{seed}-{number}{READERS[reader].suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(input_of(samples, seed, reader, number))
            sys.stdout.write(f"{fault}: {reader} {number}: {words}\n  kept as {path}; again: python -m tests.fuzz ")
            sys.stdout.write(f"--reader {reader} --seed {seed} --number {number}\n")
    totals = {fault: sum(count for (_, ended), count in result.ended.items() if ended == fault) for fault in FAULTS}
    sys.stdout.write(
        f"{len(result):,} inputs in {took:.0f} s, seed {seed}: tracebacks {totals['traceback']}, hangs > 10 s "
        f"{totals['hang']}, memory > 1 GB {totals['memory']}, half-written folders {totals['half-written']}; "
        f"slowest {result.slowest_s:.1f} s of CPU time\n"
    )
    return 1 if result.faults or not len(result) else 0


def _tell(result: FuzzResult) -> None:
    last = "".join(f"; the last: {' '.join(map(str, fault))}" for fault in result.faults[-1:])
    sys.stderr.write(f"{len(result):,} inputs, {len(result.faults)} faults{last}\n")
    sys.stderr.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="inputs in all")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after so long (0: when all are read)")
    parser.add_argument("--seed", type=int, help="of all changes (default: a new one, which is printed)")
    parser.add_argument("--reader", choices=sorted(READERS), nargs="+", help="these readers alone")
    parser.add_argument("--number", type=int, help="read this one input again, in this process")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--out", default="reports/fuzz", help="folder for inputs that ended in a fault")
    return parser.parse_args()


def _tasks(options: argparse.Namespace, seed: int) -> list[Task]:
    """Runs of numbers of every reader, by their shares, in a random order."""
    chosen = options.reader or list(READERS)
    shares = sum(READERS[reader].share for reader in chosen)
    tasks: list[Task] = []
    for reader in chosen:
        count = max(1, round(options.count * READERS[reader].share / shares))
        batch = 1 if READERS[reader].share < 1 else BATCH
        tasks += [(reader, first, min(batch, count - first)) for first in range(0, count, batch)]
    random.Random(seed).shuffle(tasks)
    return tasks


def _again(samples: dict[str, list[bytes]], options: argparse.Namespace, folder: Path) -> int:
    (reader,) = options.reader
    ended, words, took = read_one(samples, options.seed or 0, reader, options.number, folder)
    sys.stdout.write(f"{reader} {options.number}, seed {options.seed or 0}: {ended} in {took:.1f} s: {words}\n")
    return 1 if ended in FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
