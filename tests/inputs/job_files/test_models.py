"""Shapes of models from `config.json`: public counts of parameters, and what the fields of each type of model mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.workload import GptShape
from tests.inputs.job_files.samples import DEEPSEEK_V3, LLAMA_3_8B, MIXTRAL, QWEN_3, imported, written


def shape_of(folder: Path, config: dict[str, Any], **settings: Any) -> GptShape:
    shape = imported(written(folder, "config.json", config), settings=settings).scenario.shape
    assert isinstance(shape, GptShape)
    return shape


def test_llama_3_8b_has_its_public_number_of_parameters(tmp_path: Path) -> None:
    attention = 2 * 4096 * 4096 + 2 * 4096 * 1024
    layer = attention + 3 * 4096 * 14336 + 2 * 4096
    by_hand = 32 * layer + 2 * 128256 * 4096 + 4096
    assert shape_of(tmp_path, LLAMA_3_8B).num_parameters == by_hand == 8_030_261_248


def test_mixtral_has_eight_experts_of_which_two_compute_a_token(tmp_path: Path) -> None:
    attention, expert, router = 2 * 4096 * 4096 + 2 * 4096 * 1024, 3 * 4096 * 14336, 8 * 4096
    ends = 2 * 32000 * 4096 + 4096
    shape = shape_of(tmp_path, MIXTRAL)
    by_hand = 32 * (attention + router + 8 * expert + 2 * 4096) + ends
    assert shape.num_parameters == by_hand == 46_702_792_704
    assert shape.num_active_parameters == by_hand - 32 * 6 * expert == 12_879_925_248


def test_heads_of_qwen_3_are_normalised_and_wider_than_the_stream(tmp_path: Path) -> None:
    attention = 2 * 2048 * 32 * 128 + 2 * 2048 * 4 * 128 + 2 * 128
    layer = attention + 128 * 2048 + 128 * 3 * 2048 * 768 + 2 * 2048
    shape = shape_of(tmp_path, QWEN_3)
    assert shape.num_parameters == 48 * layer + 2 * 151936 * 2048 + 2048 == 30_532_122_624
    assert shape.window is None


def test_deepseek_v3_has_latents_shared_experts_and_three_dense_layers(tmp_path: Path) -> None:
    queries = 7168 * 1536 + 1536 + 1536 * 128 * 192
    keys = 7168 * (512 + 64) + 512 + 512 * 128 * 256
    attention = queries + keys + 128 * 128 * 7168 + 2 * 7168
    expert = 3 * 7168 * 2048
    by_hand = 61 * attention + 3 * 3 * 7168 * 18432 + 58 * (257 * expert + 256 * 7168) + 2 * 129280 * 7168 + 7168
    shape = shape_of(tmp_path, DEEPSEEK_V3)
    assert shape.num_parameters == by_hand == 671_026_404_352
    assert (shape.router, shape.expert_groups, shape.groups_per_token) == ("sigmoid", 8, 4)
    assert shape_of(tmp_path, DEEPSEEK_V3, **{"model.mtp_layers": 1}).num_parameters > 680e9


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (
            {
                "model_type": "gpt2",
                "n_layer": 12,
                "n_embd": 768,
                "n_head": 12,
                "vocab_size": 50257,
                "n_positions": 1024,
            },
            124_439_808,
        ),
        (
            {
                **LLAMA_3_8B,
                "model_type": "qwen2",
                "num_hidden_layers": 28,
                "hidden_size": 3584,
                "num_attention_heads": 28,
                "num_key_value_heads": 4,
                "intermediate_size": 18944,
                "vocab_size": 152064,
            },
            7_615_616_512,
        ),
        (
            {
                "model_type": "gemma",
                "num_hidden_layers": 28,
                "hidden_size": 3072,
                "num_attention_heads": 16,
                "num_key_value_heads": 16,
                "head_dim": 256,
                "intermediate_size": 24576,
                "vocab_size": 256000,
                "max_position_embeddings": 8192,
            },
            8_537_680_896,
        ),
        (
            {
                "model_type": "gpt_neox",
                "num_hidden_layers": 44,
                "hidden_size": 6144,
                "num_attention_heads": 64,
                "intermediate_size": 24576,
                "vocab_size": 50432,
                "max_position_embeddings": 2048,
            },
            20_554_567_680,
        ),
        (
            {
                "model_type": "bloom",
                "n_layer": 70,
                "n_head": 112,
                "n_embed": 14336,
                "vocab_size": 250880,
                "seq_length": 2048,
            },
            176_247_271_424,
        ),
    ],
    ids=["gpt2", "qwen2.5-7b", "gemma-7b", "gpt-neox-20b", "bloom"],
)
def test_defaults_of_a_type_give_the_public_number(tmp_path: Path, config: dict[str, Any], parameters: int) -> None:
    assert shape_of(tmp_path, config).num_parameters == parameters


def test_windows_follow_the_list_of_layers(tmp_path: Path) -> None:
    kinds = ["sliding_attention", "sliding_attention", "full_attention"] * 2
    config = {**LLAMA_3_8B, "model_type": "gpt_oss", "num_hidden_layers": 6, "num_local_experts": 8}
    config["sliding_window"] = 128
    shape = shape_of(tmp_path, {**config, "layer_types": kinds})
    assert (shape.window, shape.full_every) == (128, 3)
    irregular = imported(written(tmp_path, "config.json", {**config, "layer_types": [*kinds[:5], kinds[0]]}))
    assert irregular.scenario.shape.window is None  # type: ignore[attr-defined]
    assert any("layer_types" in note for note in irregular.notes)


def test_the_text_model_of_a_model_that_reads_images_is_taken(tmp_path: Path) -> None:
    text = {**LLAMA_3_8B, "model_type": "gemma3_text"}
    config = {"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 1152}}
    job = imported(written(tmp_path, "config.json", config))
    assert job.scenario.shape.num_parameters == 8_030_261_248 + 32 * 2 * 128  # norms of heads
    assert any("vision_config" in note for note in job.notes)


def test_sequence_and_precision_are_assumed_and_said_so(tmp_path: Path) -> None:
    path = written(tmp_path, "config.json", LLAMA_3_8B)
    job = imported(path)
    assert (job.scenario.file.model.sequence, job.scenario.file.model.precision) == (4096, "bf16")
    assert {each.split(" = ")[0] for each in job.assumed} >= {"model.sequence", "model.precision"}
    given = imported(path, settings={"model.sequence": 8192})
    assert given.scenario.file.model.sequence == 8192
    assert not any(each.startswith("model.sequence") for each in given.assumed)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("num_hidden_layers", "num_hidden_layers: missing"),
        ("hidden_size", "does not say the model's hidden; allowed: --set model.hidden=N"),
        ("vocab_size", "does not say the model's vocabulary; allowed: --set model.vocabulary=N"),
    ],
)
def test_a_missing_size_is_named(tmp_path: Path, key: str, said: str) -> None:
    config = {name: value for name, value in LLAMA_3_8B.items() if name != key}
    path = written(tmp_path, "config.json", config)
    with pytest.raises(InputError) as error:
        imported(path)
    assert str(error.value).startswith(f"{path}: {said}")


@pytest.mark.parametrize("kind", ["llama4", "mpt", "gptj"])
def test_no_type_is_taken_for_one_whose_name_is_alike(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, "config.json", {**LLAMA_3_8B, "model_type": kind})
    with pytest.raises(InputError, match=f'model_type: got "{kind}", allowed: bloom, .*, starcoder2$'):
        imported(path)


def test_a_missing_size_may_be_set(tmp_path: Path) -> None:
    """The files of Gemma 3's larger models have no `vocab_size`."""
    config = {name: value for name, value in LLAMA_3_8B.items() if name != "vocab_size"}
    assert shape_of(tmp_path, config, **{"model.vocabulary": 262208}).vocabulary == 262208


