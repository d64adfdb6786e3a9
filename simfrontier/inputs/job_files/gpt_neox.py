"""Configuration of GPT-NeoX (YAML; keys with `-` or `_`): model, grid, batch, and DeepSpeed's engine below it.

Field names and defaults: EleutherAI/gpt-neox, megatron/neox_arguments/neox_args.py and deepspeed_args.py; the sizes of
gated MLPs: megatron/model/transformer.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from simfrontier.base.errors import wrong
from simfrontier.inputs.job_files import deepspeed
from simfrontier.inputs.job_files.fields import GATED, NOT, TYPES, Fields, Table, if_any

TITLE: Final = "configuration of GPT-NeoX"
OWN: Final = {  # keys that no other program's files have
    *("pipe_parallel_size", "gpt_j_residual", "no_weight_tying", "pos_emb", "attention_config", "checkpoint_factor"),
    *("train_data_paths", "data_path", "synchronize_each_layer", "scaled_upper_triang_masked_softmax_fusion"),
}
KERNELS: Final = {"flash": "fused", "global": "plain", "ring": "fused"}
FIELDS: Final[Table] = {
    "num_layers": "model.num_layers",
    "hidden_size": "model.hidden",
    "num_attention_heads": "model.heads",
    "num_kv_heads": "model.kv_heads",
    "seq_length": "model.sequence",
    "padded_vocab_size": "model.vocabulary",
    "norm": ("model.norm", {"layernorm": "layernorm", "rmsnorm": "rmsnorm", "te_rmsnorm": "rmsnorm"}),
    "pos_emb": ("model.positions", {"rotary": "rotary", "learned": "learned", "alibi": "alibi", "none": "none"}),
    "no_weight_tying": ("model.tied", NOT),
    "gpt_j_residual": ("model.residual", {True: "parallel", False: "sequential"}),
    "use_bias_in_attn_linear": "model.qkv_biases",
    "use_bias_in_mlp": "model.biases",
    "use_qk_layernorm": "model.qk_norm",
    "hidden_dropout": ("model.dropout", if_any),
    "sliding_window_width": "model.window",
    "moe_num_experts": ("model.experts", lambda count: int(count) if int(count) > 1 else None),
    "moe_top_k": "model.experts_per_token",
    "moe_expert_interval": "model.expert_every",
    "precision": ("model.precision", TYPES),
    "pipe_parallel_size": ("plan.pipeline", lambda size: max(int(size), 1)),
    "model_parallel_size": "plan.tensor",
    "sequence_parallel": "plan.sequence_parallel",
    "checkpoint_activations": ("model.checkpointing", {True: "full", False: "none"}),
    "checkpoint_num_layers": ("model.checkpoint_every", lambda count: None if count == 1 else int(count)),
    "synchronize_each_layer": ("engine.synchronise", {True: "layer", False: None}),
    "world_size": "job.devices",
    "global_num_gpus": "job.devices",
}
DEFAULTS: Final[Mapping[str, Any]] = {
    "model.norm": "layernorm",
    "model.positions": "learned",
    "model.tied": True,
    "model.residual": "sequential",
    "model.biases": True,
    "model.checkpointing": "none",
    "data.family": "ddp",
    "plan.sequence_parallel": False,
}
NOT_MODELLED: Final = {
    "attention_dropout": "dropout of attention alone",
    "partition_activations": "checkpoints divided among tensor-parallel ranks",
    "checkpoint_in_cpu": "checkpoints in the host's memory",
    **deepspeed.NOT_MODELLED,
}


def recognises(document: Mapping[str, Any]) -> bool:
    return "tensor_model_parallel_size" not in document and not OWN.isdisjoint(document)


def read(fields: Fields) -> None:
    """Read one of the files of a job, which may say a part only. Raises InputError."""
    fields.take(FIELDS)
    deepspeed.take_engine(fields)
    if (kind := fields.pop("mlp_type")) == "llama":
        _take_older_mlp(fields)
    elif kind in (None, "regular"):
        _take_mlp(fields)
    else:
        fields.fail("mlp_type", wrong(kind, "regular, llama"))
    _take_attention(fields)
    fields.leave(NOT_MODELLED)
    if "model.num_layers" in fields.found:
        fields.assume({"model.causal": True, **DEFAULTS}, "GPT-NeoX's default")
        fields.assume({"stack": "gpt-neox-rocm6"}, "assumed: GPT-NeoX, or the nearest measured")
    fields.drop_idle()


def _take_mlp(fields: Fields) -> None:
    """Take activation and features of the MLP: `intermediate_size` (4 × hidden), of which a gated one has a third, so
    that it has as many weights; rounded up to `mlp_multiple_of`."""
    act, size = fields.pop("activation"), fields.number("intermediate_size")
    multiple, hidden = fields.number("mlp_multiple_of") or 1, fields.value("model.hidden")
    gated = act in GATED
    if gated:
        fields.put("model.gated", True, "activation", act)
    wide = size or (4 * hidden if gated and isinstance(hidden, int) else None)
    if wide:
        features = wide * 2 // 3 // 2 if gated else wide
        field = "intermediate_size" if size else "activation"
        fields.put("model.ffn_hidden", -(-features // multiple) * multiple, field, size or act)


def _take_older_mlp(fields: Fields) -> None:
    """Take the gated MLP of files until 2024, without biases: of `intermediate_size` features, or of two thirds of 4 ×
    hidden, rounded up to a multiple of 256."""
    size, hidden = fields.number("intermediate_size"), fields.value("model.hidden")
    fields.put("model.gated", True, "mlp_type", "llama")
    fields.imply({"model.biases": False}, "mlp_type", "llama")
    if isinstance(hidden, int):
        features, field = (size, "intermediate_size") if size else (-(-(8 * hidden // 3) // 256) * 256, "mlp_type")
        fields.put("model.ffn_hidden", features, field, size or "llama")
    fields.pop("activation")


def _take_attention(fields: Fields) -> None:
    """Take the kernel of attention from the list of layers' kinds: `[[["flash"], 32]]`. Raises InputError for layers
    that are no attention of all positions."""
    listed = fields.pop("attention_config")
    kinds = set(re.findall(r"[a-z]\w+", str(listed))) if listed is not None else {"global"}
    other = kinds - {"all", *KERNELS}
    if other:
        fields.fail("attention_config", wrong(min(other), ", ".join(KERNELS)))
    if listed is not None:
        fields.put("model.attention", KERNELS[min(kinds - {"all"} or {"global"})], "attention_config", listed)
    elif "model.num_layers" in fields.found:
        fields.assume({"model.attention": "plain"}, "GPT-NeoX's default")
