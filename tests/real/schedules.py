"""Small schedules to train for real: any family or lattice point on any mesh, a GPT or an MLP, in any precision."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any, Final

from simfrontier.core.codecs import Quantised
from simfrontier.core.plan import Engine, build, make_plan
from simfrontier.core.program import Schedule
from simfrontier.core.workload import MODELS, Checkpointing, Optimizer, gpt
from simfrontier.core.workload.gpt_shape import GptShape
from simfrontier.core.workload.mlp_model import MlpShape, mlp
from simfrontier_real.train.reference import narrow_states, train_unsharded
from simfrontier_real.train.states import Weights
from simfrontier_real.train.training_settings import Adam, TrainingResult, TrainingSettings
from tests.core.program.builders import mesh_of, options_of

Sizes = tuple[int, int, int]

_TINY = MODELS["tiny"]
assert isinstance(_TINY, GptShape)
GPT: Final = replace(_TINY, name="test-gpt", hidden=16, heads=2, vocabulary=32, sequence=8)
TIED: Final = replace(GPT, name="test-gpt-tied", tied=True)
ADAPTERS: Final = replace(GPT, name="test-gpt-adapters", lora_rank=4)
GPTS: Final = {"gpt": GPT, "tied": TIED, "adapters": ADAPTERS}
MLP: Final = MlpShape(name="test-mlp", num_layers=2, inputs=8, hidden=16, classes=8, source="made for tests")

# A layer of the GPT has 12 · 16² + 13 · 16 = 3,280 elements, its largest weight 1,024: vectors of 16 elements stay
# whole, those of 48 and 64 do not, and the tight engine has room for little more than a layer.
PLAIN: Final = Engine(persistence_elements=40)
ENGINES: Final = {
    "default": PLAIN,
    "no overlap": replace(PLAIN, overlap=False),
    "tight": replace(
        PLAIN,
        reuse_elements=0,
        prefetch_elements=1_300,
        live_elements=4_000,
        reduce_bucket_elements=2_000,
        gather_bucket_elements=1_300,
        step_reduction="end",
    ),
    "by layer": replace(PLAIN, persistence_elements=0, granularity="layer", reuse_elements=0),
}
MESHES: Final[tuple[Sizes, ...]] = ((1, 1, 1), (1, 1, 2), (2, 1, 1), (2, 1, 2), (1, 2, 2), (2, 2, 2))

INT8, INT4 = Quantised("int8", 64), Quantised("int4", 64)
ALL = ("node", "package", "gcd")
REVERSED = ("gcd", "package", "node")


def _hop(*axes: str, via: str = "library") -> dict[str, Any]:
    return {"axes": axes, "via": via}


FAMILIES: Final[dict[str, tuple[str, dict[str, Any]]]] = {  # nothing quantised
    **{family: (family, {}) for family in ("ddp", "zero1", "zero2", "zero3", "hsdp")},
    "zeropp": ("zeropp", {"qwz": False, "qgz": False}),
    "zero-topo": ("zero-topo", {"weight_codec": None, "node_gradient_codec": None, "cross_gradient_codec": None}),
}
_TOPO: Final = FAMILIES["zero-topo"][1]
POINTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "zero1 scattered": ("zero1", {"reduction": "reduce_scatter"}),
    "zero2 scattered": ("zero2", {"reduction": "reduce_scatter"}),
    "zero1 next": ("zero1", {"gather": "next_forward", "reduction": "reduce_scatter"}),
    "zero2 next": ("zero2", {"gather": "next_forward"}),
    "node all-reduced": (
        "lattice",
        {
            "weight": (),
            "accumulator": ("package", "gcd"),
            "optimizer": ALL,
            "nesting": REVERSED,
            "gradient": ({"axes": ("package", "gcd"), "reduction": "all_reduce"},),
            "step_reduction": ({"axes": ("node",), "reduction": "all_reduce"},),
        },
    ),
    "hsdp by gcd": ("hsdp", {"shard": ("gcd",)}),
    "zeropp 0.10.0": ("zeropp", {"qwz": False, "qgz": False, "hpz_version": "0.10.0"}),
    "zeropp two hops": ("zeropp", {"qwz": False, "quantised_gradient_codec": None, "weight_codec": None}),
    "topo per micro-batch": ("zero-topo", {**_TOPO, "cross_gradients": "micro_batch"}),
    "topo with a copy": ("zero-topo", {**_TOPO, "second_copy": "plain"}),
    "topo flat publish": ("zero-topo", {**_TOPO, "publish": "flat"}),
    "topo pipelined": ("zero-topo", {**_TOPO, "cross_gradients": "micro_batch", "pipelined": True}),
    "weight in the node": (
        "lattice",
        {"weight": ("package", "gcd"), "accumulator": ("gcd",), "optimizer": ALL},
    ),
    "reversed": ("lattice", {"weight": ALL, "accumulator": ALL, "optimizer": ALL, "nesting": REVERSED}),
    "odd order": (
        "lattice",
        {
            "weight": ("node", "gcd"),
            "accumulator": ("package",),
            "optimizer": ALL,
            "nesting": ("package", "gcd", "node"),
            "one_at_a_time": True,
        },
    ),
    "hierarchical": (
        "lattice",
        {
            "weight": ALL,
            "accumulator": ("package", "gcd"),
            "optimizer": ALL,
            "weight_gather": (_hop(*ALL, via="hierarchical"),),
            "gradient": (_hop(*ALL, via="hierarchical"),),
            "publish": (_hop("gcd", "node", "package", via="hierarchical"),),
        },
    ),
    "three hops": (
        "lattice",
        {
            "weight": ALL,
            "accumulator": ALL,
            "optimizer": ALL,
            "weight_gather": (_hop("package"), _hop("node"), _hop("gcd")),
            "gradient": (_hop("gcd"), _hop("node"), _hop("package")),
            "pipelined": True,
        },
    ),
    "copy": (
        "lattice",
        {
            "weight": ALL,
            "accumulator": ("gcd",),
            "optimizer": ALL,
            "copy_axes": ("package",),
            "copy_rule": "first_gather_of_step",
            "copy_gather": (_hop("package", via="direct"), _hop("node", "gcd", via="tree")),
        },
    ),
    "copy of each forward": (
        "lattice",
        {
            "weight": ALL,
            "accumulator": (),
            "optimizer": ALL,
            "nesting": REVERSED,
            "copy_axes": ("gcd", "node"),
            "copy_rule": "every_forward",
        },
    ),
}
EXACT: Final = {**FAMILIES, **POINTS}
QUANTISED: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "qwz": ("zeropp", {"qgz": False, "weight_codec": INT8}),
    "qgz": ("zeropp", {"qwz": False, "quantised_gradient_codec": INT4}),
    "qwz and qgz": ("zeropp", {"weight_codec": INT8, "quantised_gradient_codec": INT4}),
    "quantised topo": (
        "zero-topo",
        {"weight_codec": INT8, "node_gradient_codec": INT4, "cross_gradient_codec": INT4, "cross_gradients": "step"},
    ),
    "int8 copy": (
        "lattice",
        {
            "weight": ALL,
            "accumulator": ALL,
            "optimizer": ALL,
            "copy_axes": ("package", "gcd"),
            "copy_codec": Quantised("int8", 48),
            "gradient": (
                {"axes": ("gcd", "node"), "codec": Quantised("int8", 32)},
                {"axes": ("package",), "codec": INT4},
            ),
        },
    ),
}
STALE: Final = ("zeropp", {"qwz": False, "qgz": False, "hpz_version": "0.10.2"})


def schedule(
    plan: tuple[str, dict[str, Any]],
    sizes: Sizes,
    grad_accum: int = 1,
    checkpointing: Checkpointing = "full",
    engine: Engine = PLAIN,
    precision: str = "fp64",
    model: str = "gpt",
    gradients: str | None = None,
    master: str | None = None,
    moments: str | None = None,
    optimizer: Optimizer = "adam",
) -> Schedule:
    """The schedule of a plan, (family, options), with one sample of the GPT, or two of the MLP, per rank."""
    family, options = plan
    mesh = mesh_of(*sizes)
    if model != "mlp":
        workload = gpt(GPTS[model], mesh.num_ranks, checkpointing, precision=precision)
    else:
        workload = mlp(MLP, 2 * mesh.num_ranks, checkpointing, precision=precision)
    types = workload.precision.keeping(gradients, master, moments)
    workload = replace(workload, precision=types, optimizer=optimizer)
    return build(workload, make_plan(family, options_of(family, **options), mesh), mesh, engine, grad_accum)


def training(steps: int, clip: float = 1.0) -> TrainingSettings:
    """Adam's epsilon is 1e-5: at 1e-8 it amplifies the rounding of gradients that are zero in exact arithmetic."""
    return TrainingSettings(steps=steps, adam=Adam(epsilon=1e-5, clip=clip))


