"""Plans, batches and sizes from files of trainers, alone and together with a model's file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from simfrontier.base.errors import InputError
from simfrontier.inputs.job_files.options import script_options
from tests.inputs.job_files.samples import LLAMA_3_8B, LOG, MEGATRON, NEMO, NEOX, TITAN, ZERO_3, imported, written


def document(*paths: Path, **wanted: Any) -> dict[str, Any]:
    """The scenario as its file's document."""
    return tomllib.loads(imported(*paths, **wanted).text)


def test_a_model_and_deepspeed_make_one_job(tmp_path: Path) -> None:
    model = written(tmp_path, "config.json", LLAMA_3_8B)
    job = imported(model, written(tmp_path, "ds.json", ZERO_3), machine="frontier", nodes=16)
    made = tomllib.loads(job.text)
    assert made["plans"] == {"zero3": {"family": "zero3"}}
    assert made["training"] == {"micro_batch": 2, "batch": 512}
    assert made["engine"] == {"overlap": True, "reduce_bucket_elements": 500_000_000}
    assert job.scenario.case("zero3", 128).grad_accum == 2
    assert 'precision = "bf16"  # ds.json: bf16.enabled = true' in job.text


ONE_HOP = {"use_multi_rank_bucket_allreduce": False}
QUANTISED = {"zero_quantized_weights": True, "zero_hpz_partition_size": 2}


@pytest.mark.parametrize(
    ("zero", "plan"),
    [
        ({"stage": 0}, {"family": "ddp"}),
        ({"stage": 1, **ONE_HOP}, {"family": "zero1", "reduction": "reduce_scatter"}),
        ({"stage": 2}, {"family": "zero2"}),
        ({"stage": 3, "zero_hpz_partition_size": 8}, {"family": "zeropp", "qwz": False, "hpz": True, "qgz": False}),
        ({"stage": 3, **QUANTISED}, {"family": "zeropp", "qwz": True, "hpz": True, "qgz": False, "secondary": ["gcd"]}),
        ({"stage": 3, "mics_shard_size": 8}, {"family": "hsdp"}),
    ],
    ids=["0", "1", "2", "hpz", "qwz-and-hpz-of-packages", "mics"],
)
def test_stages_and_techniques_of_deepspeed(tmp_path: Path, zero: dict[str, Any], plan: dict[str, Any]) -> None:
    model = written(tmp_path, "config.json", LLAMA_3_8B)
    ds = written(tmp_path, "ds.json", {**ZERO_3, "zero_optimization": zero})
    assert document(model, ds, machine="frontier", nodes=16)["plans"] == {plan["family"]: plan}