def test_dropout_of_starcoder_and_embeddings_of_opt_are_read(tmp_path: Path) -> None:
    starcoder = {**LLAMA_3_8B, "model_type": "starcoder2", "residual_dropout": 0.1}
    assert shape_of(tmp_path, starcoder).dropout
    narrow = written(tmp_path, "opt.json", {**LLAMA_3_8B, "model_type": "opt", "word_embed_proj_dim": 512})
    assert any("Not modelled: opt.json: word_embed_proj_dim = 512" in note for note in imported(narrow).notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "mamba2"}, 'model_type: got "mamba2", allowed: bloom, '),
        ({"hidden_size": "4096"}, 'hidden_size: got "4096", allowed: a whole number'),
        ({"num_key_value_heads": 7}, "does not divide into kv_heads = 7"),
        ({"n_shared_experts": "two"}, 'n_shared_experts: got "two", allowed: a whole number'),
        ({"scoring_func": "tanh"}, 'scoring_func: got "tanh", allowed: "softmax", "sigmoid"'),
        ({"num_hidden_layers": 0}, "num_hidden_layers: got 0, allowed: at least 1"),
        ({"hidden_size": 4097}, "hidden = 4097 does not divide into heads = 32"),
        ({"n_layer": 31}, "n_layer: gives model.num_layers = 31, and num_hidden_layers 32"),
    ],
)
def test_wrong_values_are_refused_by_the_name_of_their_field(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = written(tmp_path, "config.json", {**LLAMA_3_8B, **change})
    with pytest.raises(InputError) as error:
        imported(path)
    text = str(error.value)
    assert "\n" not in text and text.startswith(str(path))
    assert message in text
