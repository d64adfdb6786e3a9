"""Configuration of NeMo (`model.*`, `trainer.*`) or Megatron-Bridge (`model.*`, `train.*`) in YAML.

Field names and defaults: NVIDIA/NeMo, examples/nlp/language_modeling/conf/megatron_gpt_config.yaml;
NVIDIA-NeMo/Megatron-Bridge, src/megatron/bridge/training/config.py. A value `${a.b}` is that of the other field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from simfrontier.inputs.job_files import megatron
from simfrontier.inputs.job_files.fields import GATED, IF_TRUE, NOT, TYPES, Fields, Table

TITLE: Final = "configuration of NeMo or Megatron-Bridge"
FIELDS: Final[Table] = {
    **{f"model.{field}": rule for field, rule in megatron.SHAPE.items()},
    "model.gated_linear_unit": ("model.gated", IF_TRUE),
    "model.activation": ("model.gated", lambda name: name in GATED or None),
    "model.bias": "model.biases",
    "model.add_bias_linear": "model.biases",
    "model.share_embeddings_and_output_weights": "model.tied",
    "model.vocab_size": "model.vocabulary",
    **dict.fromkeys(("model.encoder_seq_length", "model.seq_length", "dataset.sequence_length"), "model.sequence"),
    "model.untie_embeddings_and_output_weights": ("model.tied", NOT),
    "train.micro_batch_size": "training.micro_batch",
    "train.global_batch_size": "training.batch",
    "trainer.precision": ("model.precision", TYPES),
    "model.bf16": ("model.precision", {True: "bf16", False: None}),
    "model.fp16": ("model.precision", {True: "fp16", False: None}),
    "ddp.overlap_grad_reduce": "plan.overlap_gradients",
    "ddp.use_distributed_optimizer": ("data.family", {True: "zero1", False: None}),
    "model.optim.name": (
        "data.family",
        lambda name: "zero1" if name in ("distributed_fused_adam", "mcore_distributed_optim") else None,
    ),
}
NOT_MODELLED: Final = {f"model.{field}": why for field, why in megatron.NOT_MODELLED.items()}


def recognises(document: Mapping[str, Any]) -> bool:
    model = document.get("model")
    return isinstance(model, Mapping) and ("trainer" in document or "tensor_model_parallel_size" in model)


def read(fields: Fields) -> None:
    """Read model, plan and batch. Raises InputError."""
    fields.left = {field: _resolved(fields, field) for field in fields.left}
    fields.take(FIELDS)
    megatron.take_shape(fields, "model.")
    above = (
        "model.activations_checkpoint_"
        if "model.activations_checkpoint_granularity" in fields.left
        else "model.recompute_"
    )
    megatron.take_recomputation(fields, above)
    if fields.left.get("trainer.devices") == -1:  # all of a node
        fields.pop("trainer.devices")
    per_node, nodes = fields.number("trainer.devices"), fields.number("trainer.num_nodes")
    if per_node and nodes:
        fields.put("job.devices", per_node * nodes, "trainer.num_nodes", nodes)
    fields.put("stack", "nemo", "model", None)
    fields.assume({**megatron.DEFAULTS, "model.precision": "bf16"}, "NeMo's default")
    fields.leave(NOT_MODELLED)


def _resolved(fields: Fields, field: str, depth: int = 0) -> Any:
    """Return the value of a field; of `${a.b}`, or of `${.b}` beside it, the value there."""
    value = fields.left.get(field)
    match = re.fullmatch(r"\$\{(\.?)([\w.]+)\}", value) if isinstance(value, str) else None
    if match is None or depth > 8:
        return value
    there = f"{field.rpartition('.')[0]}.{match[2]}" if match[1] else match[2]
    return _resolved(fields, there, depth + 1)
