"""Training in this process that writes checkpoints and goes on from them, and a world of one rank that reads them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch.distributed import checkpoint

from simfrontier.base.errors import SimfrontierError
from simfrontier.base.wholefile import write_whole
from simfrontier.core.collectives import LoweredSchedule
from simfrontier.core.plan import build, make_plan
from simfrontier.core.program import Ref, Schedule, digest
from simfrontier.core.workload import gpt
from simfrontier_real.ops.codecs.encoded import Encoded, octets
from simfrontier_real.ops.programs import programs_of
from simfrontier_real.ranks.session import LoadedSchedule
from simfrontier_real.train.checkpoints.manifest import (
    MANIFEST,
    Manifest,
    manifest_text,
    read_manifest,
    saved_file,
    step_folder,
)
from simfrontier_real.train.checkpoints.run import FoundCheckpoint, manifest_of
from simfrontier_real.train.checkpoints.states import ChunkSavePlanner, HeldTensor, held_states, state_dict
from simfrontier_real.train.states import Weights, assembled
from simfrontier_real.train.training_settings import BEGINNING, TrainingSettings
from tests.core.program.builders import mesh_of, options_of
from tests.real.schedules import GPT, PLAIN, Sizes
from tests.real.together import Training

STEPS = 4  # of a whole run; checkpoints are after two
SETTINGS = TrainingSettings(steps=STEPS)


def same_batch(
    plan: tuple[str, dict[str, Any]],
    sizes: Sizes,
    precision: str = "fp64",
    types: dict[str, str] | None = None,
    optimizer: Any = "adam",
    batch: int = 8,
) -> Schedule:
    """The schedule of a plan with a batch that does not depend on the number of ranks."""
    family, options = plan
    mesh = mesh_of(*sizes)
    workload = gpt(GPT, batch, "full", precision=precision)
    workload = replace(workload, precision=workload.precision.keeping(**(types or {})), optimizer=optimizer)
    return build(workload, make_plan(family, options_of(family, **options), mesh), mesh, PLAIN, 2)


def loaded(schedule: Schedule) -> LoadedSchedule:
    return LoadedSchedule(
        name="x", path=Path("x"), schedule=schedule, programs=programs_of(schedule), digest=digest(schedule)
    )


class Run:
    """All ranks of a schedule in this process, from the beginning or from the checkpoint of a folder."""

    def __init__(
        self,
        schedule: Schedule,
        start: Path | None = None,
        training: TrainingSettings = SETTINGS,
        lowered: LoweredSchedule | None = None,
    ) -> None:
        self.loaded, self.training = loaded(schedule), training
        self.before: Manifest | None = None
        point = BEGINNING
        if start is not None:
            self.before = read_manifest(start)
            point = FoundCheckpoint(folder=start, manifest=self.before).start(self.loaded.digest)
        self.start = point
        self._together = Training(schedule, training, lowered, point)
        self.ranks = self._together.ranks
        self.first = self.steps = point.steps

    def train(self, steps: int) -> Run:
        """Train until so many steps are done."""
        for number in range(self.steps, steps):
            self._together.train_step(number)
            for rank in self.ranks:
                rank.record_step()
        self.steps = steps
        return self

    def save(self, folder: Path) -> Path:
        """Write a checkpoint; the folder of the step."""
        to = step_folder(folder, self.steps)
        to.mkdir(parents=True, exist_ok=True)
        every: dict[str, HeldTensor] = {}
        for rank in reversed(self.ranks):
            for name, held in state_dict(rank.context).items():
                chunks = every[name].chunks if name in every else {}
                every[name] = HeldTensor(held.shape, {**chunks, **held.chunks})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that no other processes take part
            writer = checkpoint.FileSystemWriter(to)
            checkpoint.save(dict(every), storage_writer=writer, planner=ChunkSavePlanner(), no_dist=True)
        losses = [sum(parts) for parts in zip(*(rank.losses for rank in self.ranks), strict=True)]
        files = {path.name: saved_file(path) for path in sorted(to.iterdir())}
        manifest = manifest_of(self.loaded, self.training, self.steps, self.ranks[0], losses, files, self.before)
        write_whole(to / MANIFEST, manifest_text(manifest))
        return to

    def weights(self) -> Weights:
        """All weights, states and masters, whole: by weight where they are masters."""
        lines = [rank.report().states for rank in self.ranks]
        schedule = self.loaded.schedule
        return assembled(schedule, lines, may_differ=schedule.codes_per_hop, roles=("weight", "state", "master"))

    def buffers(self) -> list[dict[Any, bytes]]:
        """The bytes of every rank's lasting buffers."""
        out = []
        for rank in self.ranks:
            refs = [Ref(each.tensor.name, each.layer) for each in held_states(rank.context)]
            held = {ref: rank.context.buffers[ref] for ref in refs}
            parts = {ref: each.parts if isinstance(each, Encoded) else (each,) for ref, each in held.items()}
            out.append({ref: b"".join(octets(part).tobytes() for part in each) for ref, each in parts.items()})
        return out


class OneRank:
    """As `world.World`, of one rank."""

    rank, size = 0, 1

    def all_gather(self, value: Any) -> list[Any]:
        return [value]

    def run_on_all(self, work: Callable[[], Any]) -> Any:
        return work()


def one_line(error: SimfrontierError | str) -> str:
    """A message, which has one line."""
    text = str(error)
    assert text and len(text.splitlines()) == 1, text
    return text


def far(ours: Weights, theirs: Weights, names: Sequence[Any] | None = None) -> float:
    """The largest difference of a tensor that both have, over its largest value."""
    import numpy as np

    keys = [key for key in theirs if key in ours] if names is None else names
    assert keys
    return max(float(np.abs(ours[key] - theirs[key]).max() / (np.abs(theirs[key]).max() or 1.0)) for key in keys)
