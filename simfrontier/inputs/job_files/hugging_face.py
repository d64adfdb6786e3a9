"""`config.json` of Hugging Face Transformers: the shape of a model.

Field names and defaults: huggingface/transformers, src/transformers/models/*/configuration_*.py. `model_type` decides
what a field means, and what no field says: the order of a layer, its norms, gates and biases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from simfrontier.base.errors import shown, wrong
from simfrontier.core.workload.expert_models import LIKE_LLAMA
from simfrontier.inputs.job_files.fields import TYPES, Fields, Table, if_any

TITLE: Final = "config.json of Hugging Face Transformers"
TEXT: Final = "text_config."  # of a model that reads images, too
LONGEST: Final = 4096  # tokens of the sequences that are assumed: models are mostly pre-trained with no longer ones

_LLAMA: Final[Mapping[str, Any]] = {**LIKE_LLAMA, "tied": False}
_GPT: Final = {**_LLAMA, "gated": False, "norm": "layernorm", "biases": True}
_QWEN_2: Final = {**_LLAMA, "qkv_biases": True}
_QWEN_3: Final = {**_LLAMA, "qk_norm": True}
_GEMMA: Final = {**_LLAMA, "tied": True}
_GEMMA_3: Final = {**_GEMMA, "qk_norm": True}
TRAITS: Final[Mapping[str, Mapping[str, Any]]] = {
    **dict.fromkeys(
        ("llama", "mistral", "mixtral", "phi3", "granite", "deepseek_v2", "deepseek_v3", "kimi_k2", "ministral"), _LLAMA
    ),
    **dict.fromkeys(("qwen2", "qwen2_moe"), _QWEN_2),
    **dict.fromkeys(("qwen3", "qwen3_moe", "olmo2", "olmo3", "olmoe"), _QWEN_3),
    **dict.fromkeys(("gemma", "gemma2"), _GEMMA),
    **dict.fromkeys(("gemma3", "gemma3_text"), _GEMMA_3),
    "glm4_moe": {**_LLAMA, "router": "sigmoid"},
    "gpt_oss": {**_LLAMA, "biases": True, "expert_clamp": True},
    "olmo": {**_LLAMA, "norm": "layernorm"},
    "phimoe": {**_LLAMA, "norm": "layernorm", "biases": True},
    "gpt_neox": {**_GPT, "residual": "parallel"},
    "phi": {**_GPT, "residual": "parallel"},
    "starcoder2": {**_GPT, "tied": True},
    "gpt2": {**_GPT, "positions": "learned", "tied": True},
    "opt": {**_GPT, "positions": "learned", "tied": True},
    "bloom": {**_GPT, "positions": "alibi", "tied": True, "embedding_norm": True},
    "falcon": {**_GPT, "biases": False, "residual": "parallel", "tied": True},
}
FULL_EVERY: Final[Mapping[str, int | None]] = {  # models with windows, and every which layer has none
    **dict.fromkeys(("mistral", "ministral", "phi3", "starcoder2"), None),
    **dict.fromkeys(("gemma2", "gpt_oss"), 2),
    **dict.fromkeys(("gemma3", "gemma3_text"), 6),
    "olmo3": 4,
}

FIELDS: Final[Table] = {
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers"), "model.num_layers"),
    **dict.fromkeys(("hidden_size", "n_embd", "n_embed"), "model.hidden"),
    **dict.fromkeys(("num_attention_heads", "n_head"), "model.heads"),
    **dict.fromkeys(("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"), "model.ffn_hidden"),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), "model.experts"),
    "vocab_size": "model.vocabulary",
    "num_key_value_heads": "model.kv_heads",
    "head_dim": "model.head_dim",
    "tie_word_embeddings": "model.tied",
    **dict.fromkeys(("attention_bias", "qkv_bias"), "model.qkv_biases"),
    **dict.fromkeys(("mlp_bias", "use_bias", "bias"), "model.biases"),
    "use_qk_norm": "model.qk_norm",
    **dict.fromkeys(
        ("use_parallel_residual", "parallel_attn"), ("model.residual", {True: "parallel", False: "sequential"})
    ),
    "alibi": ("model.positions", {True: "alibi", False: None}),
    **dict.fromkeys(("num_experts_per_tok", "experts_per_token"), "model.experts_per_token"),
    "moe_intermediate_size": "model.expert_ffn",
    "shared_expert_intermediate_size": "model.shared_ffn",
    "first_k_dense_replace": "model.dense_layers",
    **dict.fromkeys(("decoder_sparse_step", "moe_layer_freq"), "model.expert_every"),
    "scoring_func": ("model.router", {"softmax": "softmax", "sigmoid": "sigmoid"}),
    "n_group": "model.expert_groups",
    "topk_group": "model.groups_per_token",
    "kv_lora_rank": "model.kv_rank",
    "q_lora_rank": "model.q_rank",
    "qk_nope_head_dim": "model.nope_features",
    "qk_rope_head_dim": "model.rope_features",
    "v_head_dim": "model.value_features",
    "swiglu_limit": ("model.expert_clamp", if_any),
    **dict.fromkeys(("resid_pdrop", "residual_dropout", "hidden_dropout", "dropout"), ("model.dropout", if_any)),
}
NOT_MODELLED: Final = {
    **dict.fromkeys(("router_aux_loss_coef", "aux_loss_alpha"), "auxiliary loss of the router"),
    **dict.fromkeys(("attention_dropout", "attn_pdrop", "embd_pdrop"), "dropout of attention or embedding alone"),
    **dict.fromkeys(("attn_logit_softcapping", "final_logit_softcapping"), "capped logits"),
    "num_nextn_predict_layers": "Transformers builds none; --set model.mtp_layers=N trains them",
    "quantization_config.quant_method": "of the published weights; --set model.linear_precision=fp8 trains in it",
    "vision_config.hidden_size": "the model that reads images",
    "mlp_only_layers": "single layers without experts",
}


def recognises(document: Mapping[str, Any]) -> bool:
    return "model_type" in document or "architectures" in document


def read(fields: Fields) -> None:
    """Read the shape of a model. Raises InputError."""
    of_text = [field for field in fields.left if field.startswith(TEXT)]
    fields.left |= {field.removeprefix(TEXT): fields.left.pop(field) for field in of_text}
    kind = fields.pop("model_type")
    if not isinstance(kind, str) or kind not in TRAITS:
        fields.fail("model_type", "missing" if kind is None else wrong(kind, ", ".join(sorted(TRAITS))))
    fields.put("model.name", kind, "model_type")
    _windows(fields, kind)
    _shared_experts(fields)
    _heads_of_falcon(fields, kind)
    fields.take(FIELDS)
    if "model.num_layers" not in fields.found:
        fields.fail("num_hidden_layers", "missing")
    narrow = fields.pop("word_embed_proj_dim")
    if narrow not in (None, fields.value("model.hidden")):
        fields.not_modelled.append(f"word_embed_proj_dim = {shown(narrow)} (embeddings narrower than the layers)")
    fields.drop_idle()
    fields.imply({f"model.{key}": value for key, value in TRAITS[kind].items()}, "model_type", kind)
    if fields.value("model.experts") is not None:
        fields.drop("model.dropout")
    _assume(fields)
    fields.leave(NOT_MODELLED)
    if kind in ("gemma2", "gemma3", "gemma3_text", "olmo2", "olmo3"):
        fields.not_modelled.append("norms behind attention and MLP (below 1 % of a step)")


def _windows(fields: Fields, kind: str) -> None:
    """Take the window of attention and the layers that have none: a list of layers' types, or a period of the model."""
    window, types = fields.pop("sliding_window"), fields.pop("layer_types")
    used, pattern = fields.pop("use_sliding_window"), fields.pop("sliding_window_pattern")
    if window is None or used is False or not (kind in FULL_EVERY or used):
        return
    every = pattern or FULL_EVERY.get(kind)
    if isinstance(types, Sequence) and not isinstance(types, str):
        full = [number for number, each in enumerate(types, 1) if each == "full_attention"]
        every = full[0] if full else None
        if full != [number for number in range(1, len(types) + 1) if every and number % every == 0]:
            fields.not_modelled.append(f"layer_types (windows of {shown(window)} tokens in no regular order)")
            return
    elif kind in ("qwen2", "qwen3"):
        fields.not_modelled.append(f"sliding_window = {shown(window)} (of the layers from max_window_layers on)")
        return
    fields.put("model.window", window, "sliding_window")
    fields.put("model.full_every", every, "sliding_window" if types is None else "layer_types")


