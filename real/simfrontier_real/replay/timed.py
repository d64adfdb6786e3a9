"""Timed steps on joined ranks: barrier, step, times of the step; then the times of all ranks on rank 0, and their
trace."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.trace import file_of, write_perfetto
from simfrontier_real.ops.executor import Executor
from simfrontier_real.ops.op_runner import LaneStep
from simfrontier_real.ranks.hosts import offset_s, processor_time
from simfrontier_real.ranks.session import LoadedSchedule, Session
from simfrontier_real.ranks.world import LostRankError
from simfrontier_real.replay.record import RankTimes, arrows_of, clocked, trace_of


@contextmanager
def progress(rank: int, total: int, title: str) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each of `total` steps, which shows the progress on rank 0 and does nothing
    elsewhere."""
    if rank != 0:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)


THROUGH_HOST = "messages copied through the host's memory"


def timed_steps(
    session: Session,
    step: LaneStep,
    num_steps: int,
    title: str,
    warmup: int = 0,
    before: Callable[[int], None] = lambda _: None,
    at_start: Callable[[int], None] = lambda _: None,
    after: Callable[[int], None] = lambda _: None,
    first: int = 0,
) -> tuple[list[RankTimes] | None, float]:
    """Run `num_steps` steps after `warmup` steps. Return the times of all ranks on rank 0 (None elsewhere), and the
    largest error of the ranks' clocks in seconds. `before` and `after` are called around every step with its number,
    counted from `first`; `at_start` is called when all ranks have passed the barrier. Errors of ops name the step,
    counted from 1."""
    world, times = session.world, []
    offset, clock_error_s = offset_s(world, session.host)
    executor = Executor(step, session.lanes(step))
    freeze()
    with progress(world.rank, warmup + num_steps, title) as advance:
        started = processor_time()
        for number in range(warmup + num_steps):
            if number == warmup:
                started = processor_time()
            before(first + number)
            with uncollected():
                world.barrier_of_step()
                at_start(first + number)
                with _of_step(first + number):
                    spent = executor.run_step(session.timeout_s)
            after(first + number)
            if number >= warmup:
                times.append(spent)
            advance()
    ended = processor_time()
    executor.close()
    taken = None if started is None or ended is None else ended.since(started)
    return world.gather(clocked(times, offset, session.host, step.message_bytes, taken)), clock_error_s


def write_trace(
    session: Session,
    loaded: LoadedSchedule,
    ranks: list[RankTimes],
    clock_error_s: float,
    out: Path,
    how: str,
    notes: Mapping[str, str],
    most_ranks: int | None = None,
) -> None:
    """Write the trace of a schedule that has run, trace-NAME.json, from the times of all ranks, with the ops of at most
    `most_ranks` ranks; the title contains `how`, the way in which it ran."""
    world = session.world
    notes = {
        "backend": world.backend,
        "collectives": loaded.carried,
        **({"buffers": f"on {world.device}, {THROUGH_HOST}"} if world.goes_through_host else {}),
        **notes,
        "clock_error_s": f"{clock_error_s:.9f}",
    }
    title = f"{loaded.name}, {how}, {world.size} ranks"
    trace = trace_of(loaded.schedule, loaded.programs, ranks, title, notes, most_ranks)
    file = file_of(trace)
    file = replace(file, arrows=arrows_of(loaded.schedule, loaded.programs, file.processes))
    write_perfetto(file, out / f"trace-{loaded.name}.json")


def freeze() -> None:
    """Exclude all existing objects from garbage collection: scanning torch's modules alone takes 60 ms."""
    gc.collect()
    gc.freeze()


@contextmanager
def _of_step(number: int) -> Iterator[None]:
    """Prefix errors of ops in the block with the number of the step."""
    try:
        yield
    except SimfrontierError as error:
        if type(error) in (SimfrontierError, LostRankError):
            raise type(error)(f"step {number + 1}, {error}") from None
        raise


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect garbage now and disable collection in the block: with 16 ranks on two cores, simultaneous collection
    within a step takes seconds."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
