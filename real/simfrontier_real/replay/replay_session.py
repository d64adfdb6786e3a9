"""Replay of schedules on joined ranks: warm-up, timed steps, profiles, and one trace per schedule, written by rank
0."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

from simfrontier.base.errors import InputError
from simfrontier.base.extras import added
from simfrontier.base.wholefile import write_json
from simfrontier.core.collectives import traced_call
from simfrontier.core.program import Compute, Exchange
from simfrontier.core.trace import LinkTable, kineto, read_perfetto, save_links
from simfrontier_real.ops.op_runner import LaneStep
from simfrontier_real.ops.programs import rank_context_of
from simfrontier_real.ranks.session import LoadedSchedule, Session
from simfrontier_real.ranks.transport import Transport, group_of
from simfrontier_real.ranks.world import World
from simfrontier_real.replay.replay import ReplayRunner, StandInKernels, waits_of
from simfrontier_real.replay.timed import timed_steps, write_trace

_OP: Final = "simfrontier op "  # and its number in the rank's program


@dataclass
class StepProfiler:
    """PyTorch profiler of one rank, and the writing of its traces."""

    world: World
    loaded: LoadedSchedule
    profile: Any = field(init=False)
    _step: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # fewer log lines from the profiler
        from torch._C._profiler import _ExperimentalConfig
        from torch.profiler import ProfilerActivity, profile

        activities = [ProfilerActivity.CPU]
        if self.world.device != "cpu":
            activities.append(ProfilerActivity.CUDA)
        # lanes have threads of their own
        self.profile = profile(activities=activities, experimental_config=_ExperimentalConfig(profile_all_threads=True))

    def annotated(self, index: int) -> AbstractContextManager[Any]:
        """Return the context in which an op runs: the profiler's annotation with the op's name."""
        from torch.profiler import record_function

        return record_function(f"{_OP}{index}")

    def begin_step(self, number: int) -> None:
        """Record that all ranks have passed the barrier and begin a step."""
        from torch.profiler import record_function

        self._step = record_function(f"{kineto.STEP_PREFIX}{number}")
        self._step.__enter__()

    def end_step(self) -> None:
        """Record that the step has ended on this rank."""
        self._step.__exit__(None, None, None)

    def write(self, folder: Path) -> None:
        """Stop the profiler, and write this rank's trace to `NAME-rank-N.json`."""
        self.profile.stop()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as made:
            path = Path(made) / "trace.json"
            self.profile.export_chrome_trace(str(path))
            document = json.loads(path.read_text(encoding="utf-8"))
        described = cache(self._described)
        program = self.loaded.programs.of(self.world.rank)
        first = {op.number: index for index, op in reversed(list(enumerate(program.ops)))}
        for event in document.get("traceEvents", []):
            if event.get("ph") == "X" and str(event.get("name", "")).startswith(_OP):
                index = int(event["name"].removeprefix(_OP))
                event["name"], args = described(first[program.ops[index].number])
                event["args"] = {**event.get("args", {}), **args}
        write_json(document, folder / f"{self.loaded.name}-rank-{self.world.rank:03}.json")

    def _described(self, index: int) -> tuple[str, dict[str, Any]]:
        """Return the name and the args of an op's event in the trace."""
        program, schedule = self.loaded.programs.of(self.world.rank), self.loaded.schedule
        op = program.ops[index]
        if isinstance(op, Compute):
            return f"{op.kind} {op.name}", {}
        call, mesh, rank = traced_call(op, schedule, program.at), schedule.mesh, self.world.rank
        axes = (op.axis,) if isinstance(op, Exchange) else mesh.live(op.axes)
        number, members = group_of(mesh, axes, rank)
        group = {
            kineto.GROUP_NAME: f"{call.comm}/{op.lane}/{'+'.join(axes)}/{number}",
            kineto.GROUP_WHAT: call.comm,
            kineto.GROUP_RANKS: str(list(members)),
        }
        return f"{self.world.backend} {call.args[kineto.COLLECTIVE]}", {**call.args, **group}


