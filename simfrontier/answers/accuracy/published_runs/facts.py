"""Facts of a training job by which it is listed and compared with others."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Final

from simfrontier.core.plan import TensorOptions
from simfrontier.core.workload import GptShape, known_models
from simfrontier.inputs.scenario import Case, Scenario

SAME_SIZE: Final = 0.02  # by which parameters of one model may differ: heads, positions, multi-token prediction
SAME_TABLE: Final = 1.1  # factor between vocabularies of one model, which are padded in more than one way
NOT_OF_MODEL: Final = (
    "name",
    "source",
    "sequence",
    "vocabulary",
    "vocabulary_multiple",
    "dropout",
    "causal",
    "mtp_layers",
)
OF_TRAINING: Final = ("expert_skew", "capacity", "lora_rank", "lora_of")  # of a run, not of its model


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """Facts of one plan of a model on a number of devices.

    `shape`: the model of the catalog that has these sizes ("": none); `billions`: parameters that compute one token, in
    units of 1e9; `token_gflops`: the model's FLOPs of a token in units of 1e9, without recomputation; `lora_rank`: of
    adapters, 0 without. `batch`: sequences of a step. `precision`: of the products of the layers' linear modules.
    `tensor`, `pipeline`, `context`, `expert`: degrees of the grid; `data`: family of the plan on the data axes.
    """

    shape: str
    layers: int
    billions: float
    token_gflops: float
    lora_rank: int
    devices: int
    batch: int
    micro_batch: int
    sequence: int
    precision: str
    checkpointing: str
    tensor: int
    pipeline: int
    context: int
    expert: int
    data: str

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.batch * self.sequence

    def is_of_model(self, other: JobFacts) -> bool:
        """Return whether another job trains the same model, so that tokens of the two are alike."""
        if self.shape and self.shape == other.shape:
            return self.lora_rank == other.lora_rank
        of_size = self.layers == other.layers and abs(math.log(self.billions / other.billions)) < SAME_SIZE
        return of_size and self.lora_rank == other.lora_rank

    def tokens_per_s_per_device(self, step_s: float) -> float:
        """Return the rate of a step of `step_s` seconds, in tokens per second and device."""
        return self.tokens / step_s / self.devices

    def tflops_per_device(self, step_s: float) -> float:
        """Return the model's TFLOP/s of a device, without recomputation."""
        return self.tokens_per_s_per_device(step_s) * self.token_gflops / 1e3


def facts_of(scenario: Scenario, case: Case, steps: float = 1.0) -> JobFacts:
    """Return the facts of a case of a scenario. `steps`: number of its steps that make up one of the job."""
    shape, options, model = case.shape, case.options, scenario.file.model
    assert isinstance(shape, GptShape), "published runs are of GPTs"
    sizes = dict(options.inside) if isinstance(options, TensorOptions) else {}
    whole = replace(shape, lora_rank=None, lora_of=None)
    return JobFacts(
        shape=catalog_name(shape),
        layers=shape.num_layers,
        billions=whole.num_active_parameters / 1e9,
        token_gflops=shape.model_flops_per_token / 1e9,
        lora_rank=shape.lora_rank or 0,
        devices=case.devices,
        batch=round(steps * case.samples),
        micro_batch=case.micro_batch,
        sequence=shape.sequence,
        precision=model.linear_precision or model.precision,
        checkpointing=case.checkpointing,
        tensor=math.prod(sizes.get(axis, 1) for axis in ("tensor", "x", "y")),
        pipeline=case.stages,
        context=math.prod(size for axis, size in sizes.items() if axis not in ("tensor", "x", "y", "z")),
        expert=getattr(options, "expert", 1),
        data=(options.on_data or options).family,
    )


@cache
def catalog_name(shape: GptShape) -> str:
    """Return the name of the model of the catalog with the same layers, and with nearly as large a vocabulary, the
    nearest of several; empty if there is none."""
    alike = [other for other in known_models() if isinstance(other, GptShape) and _model(other) == _model(shape)]
    off = {other.name: abs(math.log(other.vocabulary / shape.vocabulary)) for other in alike}
    nearest = min(off, key=lambda name: off[name], default="")
    return nearest if nearest and off[nearest] < math.log(SAME_TABLE) else ""


def _model(shape: GptShape) -> tuple[object, ...]:
    left_out = (*NOT_OF_MODEL, *OF_TRAINING)
    own = replace(shape, ffn_hidden=shape.feed_forward, kv_heads=shape.kv_heads or shape.heads)
    return tuple(getattr(own, each.name) for each in fields(own) if each.name not in left_out)
