"""Configuration of DeepSpeed (JSON): ZeRO, batch, precision, and what the engine fetches and reduces at a time.

Field names and defaults: deepspeedai/DeepSpeed, deepspeed/runtime/config.py, constants.py and zero/config.py. Fields
that are `auto` are the trainer's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simfrontier.inputs.job_files.fields import OPTIMIZERS, TYPES, Fields, Table

TITLE: Final = "configuration of DeepSpeed"
STAGES: Final = {0: "ddp", 1: "zero1", 2: "zero2", 3: "zero3"}
ENGINE: Final[Table] = {
    "zero_optimization.stage": ("data.family", STAGES),
    "zero_optimization.overlap_comm": "engine.overlap",
    "zero_optimization.reduce_bucket_size": "engine.reduce_bucket_elements",
    "zero_optimization.allgather_bucket_size": "engine.gather_bucket_elements",
    "zero_optimization.stage3_prefetch_bucket_size": "engine.prefetch_elements",
    "zero_optimization.stage3_param_persistence_threshold": "engine.persistence_elements",
    "zero_optimization.stage3_max_live_parameters": "engine.live_elements",
    "zero_optimization.stage3_max_reuse_distance": "engine.reuse_elements",
    "zero_optimization.zero_quantized_weights": "data.qwz",
    "zero_optimization.zero_quantized_gradients": "data.qgz",
    "fp16.enabled": ("model.precision", {True: "fp16", False: None}),
    "bf16.enabled": ("model.precision", {True: "bf16", False: None}),
    "bfloat16.enabled": ("model.precision", {True: "bf16", False: None}),
    "data_types.grad_accum_dtype": ("model.gradients", TYPES),
    "train_micro_batch_size_per_gpu": "training.micro_batch",
    "gradient_accumulation_steps": "training.grad_accum",
    "train_batch_size": "training.batch",
    "optimizer.type": ("model.optimizer", OPTIMIZERS),
}
ZEROPP: Final = {"data.qwz": False, "data.qgz": False, "data.hpz": False}
NOT_MODELLED: Final = {
    "zero_optimization.offload_optimizer.device": "states in the host's memory: a step takes longer than predicted",
    "zero_optimization.offload_param.device": "weights in the host's memory: a step takes longer than predicted",
    "zero_optimization.mics_hierarchical_params_gather": "gathers in two hops; a plan of your own has them",
    "activation_checkpointing.partition_activations": "checkpoints divided among tensor-parallel ranks",
    "activation_checkpointing.cpu_checkpointing": "checkpoints in the host's memory; offload_activations of a plan",
    "communication_data_type": "another type of reductions; gradient_codec of a plan",
    "sequence_parallel_size": "Ulysses; context and context_by of family megatron",
    "tensor_parallel.autotp_size": "tensor parallelism; tensor of family megatron",
}


def recognises(document: Mapping[str, Any]) -> bool:
    keys = ("zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    return any(key in document for key in keys)


def read(fields: Fields) -> None:
    """Read plan, batch, precision and engine of a job. Raises InputError."""
    take_engine(fields)
    fields.assume({"data.family": "ddp"}, f"DeepSpeed's default: {fields.path.name} has no zero_optimization.stage")
    fields.assume({"model.precision": "fp32"}, f"DeepSpeed's default: {fields.path.name} has neither bf16 nor fp16")
    fields.leave(NOT_MODELLED)


def take_engine(fields: Fields) -> None:
    """Take what DeepSpeed's engine reads; GPT-NeoX passes it the same fields."""
    whole = "zero_optimization.use_multi_rank_bucket_allreduce"
    scatters, buckets = fields.pop("zero_optimization.reduce_scatter"), fields.pop(whole)
    fields.take(ENGINE)
    if fields.value("data.family") in ("zero1", "zero2") and buckets is False and scatters is not False:
        fields.put("data.reduction", "reduce_scatter", whole, buckets)
    _take_zeropp(fields)
    shards = fields.number("zero_optimization.mics_shard_size")
    if shards:
        fields.drop("data.family")
        fields.put("data.family", "hsdp", "zero_optimization.mics_shard_size", shards)
        fields.put("data.shard", shards, "zero_optimization.mics_shard_size")


def _take_zeropp(fields: Fields) -> None:
    """Take the three techniques of ZeRO++, which make ZeRO-3 a plan of that name."""
    field = "zero_optimization.zero_hpz_partition_size"
    if (size := fields.number(field) or 1) > 1:
        fields.put("data.hpz", True, field, size)
        fields.put("data.secondary", size, field)
    on = [fields.found[key] for key in ZEROPP if fields.value(key)]
    if fields.value("data.family") == "zero3" and on:
        fields.drop("data.family")
        fields.put("data.family", "zeropp", on[0].field, on[0].value)
        fields.assume(ZEROPP, "DeepSpeed's default")
    else:
        fields.drop(*ZEROPP, "data.secondary")
