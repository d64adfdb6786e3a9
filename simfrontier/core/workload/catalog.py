"""Named models: their shapes, and where each shape is published."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from simfrontier.base.errors import InputError, meant
from simfrontier.base.extras import added
from simfrontier.core.workload.gpt_shape import GptShape
from simfrontier.core.workload.mlp_model import MlpShape
from simfrontier.core.workload.shape import Shape

_NEOX = "EleutherAI/gpt-neox configs/20B.yml; vocabulary padded to 50432"
_AXONN = (
    "axonn-ai/Megatron-AxoNN launch_per_comm_model.py, run_axonn_amd.sh; V = 51200; blocks and tied embeddings of "
    "Megatron-LM"
)


def _axonn(name: str, num_layers: int, hidden: int, heads: int) -> GptShape:
    return GptShape(
        name=name,
        num_layers=num_layers,
        hidden=hidden,
        heads=heads,
        vocabulary=51200,
        sequence=2048,
        source=_AXONN,
        residual="sequential",
        tied=True,
    )


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


def _gpt_3(
    name: str, num_layers: int, hidden: int, heads: int, vocabulary: int, sequence: int, source: str
) -> GptShape:
    """Of the family of GPT-2 and GPT-3, and of MPT's pre-training files: learned positions, a tied head."""
    return GptShape(
        name=name,
        num_layers=num_layers,
        hidden=hidden,
        heads=heads,
        vocabulary=vocabulary,
        sequence=sequence,
        source=source,
        residual="sequential",
        tied=True,
        positions="learned",
        causal=True,
    )


def _mpt(size: str, num_layers: int, hidden: int, heads: int) -> GptShape:
    shape = _gpt_3(f"mpt-{size}", num_layers, hidden, heads, 50432, 2048, _MPT_RELEASED.format(size))
    return replace(shape, positions="alibi", biases=False)


def _llama(
    name: str,
    num_layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    ffn: int,
    vocabulary: int,
    sequence: int,
    source: str,
) -> GptShape:
    return GptShape(
        name=name,
        num_layers=num_layers,
        hidden=hidden,
        heads=heads,
        vocabulary=vocabulary,
        sequence=sequence,
        source=source,
        residual="sequential",
        ffn_hidden=ffn,
        gated=True,
        kv_heads=kv_heads,
        norm="rmsnorm",
        biases=False,
        positions="rotary",
        causal=True,
    )


def _forge(name: str, letter: str, num_layers: int, hidden: int, heads: int) -> GptShape:
    return replace(
        _gpt_3(name, num_layers, hidden, heads, 52000, 2048, _FORGE.format(letter)), tied=False, positions="rotary"
    )


MODELS: dict[str, GptShape | MlpShape] = {
    shape.name: shape
    for shape in (
        GptShape(
            name="gpt-neox-20b", num_layers=44, hidden=6144, heads=64, vocabulary=50432, sequence=2048, source=_NEOX
        ),
        GptShape(
            name="gpt-13b",
            num_layers=40,
            hidden=5120,
            heads=40,
            vocabulary=50304,
            sequence=2048,
            source="EleutherAI/gpt-neox configs/13B.yml; vocabulary padded to 50304",
        ),
        _axonn("gpt-5b", 24, 4096, 32),
        _axonn("gpt-10b", 32, 5120, 40),
        _axonn("gpt-20b", 32, 7168, 56),
        _axonn("gpt-40b", 38, 9216, 72),
        _axonn("gpt-50b", 48, 9216, 72),
        _axonn("gpt-60b", 56, 9216, 72),
        _axonn("gpt-80b", 42, 12288, 96),
        _axonn("gpt-100b", 53, 12288, 96),
        _axonn("gpt-160b", 84, 12288, 96),
        _axonn("gpt-175b", 96, 12288, 96),
        _axonn("gpt-320b", 96, 16384, 128),
        _axonn("gpt-640b", 192, 16384, 128),
        GptShape(
            name="gpt-1t",
            num_layers=128,
            hidden=25600,
            heads=160,
            vocabulary=51200,
            sequence=2048,
            source="Megatron-LM, arXiv 2104.04473, table 1: 128 layers, hidden 25600, 160 heads, 1008.0B parameters",
            residual="sequential",
            tied=True,
        ),
        _gpt_3("gpt2-xl", 48, 1600, 25, 50257, 1024, _GPT_2),
        _gpt_3("gpt3-175b", 96, 12288, 96, 51200, 2048, _GPT_3),
        _mpt("7b", 32, 4096, 32),
        _gpt_3("mpt-13b", 40, 5120, 40, 50368, 2048, _MPT.format("13b")),
        _mpt("30b", 48, 7168, 64),
        _gpt_3("mpt-70b", 80, 8192, 64, 50368, 2048, _MPT.format("70b")),
        replace(_gpt_3("bloom-176b", 70, 14336, 112, 250880, 2048, _BLOOM), positions="alibi", embedding_norm=True),
        _llama("llama-2-7b", 32, 4096, 32, 32, 11008, 32000, 4096, _LLAMA_2.format("7b")),
        _llama("llama-2-13b", 40, 5120, 40, 40, 13824, 32000, 4096, _LLAMA_2.format("13b")),
        _llama("llama-2-70b", 80, 8192, 64, 8, 28672, 32000, 4096, _LLAMA_2.format("70b")),
        _llama("llama-3-8b", 32, 4096, 32, 8, 14336, 128256, 8192, _LLAMA_3),
        _llama("llama-3-70b", 80, 8192, 64, 8, 28672, 128256, 8192, _LLAMA_3),
        _llama("llama-3-405b", 126, 16384, 128, 8, 53248, 128256, 8192, _LLAMA_3),
        _forge("forge-13b", "m", 40, 5120, 40),
        _forge("forge-22b", "l", 48, 6144, 48),
        GptShape(
            name="tiny",
            num_layers=2,
            hidden=64,
            heads=4,
            vocabulary=256,
            sequence=32,
            source="made for tests and examples",
        ),
        MlpShape(name="tiny-mlp", num_layers=2, inputs=32, hidden=64, classes=16, source="made for tests and examples"),
    )
}


def known_model(name: str) -> Shape | None:
    """The shape of that name, of the core's or an extra's; None where there is none."""
    if name in MODELS:
        return MODELS[name]
    return next((shape for shape in _of_extras() if shape.name == name), None)


def known_models() -> tuple[Shape, ...]:
    """All named shapes, the core's first."""
    return (*MODELS.values(), *_of_extras())


def find_model(name: str) -> Shape:
    """The named shape; raises InputError with the nearest name, or that it is not modelled yet."""
    shape = known_model(name)
    if shape is None:
        raise InputError(f"model {name!r}: {meant(name, (*MODELS, *(each.name for each in _of_extras())))}")
    return shape


def _of_extras() -> Iterator[Shape]:
    yield from added("models", Shape)  # type: ignore[type-abstract]
