"""Wordings, shapes and machines that the shipped table does not have: what is read of them, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from simfrontier.accuracy import validate_runs
from simfrontier.accuracy.published_runs.job import Job, job_of
from simfrontier.accuracy.published_runs.rates import Rate, value_of
from simfrontier.accuracy.published_runs.step import TimedStep, step_of
from simfrontier.accuracy.published_runs.table import COLUMNS, read_runs
from simfrontier.errors import InputError
from tests.accuracy.published_runs.rows import run

NIC = "machine.overrides.link_classes.nic.bytes_per_s"
LLAMA_70B = {"model.num_layers": 80, "model.hidden": 8192, "model.heads": 64, "model.kv_heads": 8}


def job(**cells: str) -> Job:
    return job_of(run(**cells))


def keys(made: Job) -> dict[str, Any]:
    """Dotted keys of the scenario, those of its plan as `plan.*`, and what the value counts as `rate.*`."""

    def dotted(table: Mapping[str, Any], before: str) -> dict[str, Any]:
        flat: dict[str, Any] = {}
        for key, value in table.items():
            flat |= dotted(value, f"{before}{key}.") if isinstance(value, Mapping) else {before + key: value}
        return flat

    rest = {key: value for key, value in made.document.items() if key != "plans"}
    rate = {f"rate.{name}": getattr(made.rate, name) for name in ("measure", "flops", "devices", "factor")}
    return {**dotted(rest, ""), **dotted(made.document["plans"]["run"], "plan."), **rate}


READ: list[tuple[dict[str, str], dict[str, Any]]] = [
    # units
    ({"unit": "tokens/sec/GPU"}, {"rate.measure": "tokens_per_s_per_device"}),
    ({"unit": "tokens per second per device"}, {"rate.measure": "tokens_per_s_per_device"}),
    ({"unit": "tokens/s/node"}, {"rate.measure": "tokens_per_s_per_device", "rate.devices": 8}),
    ({"unit": "TFLOPS/GPU, 8 GPUs per node"}, {"rate.measure": "tflops_per_device", "rate.devices": 1}),
    ({"unit": "B tokens/day"}, {"rate.measure": "tokens_per_s", "rate.factor": 86400e-9}),
    ({"unit": "k tokens/s"}, {"rate.measure": "tokens_per_s", "rate.factor": 1e-3}),
    ({"unit": "samples per second"}, {"rate.measure": "samples_per_s"}),
    ({"unit": "sequences/s/GPU"}, {"rate.measure": "samples_per_s_per_device"}),
    ({"unit": "sec/iter"}, {"rate.measure": "step_s"}),
    ({"unit": "iteration time (s)"}, {"rate.measure": "step_s"}),
    ({"unit": "step time (ms)"}, {"rate.measure": "step_ms"}),
    ({"unit": "iterations/s"}, {"rate.measure": "steps_per_s"}),
    ({"unit": "PFLOP/s"}, {"rate.measure": "tflops_per_device", "rate.devices": 8, "rate.factor": 1e-3}),
    ({"unit": "TFLOP/s per GPU"}, {"rate.measure": "tflops_per_device", "rate.flops": "model"}),
    ({"unit": "TFLOPs", "system": "GPT-NeoX"}, {"rate.measure": "tflops_per_device", "rate.flops": "hardware"}),
    ({"unit": "% of peak"}, {"rate.measure": "percent_of_peak", "rate.flops": "hardware"}),
    ({"unit": "MFU", "value": "0.41"}, {"rate.measure": "percent_of_peak", "rate.factor": 0.01}),
    # devices
    ({"devices": "1,024", "batch": "1,024"}, {"run.devices": [1024]}),
    ({"devices": "2x8"}, {"run.devices": [16]}),
    ({"devices": "16 nodes", "machine": "perlmutter"}, {"run.devices": [64]}),
    ({"devices": "8 nodes (64 GPUs)"}, {"run.devices": [64]}),
    # machines: 4 NICs of 400 Gb/s / 4 on a node of 4 A100; 400 Gb/s over the 8 NICs of a node of 8
    ({"machine": "polaris", "machine_as_told": "4x A100 40GB"}, {"machine.name": "perlmutter", NIC: 12.5e9}),
    ({"machine": "aws-p4d", "machine_as_told": "8x A100"}, {"machine.name": "a100-40gb-node", NIC: 6.25e9}),
    ({"machine": "dgx-h200"}, {"machine.name": "h200-node"}),
    ({"machine": "ours", "machine_as_told": "8x H100, 3.2 Tb/s"}, {"machine.name": "h100-node", NIC: 50e9}),
    ({"machine": "olcf-frontier"}, {"machine.name": "frontier"}),
    # models by name and by other words
    ({"model_shape": "llama3_70b"}, LLAMA_70B | {"model.vocabulary": 128512, "model.gated": True}),  # 251 · 128 · tp 4
    ({"model_shape": "Llama 2 70B"}, LLAMA_70B | {"model.sequence": 2048, "model.attention": "fused"}),
    ({"model_shape": "Qwen2.5-7B"}, {"model.hidden": 3584, "model.heads": 28, "model.kv_heads": 4}),
    ({"model_shape": "MPT-125m"}, {"model.num_layers": 12, "model.hidden": 768, "model.heads": 12}),
    ({"model_shape": "OPT-66B"}, {"model.num_layers": 64, "model.hidden": 9216, "model.tied": True}),
    ({"model_shape": "GPT 24 layers, hidden 2,048, 16 heads"}, {"model.num_layers": 24, "model.hidden": 2048}),
    ({"model_shape": "GPT 175B L=70 h=14336 a=not told"}, {"model.num_layers": 70, "model.heads": 112}),  # 14336 / 128
    ({"model_shape": "GPT 1.4B L=24 h=2114 a=24", "plan": "dp 8"}, {"model.heads": 14}),  # 2 · 7 · 151: 14 · 151
    ({"model_shape": "GPT-2 XL", "seq": "512", "plan": "dp 8"}, {"model.heads": 25, "model.sequence": 512}),
    ({"model_shape": "GPT-NeoX-20B"}, {"model.num_layers": 44, "model.residual": "parallel", "model.tied": False}),
    # sequence, batch, micro-batch: 4e6 / 2048 = 1953.1 sequences, of 2 ranks · micro-batch 4 nearest 1952
    ({"batch": "4M tokens"}, {"training.batch": 1952}),
    ({"batch": "2,048 (ramp-up)"}, {"training.batch": 2048}),
    ({"batch": "16 sequences per GPU"}, {"training.batch": 128}),
    ({"seq": "8k", "batch": "32"}, {"model.sequence": 8192}),
    ({"micro_batch": "2-4"}, {"training.micro_batch": 2}),
    ({"micro_batch": "", "plan": "tp 4, GAS=8"}, {"training.micro_batch": 2}),  # 32 sequences over 2 ranks · 8
    ({"batch": "41"}, {"training.batch": 40, "training.micro_batch": 4}),  # 5 · 8; half a sequence of a rank away
    # plans
    ({"plan": "TP8PP4", "devices": "64"}, {"plan.tensor": 8, "plan.pipeline": 4}),
    ({"plan": "PTD-P: t=8, p=2", "devices": "16"}, {"plan.tensor": 8, "plan.pipeline": 2}),
    ({"plan": "8-way tensor parallel, sequence parallel"}, {"plan.tensor": 8, "plan.sequence_parallel": True}),
    (
        {"plan": "tp 8, overlap of grad reduce, TP comm"},
        {"plan.tensor": 8, "plan.product_pieces": 8, "plan.sequence_parallel": True},
    ),
    ({"plan": "async TP 4 x FSDP 2"}, {"plan.tensor": 4, "plan.product_pieces": 4}),
    ({"plan": "tp 8, TP comm overlap", "seq": "48"}, {"plan.product_pieces": 2}),  # of 6 positions on a rank
    ({"plan": "dp 8, TP comm overlap"}, {"plan.product_pieces": None}),
    ({"plan": "tp 2 pp 4 vp 9", "batch": "16"}, {"plan.order": "interleaved", "plan.chunks": 9}),
    ({"plan": "tp 2 pp 4 vp 9", "batch": "24"}, {"plan.pipeline": 4}),
    ({"plan": "ZeRO stage 2"}, {"plan.family": "zero2"}),
    ({"plan": "ZeRO++ (hpZ only)"}, {"plan.family": "zeropp", "plan.qwz": False, "plan.qgz": False}),
    ({"plan": "ZeRO++ without qgZ"}, {"plan.family": "zeropp", "plan.qgz": False}),
    ({"plan": "HSDP (replicate 2, shard 4)"}, {"plan.family": "hsdp"}),
    ({"plan": "HSDP 2 x 32", "devices": "64", "batch": "256"}, {"plan.family": "zero3"}),
    ({"plan": "FSDP NO_SHARD"}, {"plan.family": "ddp"}),
    ({"plan": "Gx 2 Gy 1 Gz 4", "system": "AxoNN"}, {"plan.family": "axonn", "plan.x": 2, "plan.z": 4}),
    # flags that are off, and numbers behind flags
    *(
        ({"plan": text}, {"plan.family": "ddp", "plan.tensor": None})
        for text in (
            *("fsdp 0", "FSDP=0", "no FSDP", "without FSDP", "w/o FSDP", "FSDP off", "FSDP none", "FSDP: false"),
            *("FSDP n/a", "FSDP -", "FSDP:", "FSDP (off)", "FSDP is disabled", "FSDP no", "dp_shard 1", "tp 0, FSDP 0"),
            *("zero 0", "ZeRO stage 0", "ZeRO-3 off", "distributed optimizer 0", "no distributed optimizer", "HSDP 0"),
        )
    ),
    *(({"plan": text}, {"plan.family": "zero3"}) for text in ("fsdp 1", "FSDP 8", "FSDP yes", "FSDP, no offload")),
    ({"plan": "FSDP 0", "system": "torchtitan"}, {"plan.family": "ddp", "stack": "fsdp2"}),
    ({"plan": "distributed optimizer no", "system": "NeMo"}, {"plan.family": "ddp"}),
    ({"plan": "FSDP 0", "system": "NeMo"}, {"plan.family": "zero1"}),  # as it is without a word on FSDP
    ({"plan": "fsdp 0 tp 8"}, {"plan.tensor": 8, "plan.data.family": "ddp"}),
    ({"plan": "tp 8, distributed optimizer 1"}, {"plan.data.family": "zero1"}),
    ({"plan": "tp 8 sequence_parallel 0"}, {"plan.tensor": 8, "plan.sequence_parallel": None}),
    ({"plan": "sequence parallel no, tp 8"}, {"plan.tensor": 8, "plan.sequence_parallel": None}),
    ({"plan": "sequence parallel no tp 8"}, {"plan.tensor": 8, "plan.sequence_parallel": None}),
    ({"plan": "tp 8 SP 1"}, {"plan.sequence_parallel": True}),
    ({"plan": "tp 8, TP comm overlap off"}, {"plan.product_pieces": None}),
    ({"plan": "tp 2 pp 4 vp n/a", "batch": "16"}, {"plan.pipeline": 4, "plan.order": None}),
    ({"plan": "tp 2 pp 4 vp 1", "batch": "16"}, {"plan.pipeline": 4, "plan.order": None}),
    ({"plan": "tp 4 pp -"}, {"plan.tensor": 4, "plan.pipeline": 1}),
    ({"plan": "tp 8, cp none, ep 0, Ulysses 1"}, {"plan.tensor": 8}),
    ({"plan": "ZeRO++ (qwZ 1, hpZ 0, qgZ 1)"}, {"plan.qwz": None, "plan.hpz": False, "plan.qgz": None}),
    ({"plan": "FSDP, compile false", "system": "torchtitan"}, {"stack": "fsdp2"}),
    ({"plan": "tp 8, flash attention off", "system": "Megatron-Core"}, {"model.attention": "plain"}),
    ({"precision": "bf16, fp8 off", "machine": "dgx-h100"}, {"model.linear_precision": None}),
    *(
        ({"checkpointing": text}, {"model.checkpointing": "none"})
        for text in ("0", "no", "-", "n/a", "w/o", "none (fits)", "activation checkpointing off", "selective: none")
    ),
    # types and checkpointing
    ({"precision": "float8", "machine": "dgx-h100"}, {"model.linear_precision": "fp8", "model.precision": "bf16"}),
    ({"checkpointing": "off"}, {"model.checkpointing": "none"}),
    ({"checkpointing": "", "model_shape": "GPT 22B L=48 h=6144 a=64"}, {"model.checkpointing": "full"}),
]


@pytest.mark.parametrize(("cells", "expected"), READ)
def test_other_texts_are_read(cells: dict[str, str], expected: dict[str, Any]) -> None:
    made = keys(job(**cells))
    assert {key: made.get(key) for key in expected} == expected


REFUSED: list[tuple[dict[str, str], str]] = [
    ({"machine": "tpu-v4"}, "machine tpu-v4: no rule knows it; allowed: "),
    ({"machine": "mi300x", "machine_as_told": "8x MI300X"}, "devices that have a file: A100, H100"),
    ({"model_shape": "Mixtral 8x7B"}, "a mixture of experts"),
    ({"model_shape": "DeepSeek-V3 671B"}, "a mixture of experts"),
    ({"model_shape": "BERT-large L=24 h=1024"}, "not a decoder GPT"),
    ({"model_shape": "debugmodel"}, "allowed: L=24 h=2048 a=16 v=50257, or the name of a published model"),
    ({"plan": "FSDP 8 x CP=8"}, "context parallelism"),
    ({"plan": "tp 2, expert-parallel size 4"}, "expert parallelism"),
    ({"plan": "ZeRO-3 offload"}, "offload"),
    ({"plan": "4D", "system": "AxoNN"}, "AxoNN's grid is not told"),
    ({"plan": "tp 3 pp 2"}, "plan: tensor × pipeline = 6 does not divide 8 devices"),
    ({"unit": ""}, "unit: no rule knows what it counts; allowed: tokens/s/GPU"),
    ({"unit": "days"}, "the time of a whole training"),
    ({"devices": "0"}, 'devices: got "0", allowed: a whole number'),
    ({"devices": "a few"}, "or nodes: 2x8, 16 nodes"),
]


@pytest.mark.parametrize(("cells", "why"), REFUSED)
def test_what_is_refused_says_why_in_a_line(cells: dict[str, str], why: str) -> None:
    with pytest.raises(InputError) as raised:
        job_of(run(**cells))
    assert why in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_job_of_more_micro_batches_than_are_laid_out_is_as_long_as_its_batch() -> None:
    """2 ranks of micro-batch 4 lay out 1,000 micro-batches, 8,000 sequences; twice that takes twice as long, and the
    rate of tokens is the same."""
    laid_out, twice, rate = (
        timed(**cells) for cells in ({"batch": "8000"}, {"batch": "16000"}, {"batch": "16000", "unit": "tokens/s/GPU"})
    )
    assert twice.job.document["training"]["batch"] == 8000
    assert twice.value(twice.step_s) == pytest.approx(2.0 * laid_out.value(laid_out.step_s))
    assert rate.value(rate.step_s) == pytest.approx(16000 * 2048 / 8 / twice.step_s)


def timed(**cells: str) -> TimedStep:
    return step_of(run(**cells)).timed


def test_every_nth_layer_is_a_share() -> None:
    assert job(checkpointing="selective (every 2nd layer)").scenario.file.model.checkpoint_every == 2
    assert job(checkpointing="every 4th layer").scenario.file.model.checkpoint_every == 4
    assert job(checkpointing="full").scenario.file.model.checkpoint_every == 1


def test_a_factor_is_of_the_value() -> None:
    shape = job().scenario.case("run", 8).shape
    in_thousands, plain = (Rate(measure="tokens_per_s", factor=factor) for factor in (1e-3, 1.0))
    args = (2.0, shape, 6, 3, False, 1e12)
    assert value_of(in_thousands, *args) == pytest.approx(value_of(plain, *args) / 1e3)  # type: ignore[arg-type]
    assert value_of(Rate(measure="steps_per_s"), *args) == 0.5  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "value"), [("1,070", 1070.0), ("about 70.5", 70.5), ("~12", 12.0), ("45%", 45.0), ("0", math.nan)]
)
def test_values_as_people_write_them(text: str, value: float, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    cells = [f'"{text}"' if column == "value" else column for column in COLUMNS]
    path.write_text(f"{','.join(COLUMNS)}\n{','.join(cells)}\n", encoding="utf-8")
    assert read_runs(path)[0].value == pytest.approx(value, nan_ok=True)


def test_a_row_of_other_columns_is_refused_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    good = ",".join(run()[column] for column in COLUMNS)
    path.write_text(f"{','.join(COLUMNS)}\n{good},more\n{good}\nshort\n", encoding="utf-8")
    more, whole, short = validate_runs(read_runs(path), "mine").rows
    assert more.prediction is None and "14 values, allowed: 13, one for each column" in more.why
    assert whole.prediction is not None
    assert short.prediction is None and short.why.startswith("1 values, allowed: 13")