@cache
def _reference(
    model: str, batch: int, grad_accum: int, dtype: str, how: TrainingSettings, example: _Like
) -> TrainingResult:
    return train_unsharded(example.schedule, how, dtype)


class _Like:
    """A schedule that says which model; equal to any other, so that only what is said beside it counts."""

    def __init__(self, example: Schedule) -> None:
        self.schedule = example

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Like)

    def __hash__(self) -> int:
        return 0


def unsharded(example: Schedule, how: TrainingSettings, dtype: str = "fp64") -> TrainingResult:
    """The unsharded model trained on the same data; schedules of one model, batch and accumulation share it."""
    meta = example.meta
    dropped = str(meta["attention"]) if meta.get("dropout") else ""  # fused attention drops no probabilities
    return _reference(
        f"{meta['model']} {dropped} {meta.get('optimizer')} {narrow_states(example)}",
        int(meta["batch"]),
        int(meta["grad_accum"]),
        dtype,
        how,
        _Like(example),
    )


def distance(ours: Weights, theirs: Weights) -> float:
    """The largest over the parameter tensors of max |a - b| / max |b|; not a number is infinitely far."""
    import numpy as np

    assert ours.keys() == theirs.keys()
    errors = [float(np.abs(ours[key] - values).max() / np.abs(values).max()) for key, values in theirs.items()]
    return math.inf if any(math.isnan(error) for error in errors) else max(errors)


def loss_distance(ours: tuple[float, ...], theirs: tuple[float, ...]) -> float:
    """The largest relative difference of two loss curves."""
    assert len(ours) == len(theirs)
    errors = [abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True)]
    return math.inf if any(math.isnan(error) for error in errors) else max(errors)
