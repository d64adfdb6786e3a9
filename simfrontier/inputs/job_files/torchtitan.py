"""Configuration of torchtitan (TOML): a named model, batch, mesh and recomputation.

Field names and defaults: pytorch/torchtitan, torchtitan/config/job_config.py; files of 2024 name the batch
`training.batch_size`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simfrontier.base.errors import unknown
from simfrontier.inputs.job_files.fields import OPTIMIZERS, TYPES, Fields, Table

TITLE: Final = "configuration of torchtitan"
MODELS: Final = {  # names of the catalog by model and flavor
    "llama3 8B": "llama-3-8b",
    "llama3 70B": "llama-3-70b",
    "llama3 405B": "llama-3-405b",
    "llama4 17bx16e": "llama-4-scout",
    "llama4 17bx128e": "llama-4-maverick",
    "deepseek_v3 671B": "deepseek-v3",
    "qwen3 30B-A3B": "qwen3-30b-a3b",
    "qwen3 235B-A22B": "qwen3-235b-a22b",
    "gpt_oss 20b": "gpt-oss-20b",
    "gpt_oss 120b": "gpt-oss-120b",
}
ORDERS: Final = {
    "1F1B": "1f1b",
    "GPipe": "gpipe",
    "Interleaved1F1B": "interleaved",
    "ZBVZeroBubble": "zb-v",
    "DualPipeV": "dualpipev",
}
FIELDS: Final[Table] = {
    "training.seq_len": "model.sequence",
    "training.mixed_precision_param": ("model.precision", TYPES),
    "parallelism.tensor_parallel_degree": "plan.tensor",
    "parallelism.pipeline_parallel_degree": "plan.pipeline",
    "parallelism.pipeline_parallel_schedule": ("plan.order", ORDERS),
    "parallelism.context_parallel_degree": "plan.context",
    "parallelism.context_parallel_rotate_method": ("plan.context_by", {"allgather": "gather", "alltoall": "ring"}),
    "parallelism.expert_parallel_degree": "plan.expert",
    "parallelism.expert_tensor_parallel_degree": "plan.expert_tensor",
    "optimizer.name": ("model.optimizer", OPTIMIZERS),
}
NOT_MODELLED: Final = {
    "training.enable_cpu_offload": "states in the host's memory: a step takes longer than predicted",
    "parallelism.fsdp_reshard_after_forward": "weights that stay gathered after the forward, where it is never",
    "parallelism.pipeline_parallel_split_points": "stages of one's own; layers of the plan",
    "float8.enable_fsdp_float8_all_gather": "gathers in fp8; gather_codec of the plan",
    "model.converters": "float8 and others; --set model.linear_precision=fp8",
    "optimizer.early_step_in_backward": "an optimizer in the backward",
}


def recognises(document: Mapping[str, Any]) -> bool:
    model = document.get("model")
    return (isinstance(model, Mapping) and "flavor" in model) or ("parallelism" in document and "training" in document)


def read(fields: Fields) -> None:
    """Read model, plan and batch. Raises InputError."""
    fields.take(FIELDS)
    _take_model(fields)
    _take_recomputation(fields)
    _take_batch(fields)
    _take_data(fields)
    if fields.size("plan.tensor") > 1:
        fields.imply({"plan.sequence_parallel": True}, "parallelism.tensor_parallel_degree", None)
        if fields.pop("parallelism.enable_async_tensor_parallel"):
            fields.put("plan.product_pieces", fields.value("plan.tensor"), "parallelism.enable_async_tensor_parallel")
    if fields.size("plan.pipeline") == 1:
        fields.drop("plan.order")
    elif fields.value("plan.order") in ("interleaved", "zb-v", "dualpipev"):
        fields.imply({"plan.chunks": 2}, "parallelism.pipeline_parallel_schedule", None)
    compiled = [fields.pop(field) for field in ("compile.enable", "training.compile")]
    fields.put("stack", "fsdp2-compile" if any(compiled) else "fsdp2", "compile.enable", any(compiled))
    fields.assume({"model.precision": "bf16", "model.sequence": 2048}, "torchtitan's default")
    fields.leave(NOT_MODELLED)


def _take_model(fields: Fields) -> None:
    """Take the model by its name in the catalog."""
    name, flavor = fields.pop("model.name"), fields.pop("model.flavor")
    if flavor is not None:
        called = f"{name or 'llama3'} {flavor}"
        if called not in MODELS:
            fields.fail("model.flavor", f"{unknown(called, MODELS)}; others: a config.json, and this file without it")
        fields.put("model.name", MODELS[called], "model.flavor", called)


def _take_recomputation(fields: Fields) -> None:
    """Take which layers are recomputed: all, every n-th, or by operator, which is taken as every second layer."""
    field = "activation_checkpoint.selective_ac_option"
    mode = fields.pop("activation_checkpoint.mode", ("none",)) or "selective"
    option = fields.pop(field) or "op"
    if mode in ("full", "none"):
        fields.put("model.checkpointing", mode, "activation_checkpoint.mode")
    elif mode != "selective":
        fields.fail("activation_checkpoint.mode", unknown(mode, ("full", "none", "selective")))
    elif str(option).isdecimal() and int(option) > 0:
        fields.put("model.checkpointing", "full", field, option)
        fields.put("model.checkpoint_every", int(option), field)
    else:
        why = "assumed: recomputation by operator, as of every second layer"
        fields.assume({"model.checkpointing": "full", "model.checkpoint_every": 2}, why)


def _take_batch(fields: Fields) -> None:
    """Take the batch of a rank, which a pipeline divides into micro-batches, and the global one."""
    older = fields.number("training.batch_size")
    field = "training.batch_size" if older else "training.local_batch_size"
    local = older or fields.number(field) or 8
    whole = fields.pop("training.global_batch_size")
    piece = fields.number("parallelism.pipeline_parallel_microbatch_size") or 1
    micro = piece if fields.size("plan.pipeline") > 1 else local
    fields.put("training.micro_batch", micro, field, local)
    if isinstance(whole, int) and whole > 0:
        fields.put("training.batch", whole, "training.global_batch_size")
    else:
        fields.put("training.grad_accum", max(local // micro, 1), field, local)


def _take_data(fields: Fields) -> None:
    """Take how states are divided over the data axes: replicas of shards."""
    field = "parallelism.data_parallel_replicate_degree"
    replicas, shards = fields.number(field) or 1, fields.pop("parallelism.data_parallel_shard_degree")
    if shards == 1:
        fields.put("data.family", "ddp", "parallelism.data_parallel_shard_degree", shards)
    elif replicas > 1:
        fields.put("data.family", "hsdp", field, replicas)
        fields.put("data.replicas", replicas, field)
    fields.assume({"data.family": "zero3"}, "torchtitan's default: FSDP over all data-parallel ranks")
