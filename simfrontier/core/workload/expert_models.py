"""Named mixtures of experts: their shapes, with the publication of each.

Where a model is trained with sequences of several lengths, `sequence` is the one of most of its pre-training. Not
counted among parameters: biases of experts and routers, and gates of shared experts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simfrontier.core.workload.gpt_shape import GptShape

_MIXTRAL = "huggingface.co/mistralai/Mixtral-{0}-v0.1 config.json; sequences of 4,096 tokens as in Megatron-LM's README"
_QWEN_3 = "huggingface.co/Qwen/Qwen3-{0} config.json; arXiv 2505.09388: most of pre-training with 4,096 tokens"
_QWEN_2 = "huggingface.co/Qwen/{0} config.json; sequences of 4,096 tokens assumed"
_GPT_OSS = "huggingface.co/openai/gpt-oss-{0} config.json; initial_context_length of 4,096 tokens"
_LLAMA_4 = "huggingface.co/meta-llama/Llama-4-{0} config.json, its text model; attention in chunks of 8,192 tokens"
_GROK_1 = "xai-org/grok-1 run.py: 314B parameters; four norms of a layer there, two here"
_DBRX = "huggingface.co/databricks/dbrx-base config.json; sequences of 4,096 tokens assumed"
_PHI = "huggingface.co/microsoft/Phi-3.5-MoE-instruct config.json; sequences of 4,096 tokens assumed"
_OLMOE = "huggingface.co/allenai/OLMoE-1B-7B-0924 config.json, arXiv 2409.02060; norms of heads, there of all features"
_DEEPSEEK_V2 = "huggingface.co/deepseek-ai/DeepSeek-V2{0} config.json; arXiv 2405.04434: pre-training with 4,096 tokens"
_DEEPSEEK_V3 = (
    "huggingface.co/deepseek-ai/DeepSeek-V3 config.json, without its multi-token prediction (mtp_layers = 1); arXiv "
    "2412.19437: pre-training with 4,096 tokens"
)
_MOONLIGHT = "huggingface.co/moonshotai/Moonlight-16B-A3B config.json; arXiv 2502.16982: pre-training with 8,192 tokens"
_KIMI_K2 = (
    "huggingface.co/moonshotai/Kimi-K2-Base config.json; arXiv 2507.20534: most of pre-training with 4,096 tokens"
)
_GLM = (
    "huggingface.co/zai-org/GLM-4.5{0} config.json, without its multi-token prediction (mtp_layers = 1); arXiv "
    "2508.06471"
)
_X_MOE = (
    "yueming-yuan/Megatron-DeepSpeed-X-MoE examples_xmoe/eval-scripts/{0}, arXiv 2508.13337, which counts matrices of "
    "layers in units of 2^30"
)

LIKE_LLAMA: Final = {
    "residual": "sequential",
    "gated": True,
    "norm": "rmsnorm",
    "biases": False,
    "positions": "rotary",
    "causal": True,
}
_LIKE_QWEN_3: Final = {**LIKE_LLAMA, "kv_heads": 4, "head_dim": 128, "qk_norm": True}
_LIKE_QWEN_2: Final = {**LIKE_LLAMA, "qkv_biases": True}
_LIKE_LLAMA_4: Final = {**LIKE_LLAMA, "kv_heads": 8, "shared_ffn": 8192, "router": "sigmoid"}
_LIKE_GPT_OSS: Final = {
    **LIKE_LLAMA,
    "kv_heads": 8,
    "head_dim": 64,
    "biases": True,
    "window": 128,
    "full_every": 2,
    "expert_clamp": True,
}
_LIKE_MAVERICK: Final = {**_LIKE_LLAMA_4, "expert_every": 2, "ffn_hidden": 16384}
_LIKE_DEEPSEEK: Final = {
    **LIKE_LLAMA,
    "kv_rank": 512,
    "nope_features": 128,
    "rope_features": 64,
    "value_features": 128,
    "dense_layers": 1,
}
_LIKE_V2_LITE: Final = {**_LIKE_DEEPSEEK, "shared_ffn": 2816, "ffn_hidden": 10944}
_LIKE_V2: Final = {
    **_LIKE_DEEPSEEK,
    "q_rank": 1536,
    "shared_ffn": 3072,
    "ffn_hidden": 12288,
    "expert_groups": 8,
    "groups_per_token": 3,
}
_LIKE_MOONLIGHT: Final = {**_LIKE_DEEPSEEK, "shared_ffn": 2816, "ffn_hidden": 11264, "router": "sigmoid"}
_LIKE_K2: Final = {**_LIKE_DEEPSEEK, "q_rank": 1536, "shared_ffn": 2048, "ffn_hidden": 18432, "router": "sigmoid"}
_LIKE_V3: Final = {**_LIKE_K2, "dense_layers": 3, "expert_groups": 8, "groups_per_token": 4}
_LIKE_GLM: Final = {**LIKE_LLAMA, "kv_heads": 8, "head_dim": 128, "qkv_biases": True, "router": "sigmoid"}
_LIKE_GLM_4_5: Final = {**_LIKE_GLM, "qk_norm": True, "dense_layers": 3, "shared_ffn": 1536, "ffn_hidden": 12288}
_LIKE_GLM_AIR: Final = {**_LIKE_GLM, "dense_layers": 1, "shared_ffn": 1408, "ffn_hidden": 10944}
_LIKE_X_MOE: Final = {"residual": "sequential", "tied": True, "positions": "rotary", "causal": True}


def _moe(
    name: str,
    num_layers: int,
    hidden: int,
    heads: int,
    vocabulary: int,
    sequence: int,
    experts: tuple[int, int, int],
    source: str,
    traits: Mapping[str, Any],
    **other: Any,
) -> GptShape:
    """Return the shape of a mixture of experts; `experts`: their number, how many compute each position, and the
    feed-forward features of one."""
    sizes = {"num_layers": num_layers, "hidden": hidden, "heads": heads, "vocabulary": vocabulary, "sequence": sequence}
    of_experts = dict(zip(("experts", "experts_per_token", "expert_ffn"), experts, strict=True))
    return GptShape(name=name, source=source, **{**sizes, **of_experts, **traits, **other})


EXPERT_MODELS: Final = (
    _moe("mixtral-8x7b", 32, 4096, 32, 32000, 4096, (8, 2, 14336), _MIXTRAL.format("8x7B"), LIKE_LLAMA, kv_heads=8),
    _moe("mixtral-8x22b", 56, 6144, 48, 32000, 4096, (8, 2, 16384), _MIXTRAL.format("8x22B"), LIKE_LLAMA, kv_heads=8),
    _moe("qwen3-30b-a3b", 48, 2048, 32, 151936, 4096, (128, 8, 768), _QWEN_3.format("30B-A3B"), _LIKE_QWEN_3),
    _moe("qwen3-235b-a22b", 94, 4096, 64, 151936, 4096, (128, 8, 1536), _QWEN_3.format("235B-A22B"), _LIKE_QWEN_3),
    _moe(
        "qwen2-57b-a14b",
        28,
        3584,
        28,
        151936,
        4096,
        (64, 8, 2560),
        _QWEN_2.format("Qwen2-57B-A14B"),
        _LIKE_QWEN_2,
        kv_heads=4,
        shared_ffn=20480,
    ),
    _moe(
        "qwen1.5-moe-a2.7b",
        24,
        2048,
        16,
        151936,
        4096,
        (60, 4, 1408),
        _QWEN_2.format("Qwen1.5-MoE-A2.7B"),
        _LIKE_QWEN_2,
        shared_ffn=5632,
    ),
    _moe("gpt-oss-20b", 24, 2880, 64, 201088, 4096, (32, 4, 2880), _GPT_OSS.format("20b"), _LIKE_GPT_OSS),
    _moe("gpt-oss-120b", 36, 2880, 64, 201088, 4096, (128, 4, 2880), _GPT_OSS.format("120b"), _LIKE_GPT_OSS),
    _moe("llama-4-scout", 48, 5120, 40, 202048, 8192, (16, 1, 8192), _LLAMA_4.format("Scout-17B-16E"), _LIKE_LLAMA_4),
    _moe(
        "llama-4-maverick",
        48,
        5120,
        40,
        202048,
        8192,
        (128, 1, 8192),
        _LLAMA_4.format("Maverick-17B-128E"),
        _LIKE_MAVERICK,
    ),
    _moe("deepseek-v2-lite", 27, 2048, 16, 102400, 4096, (64, 6, 1408), _DEEPSEEK_V2.format("-Lite"), _LIKE_V2_LITE),
    _moe("deepseek-v2", 60, 5120, 128, 102400, 4096, (160, 6, 1536), _DEEPSEEK_V2.format(""), _LIKE_V2),
    _moe("deepseek-v3", 61, 7168, 128, 129280, 4096, (256, 8, 2048), _DEEPSEEK_V3, _LIKE_V3),
    _moe("moonlight-16b-a3b", 27, 2048, 16, 163840, 8192, (64, 6, 1408), _MOONLIGHT, _LIKE_MOONLIGHT),
    _moe("kimi-k2", 61, 7168, 64, 163840, 4096, (384, 8, 2048), _KIMI_K2, _LIKE_K2),
    _moe("glm-4.5", 92, 5120, 96, 151552, 4096, (160, 8, 1536), _GLM.format(""), _LIKE_GLM_4_5),
    _moe("glm-4.5-air", 46, 4096, 96, 151552, 4096, (128, 8, 1408), _GLM.format("-Air"), _LIKE_GLM_AIR),
    _moe("grok-1", 64, 6144, 48, 131072, 8192, (8, 2, 32768), _GROK_1, LIKE_LLAMA, kv_heads=8, tied=True),
    _moe("dbrx", 40, 6144, 48, 100352, 4096, (16, 4, 10752), _DBRX, LIKE_LLAMA, kv_heads=8, norm="layernorm"),
    _moe(
        "phi-3.5-moe",
        32,
        4096,
        32,
        32064,
        4096,
        (16, 2, 6400),
        _PHI,
        LIKE_LLAMA,
        kv_heads=8,
        norm="layernorm",
        biases=True,
    ),
    _moe("olmoe-1b-7b", 16, 2048, 16, 50304, 4096, (64, 8, 1024), _OLMOE, LIKE_LLAMA, qk_norm=True),
    _moe("x-moe-10b", 28, 2048, 16, 50304, 2048, (64, 6, 1408), _X_MOE.format("n256"), _LIKE_X_MOE),
    _moe("x-moe-55b", 28, 5120, 128, 50304, 4096, (128, 6, 1536), _X_MOE.format("n256"), _LIKE_X_MOE),
    _moe("x-moe-201b", 28, 7168, 128, 50432, 4096, (256, 8, 2048), _X_MOE.format("main_results"), _LIKE_X_MOE),
    _moe("x-moe-545b", 61, 7168, 128, 51200, 4096, (256, 8, 2560), _X_MOE.format("pushing-limit"), _LIKE_X_MOE),
)
