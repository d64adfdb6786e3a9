"""Session of a real run: each rank reads and checks the schedule files, the ranks join, and verify that all run the
same."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from simfrontier.base.errors import InputError, SimfrontierError
from simfrontier.core.collectives import LoweredSchedule
from simfrontier.core.program import Schedule, check, digest, load
from simfrontier_real.ops.arrays import Backend, torch_backend
from simfrontier_real.ops.lanes import Lanes, StreamLanes, StreamThreadLanes, ThreadLanes
from simfrontier_real.ops.op_runner import LaneStep
from simfrontier_real.ops.programs import Programs, programs_of
from simfrontier_real.options import refuse_size
from simfrontier_real.ranks.failure import end_run
from simfrontier_real.ranks.lowered import SCHEDULE_PREFIX, LoweredTransport, described, read_lowered, refuse_per_hop
from simfrontier_real.ranks.processes import TorchTransport
from simfrontier_real.ranks.transport import Transport
from simfrontier_real.ranks.world import World, end_with_launcher, join, leave, place_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSchedule:
    """A schedule file with the programs of its roles. `name` is the file name without `schedule-` and suffix; `lowered`
    are the algorithms of its collectives as explicit transfers (None: the library's own collectives); `peak_bytes` is
    the largest memory use of a rank by the schedule's check (0: not checked)."""

    name: str
    path: Path
    schedule: Schedule
    programs: Programs
    digest: str
    lowered: LoweredSchedule | None = None
    peak_bytes: int = 0

    @property
    def carried(self) -> str:
        """Description of how collectives are executed: native, or lowered with the names of the algorithms."""
        return "native" if self.lowered is None else described(self.lowered)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The joined ranks, with the array backend, lanes and transport of this rank."""

    world: World
    loaded: tuple[LoadedSchedule, ...]
    transport: TorchTransport
    backend: Backend
    lanes: Callable[[LaneStep], Lanes]
    timeout_s: float

    @property
    def host(self) -> str:
        return socket.gethostname()

    def agreed(self, paths: Sequence[Path], collectives: str) -> tuple[LoadedSchedule, ...]:
        """Read and check further schedules, and verify that all ranks have the same."""
        return _agreed(self.world, list(paths), True, collectives)

    def ready(self, loaded: LoadedSchedule, make: Callable[[Transport], T]) -> T:
        """Create the process groups of a schedule and return `make(transport)`. All ranks call this together; an error
        on one rank is raised on all."""
        self.transport.prepare(loaded.schedule)
        return self.world.run_on_all(lambda: make(self._transport_of(loaded)))

    def _transport_of(self, loaded: LoadedSchedule) -> Transport:
        if loaded.lowered is None:
            return self.transport
        return LoweredTransport(loaded.schedule, loaded.lowered, self.world.rank, self.transport.wire, self.transport)


@contextmanager
def session(
    paths: list[Path],
    backend: str,
    checked: bool,
    join_s: float,
    timeout_s: float,
    collectives: str = "native",
    device: str | None = None,
) -> Iterator[Session]:
    """Read and check schedules, join the ranks, verify that all run the same, and leave at the end of the block; any
    error ends the process with one clear line or table.

    With `checked` False, the schedule's check and the comparison of digests are skipped (to observe the effect of a
    wrong schedule). `collectives` is native or lowered, `device` cpu or cuda (None: the backend's default).
    """
    world: World | None = None
    rank = 0
    try:
        end_with_launcher()
        place = place_of(os.environ)
        rank = place.rank
        # torch's own timeout comes after ours, whose report has more details
        world = join(place, backend, join_s, timeout_s + 15.0, device)
        loaded = _agreed(world, paths, checked, collectives)
        yield Session(
            world=world,
            loaded=loaded,
            transport=TorchTransport(
                world, timeout_s + 15.0, staged_for=world.device if world.goes_through_host else None
            ),
            backend=torch_backend(world.device),
            lanes=_lanes(world),
            timeout_s=timeout_s,
        )
    except (Exception, KeyboardInterrupt) as error:
        end_run(error, world, rank)
    leave(world)


def _lanes(world: World) -> Callable[[LaneStep], Lanes]:
    if world.device == "cpu":
        return ThreadLanes
    lanes = StreamThreadLanes if world.goes_through_host else StreamLanes
    return lambda step: lanes(step, world.device)


def _read(path: Path, checked: bool, collectives: str) -> LoadedSchedule:
    schedule, peak_bytes = load(path), 0
    if checked:
        report = check(schedule)
        peak_bytes = 0 if report.peak is None else report.peak.num_bytes
        if report.findings:
            more = f" (and {len(report.findings) - 1} more findings)" if len(report.findings) > 1 else ""
            raise SimfrontierError(f"{path}: the schedule is not sound: {report.findings[0]}{more}")
    refuse_per_hop(schedule, str(path), collectives == "lowered")
    is_of = digest(schedule)
    return LoadedSchedule(
        name=path.stem.removeprefix(SCHEDULE_PREFIX),
        path=path,
        schedule=schedule,
        programs=programs_of(schedule),
        digest=is_of,
        lowered=read_lowered(path, is_of) if collectives == "lowered" else None,
        peak_bytes=peak_bytes,
    )


def _agreed(world: World, paths: list[Path], checked: bool, collectives: str) -> tuple[LoadedSchedule, ...]:
    """Read the schedules on all ranks. Raises InputError if their digests differ between ranks."""

    def read() -> tuple[LoadedSchedule, ...]:
        loaded = tuple(_read(path, checked, collectives) for path in paths)
        for each in loaded:
            refuse_size(each.schedule, str(each.path), world.size)
        _refuse_same_names(loaded)
        return loaded

    loaded = world.run_on_all(read)
    everybody = world.all_gather([(each.name, each.digest, _lowering_digest(each)) for each in loaded])
    if checked:
        _refuse_differences(everybody)
    return loaded


def _refuse_same_names(loaded: tuple[LoadedSchedule, ...]) -> None:
    first: dict[str, Path] = {}
    for each in loaded:
        if first.setdefault(each.name, each.path) is not each.path:
            raise InputError(f"{first[each.name]} has the same name; allowed: every name once", where=str(each.path))


def _lowering_digest(loaded: LoadedSchedule) -> str:
    """Return the digest of the lowered collectives; empty for native collectives."""
    return "" if loaded.lowered is None else hashlib.sha256(repr(loaded.lowered.recipes).encode()).hexdigest()


def _refuse_differences(everybody: list[list[tuple[str, str, str]]]) -> None:
    """Raise InputError for the first rank that runs other schedules than rank 0; `everybody` has for each rank a list
    of (name, digest of the schedule, digest of its lowered collectives)."""
    first = everybody[0]
    for rank, theirs in enumerate(everybody):
        for (ours, digest_here, carried_here), (name, digest_there, carried_there) in zip(first, theirs, strict=True):
            if digest_there != digest_here:
                raise InputError(
                    f"rank {rank} reads another schedule than rank 0: {name} is {digest_there[:16]}…, "
                    f"{ours} on rank 0 is {digest_here[:16]}…"
                )
            if carried_there != carried_here:
                raise InputError(f"rank {rank} carries the collectives of {name} otherwise than rank 0")