def test_offload_is_said_not_to_be_modelled(tmp_path: Path) -> None:
    model = written(tmp_path, "config.json", LLAMA_3_8B)
    zero = {"stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "none"}}
    job = imported(model, written(tmp_path, "ds.json", {**ZERO_3, "zero_optimization": zero}))
    assert [note for note in job.notes if "offload" in note and note.startswith("Not modelled")]
    assert "offload_param" not in "".join(job.notes)


def test_a_script_of_megatron_says_all(tmp_path: Path) -> None:
    """7B of Llama 2, whose vocabulary of 32,000 needs no padding to a multiple of 128 × 2."""
    job = imported(written(tmp_path, "run.sh", MEGATRON), devices=None)
    made = tomllib.loads(job.text)
    assert made["run"]["devices"] == [32]
    assert made["training"] == {"micro_batch": 1, "batch": 256}
    plan = made["plans"]["tp2-pp4-vp2"]
    assert (plan["tensor"], plan["pipeline"], plan["chunks"], plan["order"]) == (2, 4, 2, "interleaved")
    assert plan["sequence_parallel"] is True
    assert plan["data"] == {"family": "zero1", "gather": "step_end"}
    assert made["model"]["checkpointing"] == "full"
    assert job.scenario.shape.num_parameters == 6_738_415_616
    without = written(tmp_path, "without.sh", MEGATRON.replace("--sequence-parallel", ""))
    assert document(without)["plans"]["tp2-pp4-vp2"]["sequence_parallel"] is False
    assert any("attention_dropout" in note for note in job.notes)


def test_experts_of_megatron_are_gathered_unless_a_script_names_a_dispatcher(tmp_path: Path) -> None:
    text = MEGATRON.replace("--swiglu", "--swiglu --num-experts 8 --moe-layer-freq '([0]*2+[1]*30)'")
    made = document(written(tmp_path, "moe.sh", text.replace("--bf16", "--bf16 --expert-model-parallel-size 2")))
    plan = made["plans"]["tp2-pp4-vp2-ep2"]
    assert (plan["expert"], plan["dispatch"]) == (2, "all_gather")
    assert (made["model"]["experts_per_token"], made["model"]["dense_layers"]) == (2, 2)
    alone = document(written(tmp_path, "moe.sh", text))["plans"]["tp2-pp4-vp2"]
    assert not {"expert", "dispatch"} & alone.keys()


def test_the_table_of_a_log_says_defaults_too(tmp_path: Path) -> None:
    made = document(written(tmp_path, "job.log", LOG), devices=None)
    assert made["run"]["devices"] == [32]
    assert made["model"]["vocabulary"] == 32256
    assert "kv_heads" not in made["model"]  # a default that group_query_attention turns off
    assert made["model"]["tied"] is True and made["model"]["checkpointing"] == "none"


def test_a_dump_of_arguments_is_what_the_script_says(tmp_path: Path) -> None:
    lines = [line.partition(": ")[2].split(" ", 1) for line in LOG.replace("0:   ", "0: ").splitlines()[1:]]
    text = "".join(f"{name}: {value.lstrip('. ').replace('None', 'null')}\n" for name, value in lines)
    dumped, logged = document(written(tmp_path, "args.yaml", text)), document(written(tmp_path, "job.log", LOG))
    assert dumped == logged


def test_products_that_a_machine_has_not_are_left_out_and_said_so(tmp_path: Path) -> None:
    path = written(tmp_path, "run.sh", MEGATRON.replace("--bf16", "--bf16 --fp8-format hybrid"))
    assert imported(path).scenario.file.model.linear_precision == "fp8"
    job = imported(path, machine="frontier")
    assert job.scenario.file.model.linear_precision is None
    assert job.notes[0].startswith("Left out: run.sh: fp8_format")


def test_variables_without_one_value_are_refused(tmp_path: Path) -> None:
    unset = MEGATRON.replace("--num-layers 32", "--num-layers $LAYERS")
    with pytest.raises(InputError, match=r'num_layers: got "\$LAYERS", allowed: a whole number'):
        imported(written(tmp_path, "run.sh", unset))
    with pytest.raises(InputError, match='tensor_model_parallel_size: got "TP, set to 2 and 4"'):
        imported(written(tmp_path, "run.sh", MEGATRON.replace("export PP", "TP=4\nexport PP")))


@pytest.mark.parametrize(
    ("ffn", "features"),
    [
        ("$((4 * 4096))", 16384),
        ("$((HIDDEN*8/3))", 10922),
        ("$(( (${HIDDEN} + WIDER) / 2 ))", 12288),
        ("$((2 - 5 / (HIDDEN - 4098) + WIDER))", 5 * 4096 + 4),
    ],
)
def test_arithmetic_of_a_script_is_computed(tmp_path: Path, ffn: str, features: int) -> None:
    text = MEGATRON.replace("export PP", f"HIDDEN=4096\nWIDER=$((5 * $HIDDEN))\nFFN={ffn}\nexport PP")
    path = written(tmp_path, "run.sh", text.replace("--ffn-hidden-size 11008", '--ffn-hidden-size "$FFN"'))
    assert document(path)["model"]["ffn_hidden"] == features


@pytest.mark.parametrize("ffn", ["$((LAYERS * 2))", "$((4 / 0))", "$((2 ** 9))", "$((TP > 1 ? 8 : 4))", "$(("])
def test_other_arithmetic_is_refused(tmp_path: Path, ffn: str) -> None:
    path = written(tmp_path, "run.sh", MEGATRON.replace("--ffn-hidden-size 11008", f"--ffn-hidden-size {ffn}"))
    with pytest.raises(InputError, match="ffn_hidden_size: got "):
        imported(path)


def test_tasks_of_slurm_are_no_ranks_of_torchrun(tmp_path: Path) -> None:
    text = MEGATRON.replace("--nodes=4", "--nodes=4\n#SBATCH --ntasks-per-node=1").replace("$GPUS_PER_NODE", "gpu")
    with pytest.raises(InputError, match="--devices: missing"):
        imported(written(tmp_path, "run.sh", text), devices=None)


def test_gradients_and_key_heads_of_megatron(tmp_path: Path) -> None:
    text = MEGATRON.replace("--bf16", "--bf16 --grad-reduce-in-bf16 --num-key-value-heads 8")
    made = document(written(tmp_path, "run.sh", text))["model"]
    assert (made["gradients"], made["kv_heads"]) == ("bf16", 8)


def test_a_variable_of_itself_ends() -> None:
    options = script_options('A="$A$A$A$A$A$A"\ntrain --num-layers $A')
    assert 6**4 < len(options["num_layers"]) < 6**8


def test_an_option_with_two_values_is_refused(tmp_path: Path) -> None:
    text = MEGATRON + "\ntorchrun pretrain_gpt.py --num-layers 40\n"
    with pytest.raises(InputError, match='num_layers: got "32 and 40"'):
        imported(written(tmp_path, "run.sh", text))


def test_a_comment_ends_with_its_line(tmp_path: Path) -> None:
    """As in bigscience's tr11-176B-ml.slurm: in a shell no backslash continues a comment."""
    text = MEGATRON.replace("    --micro-batch-size 1", "#    --universal-checkpoint \\\n    --micro-batch-size 1")
    assert document(written(tmp_path, "run.sh", text)) == document(written(tmp_path, "run.sh", MEGATRON))


def test_arguments_of_megatron_deepspeed(tmp_path: Path) -> None:
    text = MEGATRON.replace("--recompute-granularity full --recompute-method uniform", "--checkpoint-activations")
    text = text.replace("--use-distributed-optimizer", "--zero-stage 2 --embed-layernorm")
    made = document(written(tmp_path, "run.sh", text.replace("--vocab-size 32000", "--pad-vocab-size-to 32768")))
    (plan,) = made["plans"].values()
    assert plan["data"] == {"family": "zero2"}
    assert (made["model"]["checkpointing"], made["model"]["embedding_norm"]) == ("full", True)
    assert made["model"]["vocabulary"] == 32768 and "vocabulary_multiple" not in made["model"]


@pytest.mark.parametrize(
    ("freq", "key", "value"),
    [
        ("([0]*3+[1]*29)", "dense_layers", 3),
        ("[0]+[1]*31", "dense_layers", 1),
        ("([0,1]*16)", "expert_every", 2),
        (2, "expert_every", 2),
    ],
)
def test_layers_of_experts_of_megatron(tmp_path: Path, freq: str | int, key: str, value: int) -> None:
    """DeepSeek-V2-Lite's and Llama 4's files of Megatron-LM have the second and third form."""
    text = MEGATRON.replace("--bf16", f"--bf16 --num-experts 8 --moe-layer-freq {freq}")
    assert document(written(tmp_path, "run.sh", text))["model"][key] == value


@pytest.mark.parametrize("freq", ["([0]*3+[1]*30)", "[1,0]*16", "[0]*32", "[1]*99999999999+[0]", "f(3)"])
def test_other_layers_of_experts_are_refused(tmp_path: Path, freq: str) -> None:
    text = MEGATRON.replace("--bf16", f"--bf16 --num-experts 8 --moe-layer-freq {freq}")
    with pytest.raises(InputError, match="moe_layer_freq: got "):
        imported(written(tmp_path, "run.sh", text))


def test_experts_of_gpt_oss_are_gated_and_clamped(tmp_path: Path) -> None:
    text = MEGATRON.replace("--swiglu", "--quick-geglu --activation-func-clamp-value 7.0 --num-experts 8")
    made = document(written(tmp_path, "run.sh", text))["model"]
    assert (made["gated"], made["expert_clamp"]) == (True, True)


def test_no_positions_are_no_default(tmp_path: Path) -> None:
    path = written(tmp_path, "run.sh", MEGATRON.replace("embedding-type rope", "embedding-type none"))
    assert document(path)["model"]["positions"] == "none"


def test_state_space_models_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "run.sh", MEGATRON.replace("--bf16", "--bf16 --hybrid-override-pattern M*M-"))
    with pytest.raises(InputError, match=r"hybrid_override_pattern: .* not modelled"):
        imported(path)
    path = written(tmp_path, "mamba.yaml", NEMO + "  mamba_ssm_ngroups: 8\n")
    with pytest.raises(InputError, match=r"model\.mamba_ssm_ngroups: "):
        imported(path)


