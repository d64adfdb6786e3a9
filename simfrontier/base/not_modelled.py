"""Kinds of parallelism and of models that are not modelled yet, by the names that other programs give them.

Sources: options of Megatron-LM, DeepSpeed, torchtitan and NeMo; config.json of Mixtral, DeepSeek-V3 and Qwen3-MoE.
"""

import re
from typing import Final

MOST_CHARACTERS: Final = 100  # of a name that is looked at
_NAMES: Final = (  # patterns of lower-case names with "_" between their words; the first that is found holds
    (r"(^|_)e(t?)p(_(size|degree|rank))?$|(^|_)experts?_(\w+_)?parallel|(^|_)expert$", "expert parallelism"),
    (
        r"(^|_)cp(_(size|degree|comm_type))?$|(^|_)context_comm_type$|(^|_)context_parallel|(^|_)ring_(self_)?att(entio)?n(_|$)"
        r"|(^|_)ring_degree$|(^|_)ulysses(_|$)|(^|_)usp(_|$)",
        "context parallelism",
    ),
    (
        r"(^|_)(moe|experts?|mixture_of_experts|top_?k|capacity_factor|router_(topk|aux_\w+))(_|$)",
        "mixtures of experts",
    ),
    (  # models: by name, or by the counts in it, as in 8x7b, 30b-a3b and 17b-16e
        r"mixtral|deepseek_?(v[2-9]|r1)|dbrx|(^|_)grok|snowflake_arctic|switch_(base|large|xxl|c|transformer)(_|$)"
        r"|(^|_)glam(_|$)|gshard|llama_?4|gpt_oss|kimi_k\d|moe(_|$)|(^|_)\d+x\d+(_\d+)?[bm](_|$)"
        r"|(^|_)\d+b_(a\d+(_\d+)?b|\d+e)(_|$)",
        "mixtures of experts",
    ),
)


def not_modelled(name: str) -> str | None:
    """Say that what a name stands for is not modelled yet; None for any other name."""
    plain = re.sub(r"[^a-z0-9]+", "_", name[:MOST_CHARACTERS].lower()).strip("_")
    return next((f"not modelled yet: {words}" for pattern, words in _NAMES if re.search(pattern, plain)), None)
