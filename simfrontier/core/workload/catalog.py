"""Catalog of named models: their shapes, with the publication of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from simfrontier.base.errors import InputError, meant, near, nearest
from simfrontier.base.extras import added
from simfrontier.core.workload.expert_models import EXPERT_MODELS, LIKE_LLAMA
from simfrontier.core.workload.gpt_shape import GptShape
from simfrontier.core.workload.mlp_model import MlpShape
from simfrontier.core.workload.shape import Shape

_NEOX = "EleutherAI/gpt-neox configs/{0}.yml; vocabulary padded to {1}"
_AXONN = (
    "axonn-ai/Megatron-AxoNN launch_per_comm_model.py, run_axonn_amd.sh; V = 51200; blocks and tied embeddings of "
    "Megatron-LM"
)
_MEGATRON_1T = "Megatron-LM, arXiv 2104.04473, table 1: 128 layers, hidden 25600, 160 heads, 1008.0B parameters"
_GPT_2 = "Radford et al. 2019, table 2; openai/gpt-2 1558M hparams.json; 1,557,611,200 parameters"
_GPT_3 = "arXiv 2005.14165, table 2.1; vocabulary of 50,257 padded to 51,200 as in arXiv 2104.04473"
_MPT = "mosaicml/llm-foundry scripts/train/yamls/pretrain/mpt-{0}.yaml: learned positions and biases, vocabulary 50,368"
_MPT_RELEASED = "huggingface.co/mosaicml/mpt-{0} config.json: alibi, no_bias, vocabulary 50,432"
_BLOOM = "huggingface.co/bigscience/bloom config.json, arXiv 2211.05100; 176,247,271,424 parameters"
_LLAMA_2 = "arXiv 2307.09288; huggingface.co/meta-llama/Llama-2-{0}-hf config.json"
_LLAMA_3 = "arXiv 2407.21783, table 3; meta-llama/Llama-3.1 model cards; pre-trained with sequences of 8,192 tokens"
_FORGE = (
    "at-aaims/forge train/configs/forge-{0}.yml; vocabulary of 52,000 assumed: the files name a tokenizer, not its size"
)
_TINY = "made for tests and examples"


def _gpt(
    name: str,
    num_layers: int,
    hidden: int,
    heads: int,
    vocabulary: int,
    sequence: int,
    source: str,
    traits: Mapping[str, Any],
    **other: Any,
) -> GptShape:
    """Return the shape of a GPT with the architecture traits of its model family, and `other` traits of its own."""
    sizes = {"num_layers": num_layers, "hidden": hidden, "heads": heads, "vocabulary": vocabulary, "sequence": sequence}
    return GptShape(name=name, source=source, **{**sizes, **traits, **other})


_MEGATRON: Final = {"residual": "sequential", "tied": True}
_LIKE_GPT_3: Final = {**_MEGATRON, "positions": "learned", "causal": True}
_LIKE_MPT: Final = {**_LIKE_GPT_3, "positions": "alibi", "biases": False}
_LIKE_FORGE: Final = {**_LIKE_GPT_3, "tied": False, "positions": "rotary"}

MODELS: dict[str, GptShape | MlpShape] = {
    shape.name: shape
    for shape in (
        _gpt("gpt-neox-20b", 44, 6144, 64, 50432, 2048, _NEOX.format("20B", 50432), {}),
        _gpt("gpt-13b", 40, 5120, 40, 50304, 2048, _NEOX.format("13B", 50304), {}),
        _gpt("gpt-5b", 24, 4096, 32, 51200, 2048, _AXONN, _MEGATRON),
        _gpt("gpt-10b", 32, 5120, 40, 51200, 2048, _AXONN, _MEGATRON),
        _gpt("gpt-20b", 32, 7168, 56, 51200, 2048, _AXONN, _MEGATRON),
        _gpt("gpt-40b", 38, 9216, 72, 51200, 2048, _AXONN, _MEGATRON),
        _gpt("gpt-50b", 48, 9216, 72, 51200, 2048, _AXONN, _MEGATRON),
        _gpt("gpt-60b", 56, 9216, 72, 51200, 2048, _AXONN, _MEGATRON),
        _gpt("gpt-80b", 42, 12288, 96, 51200, 2048, _AXONN, _MEGATRON),
        _gpt("gpt-100b", 53, 12288, 96, 51200, 2048, _AXONN, _MEGATRON),
        _gpt("gpt-160b", 84, 12288, 96, 51200, 2048, _AXONN, _MEGATRON),
        _gpt("gpt-175b", 96, 12288, 96, 51200, 2048, _AXONN, _MEGATRON),
        _gpt("gpt-320b", 96, 16384, 128, 51200, 2048, _AXONN, _MEGATRON),
        _gpt("gpt-640b", 192, 16384, 128, 51200, 2048, _AXONN, _MEGATRON),
        _gpt("gpt-1t", 128, 25600, 160, 51200, 2048, _MEGATRON_1T, _MEGATRON),
        _gpt("gpt2-xl", 48, 1600, 25, 50257, 1024, _GPT_2, _LIKE_GPT_3),
        _gpt("gpt3-175b", 96, 12288, 96, 51200, 2048, _GPT_3, _LIKE_GPT_3),
        _gpt("mpt-7b", 32, 4096, 32, 50432, 2048, _MPT_RELEASED.format("7b"), _LIKE_MPT),
        _gpt("mpt-13b", 40, 5120, 40, 50368, 2048, _MPT.format("13b"), _LIKE_GPT_3),
        _gpt("mpt-30b", 48, 7168, 64, 50432, 2048, _MPT_RELEASED.format("30b"), _LIKE_MPT),
        _gpt("mpt-70b", 80, 8192, 64, 50368, 2048, _MPT.format("70b"), _LIKE_GPT_3),
        _gpt("bloom-176b", 70, 14336, 112, 250880, 2048, _BLOOM, _LIKE_GPT_3, positions="alibi", embedding_norm=True),
        _gpt("llama-2-7b", 32, 4096, 32, 32000, 4096, _LLAMA_2.format("7b"), LIKE_LLAMA, kv_heads=32, ffn_hidden=11008),
        _gpt(
            "llama-2-13b", 40, 5120, 40, 32000, 4096, _LLAMA_2.format("13b"), LIKE_LLAMA, kv_heads=40, ffn_hidden=13824
        ),
        _gpt(
            "llama-2-70b", 80, 8192, 64, 32000, 4096, _LLAMA_2.format("70b"), LIKE_LLAMA, kv_heads=8, ffn_hidden=28672
        ),
        _gpt("llama-3-8b", 32, 4096, 32, 128256, 8192, _LLAMA_3, LIKE_LLAMA, kv_heads=8, ffn_hidden=14336),
        _gpt("llama-3-70b", 80, 8192, 64, 128256, 8192, _LLAMA_3, LIKE_LLAMA, kv_heads=8, ffn_hidden=28672),
        _gpt("llama-3-405b", 126, 16384, 128, 128256, 8192, _LLAMA_3, LIKE_LLAMA, kv_heads=8, ffn_hidden=53248),
        _gpt("forge-13b", 40, 5120, 40, 52000, 2048, _FORGE.format("m"), _LIKE_FORGE),
        _gpt("forge-22b", 48, 6144, 48, 52000, 2048, _FORGE.format("l"), _LIKE_FORGE),
        *EXPERT_MODELS,
        _gpt("tiny", 2, 64, 4, 256, 32, _TINY, {}),
        MlpShape(name="tiny-mlp", num_layers=2, inputs=32, hidden=64, classes=16, source=_TINY),
    )
}


def known_model(name: str) -> Shape | None:
    """Return the shape of a named model, from the core or an extra; None if there is none."""
    if name in MODELS:
        return MODELS[name]
    return next((shape for shape in _of_extras() if shape.name == name), None)


def known_models() -> Iterator[Shape]:
    """Yield the shapes of all named models, those of the core first."""
    yield from MODELS.values()
    yield from _of_extras()


def find_model(name: str) -> Shape:
    """Return the shape of a named model. Raises InputError that suggests the nearest name, or says that the model is
    not implemented yet."""
    shape = known_model(name)
    if shape is None:
        names = (*MODELS, *(each.name for each in _of_extras()))
        raise InputError(f"model {name!r}: {nearest(name, names) if near(name, names) else meant(name, names)}")
    return shape


@cache  # their check against the protocol computes all that it names, their sizes too
def _of_extras() -> tuple[Shape, ...]:
    return added("models", Shape)  # type: ignore[type-abstract]