def test_all_devices_of_a_node_are_no_number(tmp_path: Path) -> None:
    text = NEMO.replace("devices: 8", "devices: -1")
    made = document(written(tmp_path, "llama.yaml", text), devices=32, settings={"model.vocabulary": 32000})
    assert text != NEMO and made["run"]["devices"] == [32]


def test_the_20b_of_gpt_neox(tmp_path: Path) -> None:
    """12 × 8 ranks are 12 replicas of a grid of 8: 12 × 4 × 32 sequences a step."""
    paths = written(tmp_path, "20B.yml", NEOX), written(tmp_path, "local.yml", '{"data_path": "d", "save": "s"}')
    job = imported(*paths, machine="frontier", nodes=12, settings={"model.vocabulary": 50432})
    made = tomllib.loads(job.text)
    assert job.scenario.shape.num_parameters == 20_554_567_680
    case = job.scenario.case("tp2-pp4", 96)
    assert case.samples == 12 * 4 * 32
    assert made["stack"] == "gpt-neox-rocm6" and made["engine"]["synchronise"] == "layer"
    assert made["model"]["attention"] == "plain" and made["model"]["residual"] == "parallel"
    assert document(*paths, settings={"model.vocabulary": 50432})["stack"] == "megatron-deepspeed"


def test_gated_mlps_of_gpt_neox_have_a_third_of_the_intermediate_size(tmp_path: Path) -> None:
    """configs/llama2/7B.yml says 32768 and multiples of 256 for the 11,008 features of Llama 2."""
    text = NEOX.replace(
        '"pos-emb"', '"activation": "swiglu", "intermediate_size": 32768, "mlp_multiple_of": 256, "pos-emb"'
    )
    made = document(written(tmp_path, "7B.yml", text), settings={"model.vocabulary": 32000}, devices=96)
    assert made["model"]["ffn_hidden"] == 11008 and made["model"]["gated"] is True


