"""Named mixtures of experts: parameters as the published weights have them, to the last one."""

import pytest

from simfrontier.core.workload import GptShape, find_model, gpt

# Elements of the published tensors (safetensors of huggingface.co), and those among them that the graph lacks.
PUBLISHED = {
    "mixtral-8x7b": (46_702_792_704, 0),
    "mixtral-8x22b": (140_620_634_112, 0),
    "qwen3-30b-a3b": (30_532_122_624, 0),
    "qwen3-235b-a22b": (235_093_634_560, 0),
    # without the module that predicts a further token; the last: a correction of each expert's score, no gradient's
    "deepseek-v2-lite": (15_706_484_224, 0),
    "deepseek-v2": (235_741_434_880, 0),
    "deepseek-v3": (671_026_419_200, 58 * 256),
    "moonlight-16b-a3b": (15_960_111_936, 26 * 64 + 27 * 64),  # and 32 frequencies of 4 bytes in halves of bytes
    "kimi-k2": (1_026_408_232_448, 60 * 384),
    "qwen1.5-moe-a2.7b": (14_315_784_192, 24 * 2048),  # the gate of a layer's shared expert
    # biases of an expert's two products, and of the router; a sink for every head
    "gpt-oss-20b": (20_914_757_184, 24 * (32 * (5760 + 2880) + 32 + 64)),
    "gpt-oss-120b": (116_829_156_672, 36 * (128 * (5760 + 2880) + 128 + 64)),
    "dbrx": (131_596_523_520, 0),
    "phi-3.5-moe": (41_873_153_344, 32_064),  # the head's bias
    "olmoe-1b-7b": (6_919_161_856, 16 * 2 * (2048 - 128)),  # norms of all queries and keys, not of heads
}
# Billions of parameters, and of those that compute one token, as publications round them.
ROUNDED = {
    "mixtral-8x7b": ("47", "13"),  # arXiv 2401.04088
    "qwen3-30b-a3b": ("31", "3"),
    "qwen3-235b-a22b": ("235", "22"),
    "qwen2-57b-a14b": ("57", "14"),  # arXiv 2407.10671
    "llama-4-maverick": ("401", "17"),  # 400B
    "deepseek-v2-lite": ("16", "3"),  # arXiv 2405.04434, appendix B: 2.4, without embeddings
    "deepseek-v2": ("236", "21"),
    "moonlight-16b-a3b": ("16", "3"),
    "kimi-k2": ("1026", "33"),  # arXiv 2507.20534: 32.6
    "glm-4.5": ("353", "34"),  # of 355 with the further module, 32 without embeddings
    "glm-4.5-air": ("107", "13"),
    "llama-4-scout": ("108", "17"),  # of 109B: without the vision encoder
    "dbrx": ("132", "36"),
    "phi-3.5-moe": ("42", "7"),  # arXiv 2404.14219 says 6.6
}


def shape_of(name: str) -> GptShape:
    shape = find_model(name)
    assert isinstance(shape, GptShape)
    return shape


@pytest.mark.parametrize(("name", "total", "lacking"), [(name, *each) for name, each in PUBLISHED.items()])
def test_parameters_of_published_weights(name: str, total: int, lacking: int) -> None:
    shape = shape_of(name)
    assert shape.num_parameters + lacking == total
    assert gpt(shape, 1, "none", attention="fused").num_parameters == shape.num_parameters


@pytest.mark.parametrize(("name", "total", "active"), [(name, *each) for name, each in ROUNDED.items()])
def test_billions_as_publications_round_them(name: str, total: str, active: str) -> None:
    shape = shape_of(name)
    assert (f"{shape.num_parameters / 1e9:.0f}", f"{shape.num_active_parameters / 1e9:.0f}") == (total, active)


@pytest.mark.parametrize(("name", "active"), [("gpt-oss-20b", 3.61), ("gpt-oss-120b", 5.13)])
def test_active_parameters_of_the_model_card(name: str, active: float) -> None:
    """OpenAI's model card (arXiv 2508.10925, table 1) counts the head, but not the embedding, and the biases."""
    shape = shape_of(name)
    biases = PUBLISHED[name][1] - shape.num_layers * (shape.num_experts - 4) * (5760 + 2880)
    assert round((shape.num_active_parameters - 201_088 * 2880 + biases) / 1e9, 2) == active


def test_active_parameters_of_deepseek_v3() -> None:
    """README_WEIGHTS.md of deepseek-ai/DeepSeek-V3: 36.7B with 0.9B of the head; the embedding's 0.93B are no work."""
    shape = shape_of("deepseek-v3")
    assert round((shape.num_active_parameters - 129_280 * 7168) / 1e9, 1) == 36.6


@pytest.mark.parametrize(
    ("name", "published"), [("x-moe-10b", 10.1), ("x-moe-55b", 55.2), ("x-moe-201b", 201.4), ("x-moe-545b", 545.4)]
)
def test_x_moe_counts_attention_and_experts_in_units_of_two_to_the_thirty(name: str, published: float) -> None:
    shape = shape_of(name)
    each = 4 * shape.hidden**2 + 2 * shape.num_experts * shape.hidden * shape.expert_features
    assert round(shape.num_layers * each / 2**30, 1) == published
