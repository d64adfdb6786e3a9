"""Small schedules of tensor grids and pipelines to train for real, and of the same steps cut in other ways."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from simfrontier.core.plan import FAMILIES, Engine, build, make_plan
from simfrontier.core.plan.tensor import TensorOptions
from simfrontier.core.program import Schedule
from simfrontier.core.workload import Attention, Checkpointing, Optimizer, Softmax, gpt
from simfrontier.core.workload.mlp_model import mlp
from tests.real.schedules import GPT, MLP, PLAIN

# Four layers, so that there are four stages, or two of two chunks; four heads, so that four ranks share them.
SHAPE: Final = replace(GPT, name="test-gpt-4", num_layers=4, heads=4)
SEQUENTIAL: Final = replace(SHAPE, name="test-gpt-4-sequential", residual="sequential")
TIED: Final = replace(SEQUENTIAL, name="test-gpt-4-tied", tied=True)
DEEP: Final = replace(SEQUENTIAL, name="test-gpt-8", num_layers=8)
LLAMA: Final = replace(
    SEQUENTIAL,
    name="test-llama-4",
    ffn_hidden=24,
    gated=True,
    kv_heads=2,
    norm="rmsnorm",
    biases=False,
    positions="rotary",
    causal=True,
)
BLOOM: Final = replace(TIED, name="test-bloom-4", positions="alibi", embedding_norm=True)
GPT_2: Final = replace(TIED, name="test-gpt-2-4", positions="learned", vocabulary=29, vocabulary_multiple=8)
OTHERS: Final = {
    "llama": LLAMA,
    "bloom": BLOOM,
    "gpt-2": GPT_2,
    "mpt": replace(TIED, name="test-mpt-4", positions="alibi", biases=False, causal=True),
    "wide heads": replace(LLAMA, name="test-wide-4", head_dim=2 * LLAMA.head_features),
    "normal heads": replace(LLAMA, name="test-normal-heads-4", qk_norm=True),
    "latent": replace(
        LLAMA,
        name="test-latent-4",
        kv_heads=None,
        **{"q_rank": 6, "kv_rank": 10, "nope_features": 3, "rope_features": 4, "value_features": 5},
    ),
    "latent keys": replace(
        SHAPE,
        name="test-latent-keys-4",
        positions="rotary",
        **{"kv_rank": 6, "nope_features": 2, "rope_features": 2, "value_features": 3},
    ),
    "groups": replace(SHAPE, name="test-groups-4", kv_heads=2, gated=True),
    "dropped": replace(SEQUENTIAL, name="test-dropped-4", dropout=True),
    "mixed": replace(
        LLAMA,
        name="test-mixed-4",
        positions="learned",
        embedding_norm=True,
        kv_heads=None,
        residual="parallel",
        dropout=True,
    ),
}
"""Shapes of what people train, and of options put together in other ways."""
EXPERTS: Final = replace(
    LLAMA, name="test-experts-4", experts=4, experts_per_token=2, expert_ffn=8, shared_ffn=24, capacity=2.0
)  # with places for all rows, so that nothing is dropped
DROPS: Final = replace(EXPERTS, name="test-drops-4", shared_ffn=0, capacity=None, router="sigmoid", gated=False)
CLAMPED: Final = replace(EXPERTS, name="test-clamped-4", shared_ffn=0, expert_clamp=True)
DEEPSEEK: Final = replace(
    EXPERTS,
    name="test-deepseek-4",
    router="sigmoid",
    dense_layers=1,
    expert_every=2,
    kv_heads=None,
    **{"q_rank": 6, "kv_rank": 10, "nope_features": 3, "rope_features": 4, "value_features": 5},
)  # layers with an MLP, with experts, and with an MLP twice
FURTHER: Final = {
    "further": replace(LLAMA, name="test-further-4", mtp_layers=1),
    "further two": replace(TIED, name="test-further-two-4", mtp_layers=2, dropout=True),
    "further experts": replace(DEEPSEEK, name="test-further-experts-4", mtp_layers=1),
}
"""Shapes that predict further tokens."""
SHAPES: Final = {
    **FURTHER,
    "deepseek": DEEPSEEK,
    "parallel": SHAPE,
    "sequential": SEQUENTIAL,
    "tied": TIED,
    "deep": DEEP,
    "experts": EXPERTS,
    "drops": DROPS,
    "clamped": CLAMPED,
    **OTHERS,
}


@dataclass(frozen=True)
class Grid:
    """A plan on so many ranks: its family, its keys, and how the model and the engine are built."""

    family: str
    ranks: int
    keys: tuple[tuple[str, Any], ...]
    data: str = "ddp"
    reduction: str | None = None
    gather: str | None = None
    grad_accum: int = 2
    shape: str = "sequential"
    precision: str = "fp64"
    checkpointing: Checkpointing = "full"
    engine: Engine = PLAIN
    checkpoint_every: int = 1
    attention: Attention = "plain"
    softmax: Softmax = "fused"
    optimizer: Optimizer = "adam"

    def __str__(self) -> str:
        data = " ".join((self.data, *(f"{key}={value}" for key, value in self._of_data.items())))
        return " ".join((self.family, *(f"{key}={value}" for key, value in self.keys), data, self.shape))

    @property
    def _of_data(self) -> dict[str, str]:
        """The keys of the plan on the data axes that are given."""
        keys = {"reduction": self.reduction, "gather": self.gather}
        return {key: value for key, value in keys.items() if value is not None}

    @property
    def schedule(self) -> Schedule:
        """The schedule, of two samples per rank that divides the batch."""
        data = FAMILIES[self.data][0](family=self.data, **self._of_data)
        options: TensorOptions = FAMILIES[self.family][0](family=self.family, data=data, **dict(self.keys))
        mesh = options.mesh(self.ranks, per_node=1, per_package=1)
        batch = 2 * options.batch_ranks(mesh)
        if self.shape == "mlp":
            shape: Any = replace(MLP, name="test-mlp-4", num_layers=4)
            workload = mlp(shape, batch, self.checkpointing, precision=self.precision, softmax=self.softmax)
        else:
            shape = SHAPES[self.shape]
            how = {"attention": self.attention, "softmax": self.softmax}
            workload = gpt(shape, batch, self.checkpointing, precision=self.precision, **how)
        workload = replace(workload, checkpoint_every=self.checkpoint_every, optimizer=self.optimizer)
        options.refuse_shape(shape)
        options.refuse_micro_batches(self.grad_accum)
        return build(workload, make_plan(self.family, options, mesh), mesh, self.engine, self.grad_accum)


def axonn(x: int, y: int, z: int, replicas: int = 1, **how: Any) -> Grid:
    """A grid of AxoNN; keys that are no fields of `Grid` are the plan's."""
    return _grid("axonn", x * y * z * replicas, {"x": x, "y": y, "z": z}, how)


def megatron(tensor: int, pipeline: int = 1, replicas: int = 1, **how: Any) -> Grid:
    """Tensor × pipeline × data parallelism."""
    return _grid("megatron", tensor * pipeline * replicas, {"tensor": tensor, "pipeline": pipeline}, how)


def context(ranks: int, by: str, tensor: int = 1, replicas: int = 1, **how: Any) -> Grid:
    """Context × tensor × data parallelism of a model with rotary positions, causal and with shared keys; with
    `pipeline`, its stages divide the replicas."""
    keys = {"context": ranks, "context_by": by, "tensor": tensor}
    return _grid("megatron", ranks * tensor * replicas, keys, {"shape": "llama", "attention": "fused", **how})


def _grid(family: str, size: int, keys: dict[str, Any], how: dict[str, Any]) -> Grid:
    fields = {key: value for key, value in how.items() if key in Grid.__dataclass_fields__}
    keys |= {key: value for key, value in how.items() if key not in fields}
    ranks = size * int(keys.get("pipeline", 1)) if family == "axonn" else size
    return Grid(family, ranks, tuple(sorted(keys.items())), **fields)