@pytest.mark.parametrize(
    ("sizes", "parameters"),
    [
        ('"num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32', 6_738_415_616),
        (
            '"num_layers": 80, "hidden_size": 8192, "num_attention_heads": 64, "num_kv_heads": 8, '
            '"intermediate_size": 28672',
            68_976_648_192,
        ),
    ],
    ids=["llama-2-7b", "llama-2-70b"],
)
def test_older_files_of_gpt_neox_name_the_kind_of_mlp(tmp_path: Path, sizes: str, parameters: int) -> None:
    text = f"""{{"pipe_parallel_size": 1, {sizes}, "seq_length": 4096, "pos_emb": "rotary", "no_weight_tying": true,
    "norm": "rmsnorm", "use_bias_in_attn_linear": false, "mlp_type": "llama", "activation": "silu"}}"""
    job = imported(written(tmp_path, "llama.yml", text), settings={"model.vocabulary": 32000})
    assert job.scenario.shape.num_parameters == parameters


def test_torchtitan_divides_the_local_batch_into_micro_batches(tmp_path: Path) -> None:
    made = document(written(tmp_path, "8b.toml", TITAN))
    assert made["model"]["name"] == "llama-3-8b" and made["model"]["sequence"] == 8192
    assert made["training"] == {"micro_batch": 1, "grad_accum": 4}
    assert (made["model"]["checkpointing"], made["model"]["checkpoint_every"]) == ("full", 2)
    plan = made["plans"]["tp2-pp2-vp2"]
    assert plan["order"] == "interleaved" and plan["data"] == {"family": "zero3"}
    assert made["stack"] == "fsdp2-compile"


def test_torchtitan_without_recomputation(tmp_path: Path) -> None:
    made = document(written(tmp_path, "8b.toml", TITAN.replace('mode = "selective"', 'mode = "none"')))
    assert made["model"]["checkpointing"] == "none" and "checkpoint_every" not in made["model"]


def test_replicas_of_torchtitan_are_hsdp(tmp_path: Path) -> None:
    text = TITAN.replace("tensor_parallel_degree = 2", "").replace("pipeline_parallel_degree = 2", "")
    path = written(tmp_path, "8b.toml", text.replace("replicate_degree = 1", "replicate_degree = 4"))
    assert document(path)["plans"] == {"hsdp": {"family": "hsdp"}}
    with pytest.raises(InputError, match="data_parallel_replicate_degree: makes shards of 4 ranks on eos; allowed: 8"):
        imported(path, devices=16)
    text = path.read_text(encoding="utf-8").replace(
        "shard_degree = -1", "shard_degree = -1\ntensor_parallel_degree = 2"
    )
    assert document(written(tmp_path, "tp.toml", text))["plans"]["tp2"]["data"] == {
        "family": "hsdp"
    }  # four replicas of shards over 4 × TP 2


@pytest.mark.parametrize(
    ("modules", "checkpointing"),
    [
        ("[core_attn, layernorm]", {"checkpointing": "selective"}),
        ("[core_attn, mlp]", {"checkpointing": "full", "checkpoint_every": 2}),
        ("[moe, core_attn, mlp]", {"checkpointing": "full"}),
        ("[moe_act, layernorm]", {"checkpointing": "none"}),
    ],
)
def test_modules_that_are_recomputed_are_read_as_in_published_runs(
    tmp_path: Path, modules: str, checkpointing: dict[str, Any]
) -> None:
    text = NEMO.replace("activations_checkpoint_granularity: selective", "recompute_granularity: selective")
    text = text.replace("fp8: false", f"recompute_modules: {modules}")
    made = document(written(tmp_path, "llama.yaml", text), settings={"model.vocabulary": 32000})["model"]
    assert {key: value for key, value in made.items() if key.startswith("checkpoint")} == checkpointing


