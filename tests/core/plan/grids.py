"""Schedules of tensor grids and pipelines as scenarios make them, and what their collectives move, tensor by tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

from simfrontier.core.plan import FAMILIES, Engine, build, make_plan
from simfrontier.core.plan.tensor import AxonnOptions, MegatronOptions, TensorOptions, engine_of
from simfrontier.core.program import Collective, Schedule
from simfrontier.core.workload import Checkpointing, GptShape, Optimizer, gpt

# Sizes that divide by 2, 3, 4 and 8 and differ from one another, so that a wrong factor shows.
SHAPE: Final = GptShape(
    name="grid-test",
    num_layers=2,
    hidden=48,
    heads=24,
    vocabulary=144,
    sequence=24,
    source="for these tests",
    residual="sequential",
)


def axonn(x: int = 1, y: int = 1, z: int = 1, **keys: Any) -> AxonnOptions:
    """Options of a grid of AxoNN; `data` is a family's name."""
    return AxonnOptions(family="axonn", x=x, y=y, z=z, **_with_data(keys))


def megatron(tensor: int = 1, pipeline: int = 1, **keys: Any) -> MegatronOptions:
    """Options of a plan of Megatron-LM; `data` is a family's name."""
    return MegatronOptions(family="megatron", tensor=tensor, pipeline=pipeline, **_with_data(keys))


def _with_data(keys: dict[str, Any]) -> dict[str, Any]:
    if isinstance(keys.get("data"), str):
        family = keys["data"]
        keys = keys | {"data": FAMILIES[family][0](family=family)}
    return keys


def schedule_of(
    options: TensorOptions,
    num_ranks: int,
    *,
    shape: GptShape = SHAPE,
    micros: int = 1,
    micro_batch: int = 1,
    node: tuple[int, int] = (1, 1),
    checkpointing: Checkpointing = "full",
    precision: str = "bf16",
    engine: Engine | None = None,
    optimizer: Optimizer = "adam",
) -> Schedule:
    """A schedule of `micros` micro-batches of `micro_batch` sequences per rank of the batch; `node`: devices of a node
    and of a package."""
    mesh = options.mesh(num_ranks, *node)
    options.refuse_shape(shape)
    options.refuse_micro_batches(micros)
    work = gpt(shape, micro_batch * options.batch_ranks(mesh), checkpointing, precision=precision)
    work = replace(work, optimizer=optimizer)
    how = engine_of(options, engine or Engine(persistence_elements=0), options.batch_ranks(mesh))
    return build(work, make_plan(options.family, options, mesh), mesh, how, micros)


class Moved(NamedTuple):
    """What a collective does to one tensor: the pass (or `step`, `publish`), the tensor as it is kept, over which
    axes, the larger of the elements that a rank gives and gets, and their bytes."""

    when: str
    tensor: str
    kind: str
    axes: str
    elements: int
    num_bytes: int


def moved(schedule: Schedule, layer: int, micro: int = 0, role: int = 0) -> Counter[Moved]:
    """The collectives on tensors of one layer and micro-batch (of the step, on those that have no micro-batch), however
    they are merged into calls and wherever they stand."""
    out: Counter[Moved] = Counter()
    for op, layers, micros in _collectives(schedule, role):
        for src, dst in zip(op.src, op.dst, strict=True):
            before, after = schedule.tensors[src.name], schedule.tensors[dst.name]
            per_micro = before.per_micro or after.per_micro
            at = (
                layers + dst.layer if after.per_layer else -1,
                micros + max(src.micro, dst.micro) if per_micro else -1,
            )
            if at[0] == layer and at[1] in (micro, -1):
                elements = max(t.local_elements(schedule.mesh) for t in (before, after))
                name, when = _kept(src.name, dst.name)
                axes = "+".join(op.axes)
                out[Moved(when, name, op.kind, axes, elements, op.codec.wire_bytes(elements))] += 1
    return out


NO_LAYER: Final = -1  # of what `moved` counts: embedding, head, and scalars


def _collectives(schedule: Schedule, role: int) -> Iterator[tuple[Collective, int, int]]:
    for call, op in schedule.roles[role].instances():
        if isinstance(op, Collective):
            yield op, call.layer, call.micro


STAGES: Final = ("forward", "recompute", "backward")


def _kept(src: str, dst: str) -> tuple[str, str]:
    """(a tensor as it is kept, the pass) of what goes from `src` to `dst`."""
    if ".full." in dst:
        name, _, way = dst.rpartition(".full.")
        return name, next(part for part in way.split(".") if part in STAGES)
    if ".grad" in src:
        name, _, way = src.partition(".grad")
        return name, "step" if way == "" or way.startswith(".reduced") else "backward"
    if ".gathered." in dst:
        name, _, when = dst.partition(".gathered.")
        return name.removesuffix(".again"), when
    if src.endswith(".new"):
        return src.removesuffix(".new"), "publish"
    name = src.removesuffix(".partial")
    if name.endswith(".again"):
        return name.removesuffix(".again"), "recompute"
    return name, "backward" if name.startswith("d.") else "forward"


def other(shape: GptShape = SHAPE, **sizes: Any) -> GptShape:
    """The same shape with something else."""
    return replace(shape, **sizes)