def _shared_experts(fields: Fields) -> None:
    """Take the features of all shared experts together."""
    shared, each = fields.number("n_shared_experts"), fields.left.get("moe_intermediate_size")
    if shared and isinstance(each, int):
        fields.put("model.shared_ffn", shared * each, "n_shared_experts", shared)


def _heads_of_falcon(fields: Fields, kind: str) -> None:
    """Take Falcon's key heads: one of all query heads, or groups of its new architecture."""
    grouped, multi = fields.pop("new_decoder_architecture"), fields.pop("multi_query")
    groups = fields.pop("num_kv_heads")
    if kind == "falcon" and (grouped or multi):
        fields.put("model.kv_heads", groups if grouped else 1, "num_kv_heads" if grouped else "multi_query")


def _assume(fields: Fields) -> None:
    """Assume the length of sequences and the type of a training: a model's file says neither."""
    for field in ("max_position_embeddings", "n_positions", "seq_length"):
        if (most := fields.number(field)) is not None:
            why = f"assumed: {fields.path.name} says {field} = {most}, not how long the training's are"
            fields.assume({"model.sequence": min(most, LONGEST)}, why)
    for field in ("torch_dtype", "dtype"):
        kind = str(fields.pop(field))
        if TYPES.get(kind) in ("bf16", "fp16"):
            why = f"assumed: {fields.path.name}: {field} = {kind}, of the published weights"
            fields.assume({"model.precision": TYPES[kind]}, why)
