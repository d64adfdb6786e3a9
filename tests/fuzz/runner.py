"""Changed files one after the other, in worker processes with a limit on memory that are watched for hangs."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path

from simfrontier.errors import SimfrontierError
from simfrontier_real.parent import end_with_parent
from tests.fuzz.changes import changed
from tests.fuzz.readers import READERS, HalfWritten

MEMORY = 1 << 30  # bytes more than a worker that has read every sample
HANG_S = 10.0  # CPU time of one input
SILENT_S = 60.0  # and wall time without a word, where the machine has other work
FAULTS = ("traceback", "hang", "memory", "half-written")
BATCH = 50
TELL_S = 60.0  # between two words of how far it is

Samples = dict[str, list[bytes]]
Task = tuple[str, int, int]  # reader, first number, how many


@dataclass
class FuzzResult:
    """How many inputs each reader has read, how they ended, and the faults: (fault, reader, number, words)."""

    ended: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[tuple[str, str, int, str]] = field(default_factory=list)
    slowest_s: float = 0.0

    def __len__(self) -> int:
        return self.ended.total()


def input_of(samples: Samples, seed: int, reader: str, number: int) -> bytes:
    """The changed file with this number: the same for the same seed."""
    rng = random.Random(f"{seed}/{reader}/{number}")
    own = samples[READERS[reader].kind]
    others = own if rng.random() < 0.7 else [each for kind in samples.values() for each in kind]
    return changed(rng, rng.choice(own), others)


def read_one(samples: Samples, seed: int, reader: str, number: int, folder: Path) -> tuple[str, str, float]:
    """(how it ended, words, CPU seconds): `read`, `refused`, or a fault."""
    path = folder / f"changed{READERS[reader].suffix}"
    path.write_bytes(input_of(samples, seed, reader, number))
    started = time.process_time()
    ended, words = "read", ""
    try:
        READERS[reader].read(path, random.Random(f"{number}"))
    except SimfrontierError:
        ended = "refused"
    except MemoryError:
        ended, words = "memory", "MemoryError"
    except HalfWritten as error:
        ended, words = "half-written", str(error)
    except Exception as error:  # what this looks for
        ended, words = "traceback", f"{type(error).__name__}: {error}"
    took = time.process_time() - started
    if took > HANG_S:
        ended, words = "hang", f"{took:.1f} s of CPU time; {words}"
    return ended, words[:300], took


def _work(mine: Connection, sentinel: int, samples: Samples, seed: int) -> None:
    end_with_parent(sentinel)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chdir(folder)
        for each in READERS.values():  # what they import counts as base
            path = folder / f"whole{each.suffix}"
            path.write_bytes(samples[each.kind][0])
            with suppress(Exception):  # a fault shows again when it comes up with a number
                each.read(path, random.Random(0))
        limit = _virtual_bytes() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        mine.send(None)
        while (task := mine.recv()) is not None:
            reader, first, count = task
            for number in range(first, first + count):
                mine.send((reader, number))
                mine.send((reader, number, *read_one(samples, seed, reader, number, folder)))
            mine.send(None)


def _virtual_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


class _Worker:
    """A process, its connection, what it is at and since when."""

    def __init__(self, samples: Samples, seed: int) -> None:
        context = multiprocessing.get_context("fork")
        self.connection, its = context.Pipe()
        read_end, self.write_end = os.pipe()
        self.process = context.Process(target=_work, args=(its, read_end, samples, seed), daemon=True)
        self.process.start()
        os.close(read_end)
        its.close()
        self.at: tuple[str, int] | None = None
        self.task: Task | None = None
        self.heard = time.monotonic()

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()
        os.close(self.write_end)


def fuzz(
    samples: Samples, seed: int, tasks: Sequence[Task], jobs: int, until: float, tell: Callable[[FuzzResult], None]
) -> FuzzResult:
    """Read the inputs of all tasks, or as many as there is time for (`until`, of time.monotonic); `tell` is called
    every minute."""
    result, left = FuzzResult(), list(reversed(tasks))
    workers = [_Worker(samples, seed) for _ in range(jobs)]
    reported_s = time.monotonic()
    while workers:
        if time.monotonic() - reported_s > TELL_S:
            reported_s += TELL_S
            tell(result)
        ready = {each.connection for each in workers} & set(wait([each.connection for each in workers], timeout=1.0))
        for worker in list(workers):
            try:
                if worker.connection in ready:
                    _hear(worker, result, left, until)
                elif worker.at is not None and time.monotonic() - worker.heard > SILENT_S:
                    _lost(worker, result, left, "hang", f"no word for {SILENT_S:.0f} s")
            except EOFError:
                if worker.task is not None and worker.at is not None:
                    _lost(worker, result, left, "memory", "the process was ended")
            if worker.task is None and worker.process.exitcode is not None:
                workers.remove(worker)
                worker.end()
            elif worker.process.exitcode is not None or not worker.process.is_alive():
                workers[workers.index(worker)] = _Worker(samples, seed)
                worker.end()
    return result


def _hear(worker: _Worker, result: FuzzResult, left: list[Task], until: float) -> None:
    message = worker.connection.recv()
    worker.heard = time.monotonic()
    if message is None:
        worker.at = None
        worker.task = left.pop() if left and time.monotonic() < until else None
        worker.connection.send(worker.task)
        if worker.task is None:
            worker.process.join()
    elif len(message) == 2:
        worker.at = message
    else:
        reader, number, ended, words, took = message
        worker.at = None
        result.ended[reader, ended] += 1
        result.slowest_s = max(result.slowest_s, took)
        if ended in FAULTS:
            result.faults.append((ended, reader, number, words))


def _lost(worker: _Worker, result: FuzzResult, left: list[Task], fault: str, words: str) -> None:
    """A worker that does not come back: its input is a fault, the rest of its task is done by another."""
    assert worker.at is not None and worker.task is not None
    (reader, number), (_, first, count) = worker.at, worker.task
    result.ended[reader, fault] += 1
    result.faults.append((fault, reader, number, words))
    if number + 1 < first + count:
        left.append((reader, number + 1, first + count - number - 1))
    worker.process.kill()
    worker.process.join()
