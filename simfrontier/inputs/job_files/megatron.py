"""Arguments of Megatron-LM: options in a shell script or text, the table of arguments that a job's log begins with, or
a dump of them (YAML, JSON).

Names and defaults: NVIDIA/Megatron-LM, megatron/training/arguments.py and megatron/core/transformer/
transformer_config.py; the table: `_print_args` there. Nothing of a script is run: its options count wherever they
stand, with the variables that it sets to plain values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from simfrontier.base.errors import shown, wrong
from simfrontier.inputs.job_files.deepspeed import STAGES
from simfrontier.inputs.job_files.fields import IF_TRUE, NOT, OPTIMIZERS, TYPES, Fields, Table, if_any

TITLE: Final = "arguments of Megatron-LM"
KNOWN_BY: Final = ("num_layers", "hidden_size", "tensor_model_parallel_size", "global_batch_size", "micro_batch_size")
TOKENIZERS: Final = {"GPT2BPETokenizer": 50257, "Llama2Tokenizer": 32000}  # openai/gpt-2, meta-llama/Llama-2-7b-hf
NODES: Final = ("nnodes", "nodes")  # of torchrun and Slurm
PER_NODE: Final = ("nproc_per_node", "gpus_per_node", "ntasks_per_node")
OLDER_FULL: Final = ("checkpoint_activations", "activations_checkpoint_method")  # Megatron-DeepSpeed, -LM until 2022
OTHER_LAYERS: Final = (  # of state-space models and linear attention
    *("is_hybrid_model", "hybrid_override_pattern", "hybrid_layer_pattern", "experimental_attention_variant"),
    "mamba_ssm_ngroups",
)
_DISPATCH: Final = {"alltoall": "all_to_all", "allgather": "all_gather", "flex": "deepep", "alltoall_seq": "all_to_all"}


def window_of(value: Any) -> int:
    """Return the window of positions to the left and right, such as (127,0), with the position itself."""
    return int(re.findall(r"-?\d+", str(value))[0]) + 1


SHAPE: Final[Table] = {
    "num_layers": "model.num_layers",
    "hidden_size": "model.hidden",
    "num_attention_heads": "model.heads",
    "ffn_hidden_size": "model.ffn_hidden",
    "num_query_groups": "model.kv_heads",
    "kv_channels": "model.head_dim",
    "normalization": (
        "model.norm",
        {"RMSNorm": "rmsnorm", "rmsnorm": "rmsnorm"}
        | dict.fromkeys(("LayerNorm", "layernorm", "layernorm1p", "low_precision_layernorm"), "layernorm"),
    ),
    "position_embedding_type": (
        "model.positions",
        {"rope": "rotary", "yarn": "rotary", "learned_absolute": "learned", "none": "none", "alibi": "alibi"},
    ),
    "add_qkv_bias": ("model.qkv_biases", IF_TRUE),
    "qk_layernorm": ("model.qk_norm", IF_TRUE),
    "kv_lora_rank": "model.kv_rank",
    "q_lora_rank": "model.q_rank",
    "qk_head_dim": "model.nope_features",
    "qk_pos_emb_head_dim": "model.rope_features",
    "v_head_dim": "model.value_features",
    "window_size": ("model.window", window_of),
    "window_attn_skip_freq": ("model.full_every", int),
    "num_moe_experts": "model.experts",
    "moe_router_topk": "model.experts_per_token",
    "moe_ffn_hidden_size": "model.expert_ffn",
    "moe_shared_expert_intermediate_size": "model.shared_ffn",
    "moe_router_score_function": ("model.router", {"softmax": "softmax", "sigmoid": "sigmoid"}),
    "moe_router_num_groups": "model.expert_groups",
    "moe_router_group_topk": "model.groups_per_token",
    "moe_expert_capacity_factor": "model.capacity",
    "mtp_num_layers": "model.mtp_layers",
    "activation_func_clamp_value": ("model.expert_clamp", if_any),
    "hidden_dropout": ("model.dropout", if_any),
    "make_vocab_size_divisible_by": "model.vocabulary_multiple",
    "tensor_model_parallel_size": "plan.tensor",
    "pipeline_model_parallel_size": "plan.pipeline",
    "context_parallel_size": "plan.context",
    "expert_model_parallel_size": "plan.expert",
    "expert_tensor_parallel_size": "plan.expert_tensor",
    "virtual_pipeline_model_parallel_size": "plan.chunks",
    "sequence_parallel": "plan.sequence_parallel",
    "cp_comm_type": ("plan.context_by", {"p2p": "ring", "a2a": "heads", "all_gather": "gather"}),
    "moe_token_dispatcher_type": ("plan.dispatch", _DISPATCH),
    "overlap_moe_expert_parallel_comm": ("plan.overlap_experts", IF_TRUE),
    "micro_batch_size": "training.micro_batch",
    "global_batch_size": "training.batch",
}
"""Names that arguments, NeMo and Megatron-Bridge share."""
ARGUMENTS: Final[Table] = {
    **SHAPE,
    "num_experts": "model.experts",
    "num_key_value_heads": "model.kv_heads",  # of Megatron-DeepSpeed
    "seq_length": "model.sequence",
    "vocab_size": "model.vocabulary",
    "use_rotary_position_embeddings": ("model.positions", {True: "rotary", False: None}),
    **dict.fromkeys(("swiglu", "quick_geglu"), ("model.gated", IF_TRUE)),
    "embed_layernorm": ("model.embedding_norm", IF_TRUE),  # of Megatron-DeepSpeed, as `zero_stage`
    "disable_bias_linear": ("model.biases", NOT),
    "add_bias_linear": "model.biases",
    "untie_embeddings_and_output_weights": ("model.tied", NOT),
    "bf16": ("model.precision", {True: "bf16", False: None}),
    "fp16": ("model.precision", {True: "fp16", False: None}),
    "accumulate_allreduce_grads_in_fp32": ("model.gradients", {True: "fp32", False: None}),
    "grad_reduce_in_bf16": ("model.gradients", {True: "bf16", False: None}),
    "exp_avg_dtype": ("model.moments", {**TYPES, "fp8": None}),
    "optimizer": ("model.optimizer", OPTIMIZERS),
    "num_virtual_stages_per_pipeline_rank": "plan.chunks",
    "use_distributed_optimizer": ("data.family", {True: "zero1", False: None}),
    "data_parallel_sharding_strategy": (
        "data.family",
        {"no_shard": None, "optim": "zero1", "optim_grads": "zero2", "optim_grads_params": "zero3"},
    ),
    "use_torch_fsdp2": ("data.family", {True: "zero3", False: None}),
    "zero_stage": ("data.family", STAGES),
    "attention_backend": (
        "model.attention",
        {"auto": None, "flash": "fused", "fused": "fused", "unfused": "plain", "local": "plain"},
    ),
    "overlap_grad_reduce": "plan.overlap_gradients",
    "world_size": "job.devices",
}
DEFAULTS: Final[Mapping[str, Any]] = {
    "model.residual": "sequential",
    "model.gated": False,
    "model.norm": "layernorm",
    "model.biases": True,
    "model.positions": "learned",
    "model.tied": True,
    "model.causal": True,
    "model.attention": "fused",
    "plan.family": "megatron",
    "data.family": "ddp",
    "plan.sequence_parallel": False,
}
NOT_MODELLED: Final = {
    **dict.fromkeys(("moe_aux_loss_coeff", "moe_z_loss_coeff"), "auxiliary loss of the router"),
    "optimizer_cpu_offload": "states in the host's memory: a step takes longer than predicted",
    "attention_dropout": "dropout of attention alone",
    "pipeline_model_parallel_layout": "stages of one's own; layers of the plan",
    "decoder_first_pipeline_num_layers": "stages of one's own; layers of the plan",
    "decoder_last_pipeline_num_layers": "stages of one's own; layers of the plan",
    "rampup_batch_size": "a batch that grows; the last one is taken",
    "num_distributed_optimizer_instances": "replicas of the distributed optimizer",
    "delay_wgrad_compute": "gradients of weights put off",
    "cuda_graph_impl": "CUDA graphs; a stack has them",
}


def recognises(document: Mapping[str, Any]) -> bool:
    return not document.keys().isdisjoint(KNOWN_BY)


def read(fields: Fields) -> None:
    """Read model, plan and batch of a job from its arguments. Raises InputError."""
    _choose(fields)
    says_dropout = "hidden_dropout" in fields.left
    fields.take(ARGUMENTS)
    take_shape(fields, "")
    _take_vocabulary(fields)
    take_recomputation(fields, "recompute_")
    _take_chunks(fields)
    _take_ranks(fields)
    default = "Megatron-LM's default"
    if fields.value("data.family") == "zero1":
        gather = "next_forward" if fields.pop("overlap_param_gather") else "step_end"
        fields.put("data.gather", gather, "overlap_param_gather")
    fields.assume({"model.precision": "fp32", "plan.overlap_gradients": False}, default)
    if fields.value("model.num_layers") is not None:
        fields.assume(DEFAULTS, default)
        if fields.value("model.experts") is None and not says_dropout:
            fields.assume({"model.dropout": True}, default)
        elif fields.value("model.experts") is not None:
            fields.assume({"model.experts_per_token": 2, "plan.dispatch": "all_gather"}, default)
    fields.leave(NOT_MODELLED)


def _choose(fields: Fields) -> None:
    """Drop arguments that a switch beside them turns off."""
    grouped, latent = fields.pop("group_query_attention"), fields.pop("multi_latent_attention")
    for name, is_on in (("num_query_groups", grouped), ("kv_lora_rank", latent)):
        if not is_on:
            fields.left.pop(name, None)
    if not fields.pop("use_megatron_fsdp") and not fields.pop("use_custom_fsdp"):
        fields.left.pop("data_parallel_sharding_strategy", None)
    elif "data_parallel_sharding_strategy" in fields.left:
        fields.left.pop("use_distributed_optimizer", None)
    dispatcher = fields.pop("moe_flex_dispatcher_backend")
    if fields.left.get("moe_token_dispatcher_type") == "flex" and dispatcher is not None:
        fields.pop("moe_token_dispatcher_type")
        fields.put("plan.dispatch", dispatcher, "moe_flex_dispatcher_backend")


def take_shape(fields: Fields, above: str) -> None:
    """Take what depends on several fields, whose names follow `above`: layers of experts, products in pieces, FP8."""
    for field in OTHER_LAYERS:
        if fields.pop(f"{above}{field}"):
            fields.fail(f"{above}{field}", "layers without attention over positions, such as Mamba's, are not modelled")
    fields.drop_idle()
    _take_layers_of_experts(fields, f"{above}moe_layer_freq")
    if fields.value("model.kv_rank") is not None:
        fields.drop("model.qk_norm", "model.positions")  # norms are of latents
        fields.imply({"model.positions": "rotary"}, f"{above}kv_lora_rank", None)
    kind = fields.pop(f"{above}fp8_format") or fields.pop(f"{above}fp8")
    recipe = fields.pop(f"{above}fp8_recipe")
    if kind:
        narrow = "mxfp8" if recipe == "mxfp8" else "fp8"
        fields.put("model.linear_precision", narrow, f"{above}fp8_format", kind)
    tensor = fields.size("plan.tensor")
    overlap = fields.pop(f"{above}tp_comm_overlap") or fields.pop(f"{above}ub_tp_comm_overlap")
    if overlap and tensor > 1 and fields.value("plan.sequence_parallel"):
        fields.put("plan.product_pieces", tensor, f"{above}tp_comm_overlap", overlap)
    if tensor > 1 and "model.vocabulary_multiple" in fields.found:
        multiple, field = fields.size("model.vocabulary_multiple"), fields.found.pop("model.vocabulary_multiple").field
        fields.put("model.vocabulary_multiple", multiple * tensor, field, multiple)


def _take_layers_of_experts(fields: Fields, field: str) -> None:
    """Take which layers have experts: every n-th, or those of a list. Raises InputError for a list of another kind."""
    freq = fields.pop(field)
    if fields.value("model.experts") is None or freq in (None, 1):
        return
    if isinstance(freq, int):
        return fields.put("model.expert_every", freq, field)
    layers, experts = fields.size("model.num_layers"), _with_experts(str(freq).replace(" ", ""))
    dense = experts.index(1) if 1 in experts else 0
    if experts == [0] * dense + [1] * (layers - dense):
        fields.put("model.dense_layers", dense, field, freq)
    elif experts == ([0] * dense + [1]) * (layers // (dense + 1)):
        fields.put("model.expert_every", dense + 1, field, freq)
    else:
        fields.fail(field, wrong(freq, "a number, ([0]*D+[1]*N) or ([0,1]*N) of all layers"))


def _with_experts(text: str) -> list[int]:
    """Return 1 for layers with experts and 0 for others, of a list such as `([0]*3+[1]*58)`; none of another text."""
    if not re.fullmatch(r"\(*\[[01,]+\](\*\d{1,4})?(\+\[[01,]+\](\*\d{1,4})?)*\)*", text):
        return []
    parts = re.findall(r"\[([01,]+)\](?:\*(\d+))?", text)
    return [int(each) for listed, times in parts for each in re.findall(r"\d", listed) * int(times or 1)]


def take_recomputation(fields: Fields, above: str) -> None:
    """Take which activations are recomputed, from fields whose names begin with `above`. Modules other than the
    attention's core are taken as published runs are read: norms and activations as none, MLPs as of every second layer,
    experts as of all."""
    granularity, layers = f"{above}granularity", f"{above}num_layers"
    kind, how, count = fields.pop(granularity), fields.pop(f"{above}method"), fields.number(layers)
    modules = fields.pop(f"{above}modules")
    if fields.pop(f"{above}activations"):
        kind = kind or "selective"
    older = next((name for name in OLDER_FULL if fields.pop(name)), granularity)
    if older != granularity:
        kind, granularity = kind or "full", older
    if kind not in (None, "full", "selective"):
        fields.fail(granularity, wrong(kind, "full or selective"))
    named = set(re.findall(r"\w+", str(modules or "core_attn")))
    most = next((each for each in ("moe", "mlp", "core_attn") if each in named), "")  # of those that take long
    if kind != "selective" or most == "core_attn":
        fields.put("model.checkpointing", kind or "none", granularity if kind else "no recomputation")
    else:
        value = "full" if most else "none"
        fields.assume({"model.checkpointing": value}, f"assumed: recomputation of {', '.join(sorted(named))}")
        if most == "mlp":
            fields.assume({"model.checkpoint_every": 2}, "assumed: recomputation of MLPs, as of every second layer")
    if kind == "full" and how == "block":
        fields.not_modelled.append(f"{layers} = {shown(count)} (of each stage; all layers are taken as recomputed)")


def _take_ranks(fields: Fields) -> None:
    """Take the number of ranks from options of torchrun or Slurm, where they are numbers."""
    number = {name: fields.pop(name) for name in (*NODES, *PER_NODE)}
    nodes = next((name for name in NODES if isinstance(number[name], int)), None)
    each = next((name for name in PER_NODE if number[name] is not None), "")  # tasks of Slurm are often torchrun's
    if nodes and isinstance(number.get(each), int) and "job.devices" not in fields.found:
        fields.put("job.devices", number[nodes] * number[each], nodes, f"{number[nodes]} × {number[each]}")


def _take_vocabulary(fields: Fields) -> None:
    """Take the vocabulary: that with padding where it is known, else the tokenizer's."""
    field = next((name for name in ("padded_vocab_size", "pad_vocab_size_to") if name in fields.left), "")
    padded, tokenizer = fields.number(field), fields.pop("tokenizer_type")
    if padded:
        fields.drop("model.vocabulary", "model.vocabulary_multiple")
        fields.put("model.vocabulary", padded, field)
    elif tokenizer in TOKENIZERS and "model.vocabulary" not in fields.found:
        fields.put("model.vocabulary", TOKENIZERS[tokenizer], "tokenizer_type", tokenizer)
    if not padded and fields.value("model.num_layers") is not None:
        tensor = fields.size("plan.tensor")
        fields.assume({"model.vocabulary_multiple": 128 * tensor}, "Megatron-LM's default: 128 × tensor")


def _take_chunks(fields: Fields) -> None:
    """Take chunks of interleaved stages, from their layers."""
    each, layers = fields.number("num_layers_per_virtual_pipeline_stage"), fields.value("model.num_layers")
    stages = fields.size("plan.pipeline")
    if each and isinstance(layers, int) and "plan.chunks" not in fields.found:
        if layers % (each * stages):
            fields.fail(
                "num_layers_per_virtual_pipeline_stage",
                wrong(each, f"a divisor of {layers} layers / {stages} stages"),
            )
        fields.put("plan.chunks", layers // (each * stages), "num_layers_per_virtual_pipeline_stage", each)