def test_nemo_resolves_values_of_other_fields(tmp_path: Path) -> None:
    made = document(written(tmp_path, "llama.yaml", NEMO), devices=None, settings={"model.vocabulary": 32000})
    assert made["run"]["devices"] == [32]
    assert (made["model"]["kv_heads"], made["model"]["gated"], made["model"]["tied"]) == (32, True, False)
    assert made["plans"]["tp4"]["data"] == {"family": "zero1"}
    assert made["model"]["checkpointing"] == "selective" and "linear_precision" not in made["model"]


def test_plans_of_the_user_replace_those_of_the_files(tmp_path: Path) -> None:
    path = written(tmp_path, "config.json", LLAMA_3_8B)
    assert list(document(path)["plans"]) == ["zero3", "hsdp", "megatron"]
    assert document(path)["training"]["batch"] == "usual"
    assert list(document(path, plans="zero1,zero3")["plans"]) == ["zero1", "zero3"]
    both = document(path, written(tmp_path, "ds.json", ZERO_3), plans="zero3; tp 2 pp 2")
    assert both["plans"] == {"zero3": "zero3", "tp2-pp2": "tp 2 pp 2"}


def test_plans_in_words_take_settings(tmp_path: Path) -> None:
    path = written(tmp_path, "config.json", LLAMA_3_8B)
    plans = document(path, plans="zero3; tp 2", settings={"plans.*.checkpointing": "none", "plans.tp2.mbs": 2})["plans"]
    assert plans["zero3"] == {"family": "zero3", "checkpointing": "none"}
    assert (plans["tp2"]["tensor"], plans["tp2"]["checkpointing"], plans["tp2"]["micro_batch"]) == (2, "none", 2)


def test_settings_go_last(tmp_path: Path) -> None:
    path = written(tmp_path, "ds.json", ZERO_3)
    settings = {"model.num_layers": 16, "plans.zero3.checkpointing": "none", "uncertainty.samples": 0}
    made = document(written(tmp_path, "config.json", LLAMA_3_8B), path, settings=settings)
    assert made["model"]["num_layers"] == 16
    assert made["plans"]["zero3"]["checkpointing"] == "none" and made["uncertainty"] == {"samples": 0}


def test_settings_and_machines_may_be_written_as_in_scenarios(tmp_path: Path) -> None:
    path = written(tmp_path, "config.json", LLAMA_3_8B)
    made = document(path, machine="EOS", settings={"model.seq": 8192, "training.gbs": 64})
    assert made == document(path, settings={"model.sequence": 8192, "training.batch": 64})


def test_files_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    a = written(tmp_path, "config.json", LLAMA_3_8B)
    b = written(tmp_path, "other.json", {**LLAMA_3_8B, "hidden_size": 8192})
    with pytest.raises(InputError) as error:
        imported(a, b)
    assert str(error.value) == f"{b}: hidden_size: got 8192, and {a} says 4096 (hidden_size)"
    with pytest.raises(InputError, match=r'model.flavor: got "llama-3-8b", and .* says "llama"'):
        imported(a, written(tmp_path, "8b.toml", TITAN))
    assert imported(a, written(tmp_path, "8b.toml", TITAN.replace('flavor = "8B"', ""))).scenario.shape.name == "llama"


def test_a_batch_that_the_accumulation_does_not_make_is_refused(tmp_path: Path) -> None:
    ds = written(tmp_path, "ds.json", {**ZERO_3, "gradient_accumulation_steps": 4})
    with pytest.raises(
        InputError, match="gradient_accumulation_steps: got 4, but train_batch_size gives 8 on 32 devices"
    ):
        imported(written(tmp_path, "config.json", LLAMA_3_8B), ds)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    ds, model = written(tmp_path, "ds.json", ZERO_3), written(tmp_path, "config.json", LLAMA_3_8B)
    with pytest.raises(InputError, match="says no model"):
        imported(ds)
    with pytest.raises(InputError, match="--devices: missing"):
        imported(model, devices=None)
    with pytest.raises(InputError, match="vocabulary; allowed: --set"):
        imported(written(tmp_path, "run.sh", MEGATRON.replace("--vocab-size 32000", "")))
