"""Named models: their shapes, and where each shape is published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from simfrontier.errors import InputError, nearest
from simfrontier.extras import added
from simfrontier.records import dataclass
from simfrontier.workload.shape import OfAnyPlan, Shape
from simfrontier.workload.sizes import refuse_sizes

if TYPE_CHECKING:
    from simfrontier.workload.gpt_model import Attention
    from simfrontier.workload.graph import Workload
    from simfrontier.workload.graph_builder import Softmax

Residual = Literal["parallel", "sequential"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GptShape(OfAnyPlan):
    """Shape of a decoder GPT with a feed-forward width of 4 × hidden.

    `residual`: attention and MLP side by side on the residual stream (`parallel`, as GPT-J and GPT-NeoX-20B), or the
    MLP after the attention (`sequential`). `tied`: the head reads the embedding's table.
    """

    name: str
    num_layers: int
    hidden: int
    heads: int
    vocabulary: int
    sequence: int
    source: str
    residual: Residual = "parallel"
    tied: bool = False

    def __post_init__(self) -> None:
        refuse_sizes(self.name, self)
        if self.hidden % self.heads:
            raise InputError(
                f"model {self.name}: hidden = {self.hidden} does not divide into heads = {self.heads}; "
                f"nearest that does: heads = {_nearest_divisor(self.hidden, self.heads)}"
            )

    @property
    def num_parameters(self) -> int:
        """ψ = L(12h² + 13h) + 2h + 2Vh: weights, biases and norms of L layers, final norm, both embeddings (one, Vh,
        where they are tied)."""
        h, tables = self.hidden, 1 if self.tied else 2
        return self.num_layers * (12 * h * h + 13 * h) + 2 * h + tables * self.vocabulary * h

    @property
    def sample(self) -> str:
        return f"sequences of {self.sequence:,} tokens"

    def with_settings(self, settings: Mapping[str, Any]) -> GptShape:
        return replace(self, **settings)

    def workload(
        self, batch: int, checkpointing: bool, precision: str, attention: Attention, softmax: Softmax
    ) -> Workload:
        from simfrontier.workload.gpt_model import gpt

        return gpt(self, batch, checkpointing, precision=precision, attention=attention, softmax=softmax)

    def step_flops(self, samples: int, recomputed: bool) -> float:
        """By the GPT-NeoX formula."""
        from simfrontier.workload.metric import neox_flops

        return neox_flops(self, samples, self.sequence, 4 if recomputed else 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class MlpShape(OfAnyPlan):
    """Shape of a multilayer perceptron: `inputs` features, residual layers with a feed-forward width of 4 × hidden,
    `classes` to choose from."""

    name: str
    num_layers: int
    inputs: int
    hidden: int
    classes: int
    source: str

    def __post_init__(self) -> None:
        refuse_sizes(self.name, self)

    @property
    def sequence(self) -> int:
        """A sample is one position: where tokens are counted, samples are."""
        return 1

    @property
    def num_parameters(self) -> int:
        """ψ = L(8h² + 5h) + ih + h + ch: matrices and biases of L layers, first matrix and bias, head."""
        h = self.hidden
        return self.num_layers * (8 * h * h + 5 * h) + (self.inputs + 1 + self.classes) * h

    @property
    def sample(self) -> str:
        return f"samples of {self.inputs:,} features"

    def with_settings(self, settings: Mapping[str, Any]) -> MlpShape:
        return replace(self, **settings)

    def workload(
        self, batch: int, checkpointing: bool, precision: str, attention: Attention, softmax: Softmax
    ) -> Workload:
        from simfrontier.workload.mlp_model import mlp

        return mlp(self, batch, checkpointing, precision, softmax)

    def step_flops(self, samples: int, recomputed: bool) -> float:
        """By its own matrix products."""
        from simfrontier.workload.mlp_model import mlp

        return float(mlp(self, samples, recomputed).matmul_flops)


_NEOX = "EleutherAI/gpt-neox configs/20B.yml; vocabulary padded to 50432"
_AXONN = (
    "axonn-ai/Megatron-AxoNN launch_per_comm_model.py, run_axonn_amd.sh; V = 51200; blocks and tied embeddings of "
    "Megatron-LM"
)


def _axonn(name: str, num_layers: int, hidden: int, heads: int) -> GptShape:
    return GptShape(
        name=name,
        num_layers=num_layers,
        hidden=hidden,
        heads=heads,
        vocabulary=51200,
        sequence=2048,
        source=_AXONN,
        residual="sequential",
        tied=True,
    )


MODELS: dict[str, GptShape | MlpShape] = {
    shape.name: shape
    for shape in (
        GptShape(
            name="gpt-neox-20b", num_layers=44, hidden=6144, heads=64, vocabulary=50432, sequence=2048, source=_NEOX
        ),
        GptShape(
            name="gpt-13b",
            num_layers=40,
            hidden=5120,
            heads=40,
            vocabulary=50304,
            sequence=2048,
            source="EleutherAI/gpt-neox configs/13B.yml; vocabulary padded to 50304",
        ),
        _axonn("gpt-5b", 24, 4096, 32),
        _axonn("gpt-10b", 32, 5120, 40),
        _axonn("gpt-20b", 32, 7168, 56),
        _axonn("gpt-40b", 38, 9216, 72),
        _axonn("gpt-50b", 48, 9216, 72),
        _axonn("gpt-60b", 56, 9216, 72),
        _axonn("gpt-80b", 42, 12288, 96),
        _axonn("gpt-100b", 53, 12288, 96),
        _axonn("gpt-160b", 84, 12288, 96),
        _axonn("gpt-175b", 96, 12288, 96),
        _axonn("gpt-320b", 96, 16384, 128),
        _axonn("gpt-640b", 192, 16384, 128),
        GptShape(
            name="gpt-1t",
            num_layers=128,
            hidden=25600,
            heads=160,
            vocabulary=51200,
            sequence=2048,
            source="Megatron-LM, arXiv 2104.04473, table 1: 128 layers, hidden 25600, 160 heads, 1008.0B parameters",
            residual="sequential",
            tied=True,
        ),
        GptShape(
            name="tiny",
            num_layers=2,
            hidden=64,
            heads=4,
            vocabulary=256,
            sequence=32,
            source="made for tests and examples",
        ),
        MlpShape(name="tiny-mlp", num_layers=2, inputs=32, hidden=64, classes=16, source="made for tests and examples"),
    )
}


def known_model(name: str) -> Shape | None:
    """The shape of that name, of the core's or an extra's; None where there is none."""
    if name in MODELS:
        return MODELS[name]
    return next((shape for shape in _of_extras() if shape.name == name), None)


def find_model(name: str) -> Shape:
    """The named shape; raises InputError with the nearest name."""
    shape = known_model(name)
    if shape is None:
        raise InputError(f"model {name!r}: {nearest(name, (*MODELS, *(each.name for each in _of_extras())))}")
    return shape


def _of_extras() -> Iterator[Shape]:
    yield from added("models", Shape)  # type: ignore[type-abstract]


def _nearest_divisor(number: int, wanted: int) -> int:
    return min((d for d in range(1, number + 1) if number % d == 0), key=lambda d: (abs(d - wanted), d))
