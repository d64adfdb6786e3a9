"""Steps under PyTorch's profiler: a trace of each rank, as of any training, in which gloo's calls say their groups.

With NCCL and RCCL the profiler writes what a collective moves, and in which group; of gloo it does not. So every op of
a step is an annotation on the thread of its lane, which gets Kineto's keys when the trace is written.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from simfrontier.base.wholefile import write_json
from simfrontier.core.collectives import traced_call
from simfrontier.core.program import Compute, Exchange
from simfrontier.core.trace import kineto
from simfrontier_real.ranks.session import LoadedSchedule
from simfrontier_real.ranks.transport import group_of
from simfrontier_real.ranks.world import World

_OP: Final = "simfrontier op "  # and its number in the rank's program


@dataclass
class StepProfiler:
    """The profiler of one rank, and how the traces of its steps are written."""

    world: World
    loaded: LoadedSchedule
    profile: Any = field(init=False)
    _step: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # fewer lines of the profiler's own between ours
        from torch._C._profiler import _ExperimentalConfig
        from torch.profiler import ProfilerActivity, profile

        activities = [ProfilerActivity.CPU]
        if self.world.device != "cpu":
            activities.append(ProfilerActivity.CUDA)
        # lanes have threads of their own
        self.profile = profile(activities=activities, experimental_config=_ExperimentalConfig(profile_all_threads=True))

    def annotated(self, index: int) -> AbstractContextManager[Any]:
        """The annotation of an op."""
        from torch.profiler import record_function

        return record_function(f"{_OP}{index}")

    def begin_step(self, number: int) -> None:
        """All ranks have waited for each other, and set out on a step."""
        from torch.profiler import record_function

        self._step = record_function(f"{kineto.STEP_PREFIX}{number}")
        self._step.__enter__()

    def end_step(self) -> None:
        """The step has ended on this rank."""
        self._step.__exit__(None, None, None)

    def write(self, folder: Path) -> None:
        """Stop, and write this rank's trace, `NAME-rank-N.json`."""
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
        """The name of an op's event, and its args."""
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