class StepMeter(Protocol):
    """Interface of one rank's part in counting the bytes of network links; all ranks call both methods."""

    def begin(self, number: int) -> None:
        """Prepare the next step; called before each step."""

    def end(self, num_steps: int, digest: str, title: str) -> LinkTable | None:
        """Return on rank 0 the bytes of every link in a timed step, as the mean over `num_steps` steps; None on other
        ranks or if nothing is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterMaker:
    """Factory of step meters: `make` is called with the world and the number of the first counted step. Extras add
    factories in `real/meters.py`."""

    make: Callable[[World, int], StepMeter]


def meters_of(world: World, first: int) -> tuple[StepMeter, ...]:
    return tuple(maker.make(world, first) for maker in added("real.meters", MeterMaker))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """Settings of a replay: output folder of the traces, number of iterations, mode of compute, number of ranks whose
    ops are in the traces, and output folder for the traces of PyTorch's profiler in the timed steps (None: no
    profiler)."""

    out: Path
    iterations: int = 10
    warmup: int = 2
    compute: str = "real"
    waits: Path | None = None
    trace_ranks: int | None = None
    profile: Path | None = None


def replay_all(session: Session, settings: ReplaySettings) -> None:
    """Replay every schedule of a session. Raises InputError if the given op durations (--waits) do not match a
    schedule."""
    if settings.compute == "wait" and session.world.device != "cpu":
        raise InputError("streams of a device cannot sleep; allowed on a GPU: real or none", where="--compute wait")
    replay(session, session.loaded, settings)


def replay(
    session: Session,
    several: Sequence[LoadedSchedule],
    settings: ReplaySettings,
    started: Callable[[int], None] = lambda _: None,
    ended: Callable[[int], None] = lambda _: None,
) -> None:
    """Replay schedules one after the other, with the step meters of extras; every rank calls `started` when a step
    begins, and `ended` after it."""
    if session.world.rank == 0:
        settings.out.mkdir(parents=True, exist_ok=True)
    for loaded in several:
        _replay(session, loaded, settings, started, ended)
        session.world.barrier()


def _replay(
    session: Session,
    loaded: LoadedSchedule,
    settings: ReplaySettings,
    started: Callable[[int], None],
    ended: Callable[[int], None],
) -> None:
    world, schedule, programs = session.world, loaded.schedule, loaded.programs
    program = programs.of(world.rank)

    def step_of(transport: Transport) -> LaneStep:
        context = rank_context_of(schedule, program, session.backend, world.rank)
        waits = _waits(loaded, settings.waits, world.rank)
        op_runner = ReplayRunner(context, StandInKernels(settings.compute, waits))  # type: ignore[arg-type]
        return LaneStep(program, schedule.mesh, op_runner, transport)

    step = session.ready(loaded, step_of)
    meters, profiler = meters_of(world, settings.warmup), _profiler(session, loaded, step, settings)

    def begin(number: int) -> None:
        for meter in meters:
            meter.begin(number)
        if profiler is not None and number == settings.warmup:
            profiler.profile.start()

    def set_out(number: int) -> None:
        if profiler is not None:
            profiler.begin_step(number - settings.warmup)
        started(number)

    def come_to_end(number: int) -> None:
        if profiler is not None:
            profiler.end_step()
        ended(number)

    ranks, clock_error_s = timed_steps(
        session,
        step,
        settings.iterations,
        f"replaying {loaded.name}",
        settings.warmup,
        before=begin,
        at_start=set_out,
        after=come_to_end,
    )
    if profiler is not None and settings.profile is not None:
        profiler.write(settings.profile)
    tables = [meter.end(settings.iterations, loaded.digest, f"{loaded.name}, counted") for meter in meters]
    if ranks is None:
        return
    for table in filter(None, tables):
        save_links(table, settings.out / f"links-{loaded.name}.json")
    notes = {"mode": f"replay, compute {settings.compute}", "warmup": str(settings.warmup)}
    write_trace(session, loaded, ranks, clock_error_s, settings.out, "real", notes, settings.trace_ranks)


def _profiler(
    session: Session, loaded: LoadedSchedule, step: LaneStep, settings: ReplaySettings
) -> StepProfiler | None:
    """Return the profiler of this rank, which annotates the ops of its step; None if profiling is off."""
    if settings.profile is None:
        return None
    profiler = StepProfiler(session.world, loaded)
    step.annotated = profiler.annotated
    return profiler


def _waits(loaded: LoadedSchedule, folder: Path | None, rank: int) -> list[float] | None:
    if folder is None:
        return None
    path = folder / f"trace-{loaded.name}.json"
    trace = read_perfetto(path)
    if trace.digest != loaded.digest:
        raise InputError(
            f"is of another schedule than {loaded.path}: {trace.digest[:16]}… and {loaded.digest[:16]}…",
            where=str(path),
        )
    return waits_of(trace, rank, loaded.programs.of(rank).num_ops, str(path))
