"""How rows of published runs are read: rules, switched-off flags, and texts that the shipped table does not have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from simfrontier.answers.accuracy.published_runs.job import Job, job_of
from simfrontier.answers.accuracy.published_runs.table import COLUMNS, GRID_COLUMNS, read_runs
from simfrontier.base.errors import InputError
from tests.answers.accuracy.published_runs.rows import run

NIC = "machine.overrides.link_classes.nic.bytes_per_s"
PER_NODE = "machine.overrides.devices_per_node"
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
    ({"unit": "tokens/s/node"}, {"rate.measure": "tokens_per_s_per_device", "rate.devices": 8}),
    ({"unit": "sec/iter"}, {"rate.measure": "step_s"}),
    ({"unit": "TFLOP/s per GPU"}, {"rate.measure": "tflops_per_device", "rate.flops": "model"}),
    ({"unit": "TFLOP/s/GPU", "system": "NVIDIA/NeMo", "notes": "NeMo 25.04.rc2"}, {"rate.flops": "model"}),
    ({"unit": "MFU", "value": "0.41"}, {"rate.measure": "percent_of_peak", "rate.factor": 0.01}),
    ({"unit": "TFLOP/s/GPU", "system": "argonne-lcf/Megatron-DeepSpeed"}, {"rate.flops": "megatron"}),
    # GPT-NeoX's own count before September 2023, and FORGE's jobs: over several nodes without P2P, cast to fp16
    (
        {"unit": "TFLOPS/GCD (NeoX formula)", "system": "GPT-NeoX (FORGE)", "machine": "frontier", "devices": "64"},
        {"rate.flops": "neox_2021", "library.name": "rccl-no-p2p", "model.precision": "fp16"},
    ),
    # FORGE's configurations accumulate where no batch is told; sizes stand for GPTs of a usual shape
    (
        {"model_shape": "FORGE-M", "system": "GPT-NeoX", "machine": "setonix", "devices": "16", "plan": "tp 2 zero1"}
        | {"batch": "", "micro_batch": "12"},
        {"training.batch": 192, "model.precision": "fp16", "stack": "gpt-neox-rocm5"},
    ),
    ({"model_shape": "22B"}, {"model.num_layers": 49, "model.hidden": 6144}),
    ({"model_shape": "175B"}, {"model.num_layers": 96, "model.hidden": 12288}),
    # devices and machines: 4 NICs of 400 Gb/s / 4 on a node of 4 A100
    ({"devices": "16 nodes", "machine": "perlmutter"}, {"run.devices": [64]}),
    ({"machine": "polaris", "machine_as_told": "4x A100 40GB"}, {"machine.name": "perlmutter", NIC: 12.5e9}),
    ({"machine": "ours", "machine_as_told": "8x H100, 3.2 Tb/s"}, {"machine.name": "h100-node", NIC: 50e9}),
    (
        {"machine": "ours", "machine_as_told": "8x H100, 400 Gb/s RDMA per GPU"},
        {"machine.name": "h100-node", NIC: 50e9},
    ),
    ({"machine": "AMD Instinct MI325X 256GB HBM3E"}, {"machine.name": "mi325x-node"}),
    ({"machine": "8x B200 (power limited)"}, {"machine.name": "b200-750w-node"}),
    ({"machine": "8x H100", "source": "pytorch/ao@1 README.md"}, {"machine.name": "grand-teton"}),
    # NVLink domains of 72: 128 take 64 of each of two, 8 divide 72
    ({"machine": "DGX-GB300", "devices": "128"}, {"machine.name": "gb300-nvl72", PER_NODE: 64.0}),
    ({"machine": "GB200", "devices": "2560", "batch": "2560"}, {PER_NODE: 64.0}),  # 36 domains do not divide it
    ({"machine": "GB200 NVL72", "devices": "8"}, {"machine.name": "gb200-nvl72", PER_NODE: None}),
    # models by name and by other words
    ({"model_shape": "llama3_70b"}, LLAMA_70B | {"model.vocabulary": 128512, "model.gated": True}),  # 251 · 128 · tp 4
    ({"model_shape": "GPT 24 layers, hidden 2,048, 16 heads"}, {"model.num_layers": 24, "model.hidden": 2048}),
    ({"model_shape": "Ours (L 48 h 8160 a 48 kv 6 ffn 28668)"}, {"model.num_layers": 48, "model.kv_heads": 6}),
    ({"model_shape": "Qwen3-32B"}, {"model.heads": 64, "model.head_dim": 128, "model.hidden": 5120}),
    ({"model_shape": "Mistral NeMo 12B"}, {"model.head_dim": 128, "model.vocabulary": 131072}),
    ({"model_shape": "Gemma 2 9B"}, {"model.head_dim": 256, "model.tied": True, "model.gated": True}),
    ({"model_shape": "GPT3 20b", "system": "NVIDIA/NeMo"}, {"model.num_layers": 44, "model.attention": "fused"}),
    # sequence and batch: 4e6 / 2048 = 1953.1 sequences, of 2 ranks · micro-batch 4 nearest 1952
    ({"batch": "4M tokens"}, {"training.batch": 1952}),
    ({"seq": "8k", "batch": "32"}, {"model.sequence": 8192}),
    ({"micro_batch": "", "plan": "tp 4, GAS=8"}, {"training.micro_batch": 2}),  # 32 sequences over 2 ranks · 8
    ({"micro_batch": "", "plan": "tp 4", "notes": "GA 8.0"}, {"training.micro_batch": 2}),
    # batch and micro-batch of Megatron-DeepSpeed's examples; its optimizer of bf16 divides states in stage 0, too
    (
        {"system": "Megatron-DeepSpeed", "model_shape": "GPT-3 13B", "batch": "", "micro_batch": "", "plan": "pp 8"},
        {"training.batch": 1024, "training.micro_batch": 2},
    ),
    ({"system": "Megatron-DeepSpeed", "plan": "tp 2 zero0", "precision": "bf16"}, {"plan.data.family": "zero1"}),
    ({"system": "Megatron-DeepSpeed", "plan": "tp 2 zero0", "precision": "fp16"}, {"plan.data.family": "ddp"}),
    # ZeRO's own optimizer adds up in the model's type, that of pipelines in fp32; fp16 on MI250X has kernels of its own
    ({"system": "Megatron-DeepSpeed", "plan": "zero1", "precision": "bf16"}, {"model.gradients": "bf16"}),
    ({"system": "Megatron-DeepSpeed", "plan": "pp 8 zero1", "precision": "bf16"}, {"model.gradients": None}),
    ({"system": "Megatron-DeepSpeed", "machine": "LUMI-G"}, {"stack": "megatron-deepspeed-rocm5"}),
    # dropout, which Megatron-LM's scripts of GPTs inherit and those of Llama turn off
    ({"system": "Megatron-LM", "model_shape": "GPT 7.5B"}, {"model.dropout": True}),
    ({"system": "Megatron-LM", "model_shape": "GPT 7.5B", "notes": "no dropout"}, {"model.dropout": False}),
    ({"system": "Megatron-LM", "model_shape": "Llama-2-7B"}, {"model.dropout": False}),
    # a model of 2025 on MI250X, without an engine
    (
        {"system": "", "machine": "LUMI-G", "model_shape": "Ministral-3-14B", "plan": "Adafactor", "devices": "8"}
        | {"precision": "bf16"},
        {"stack": "transformers-rocm7", "model.head_dim": 128, "model.heads": 32, "model.moments": "bf16"},
    ),
    # plans, and flags that are off
    ({"plan": "TP8PP4", "devices": "64"}, {"plan.tensor": 8, "plan.pipeline": 4}),
    ({"plan": "8-way tensor parallel, sequence parallel"}, {"plan.tensor": 8, "plan.sequence_parallel": True}),
    ({"plan": "tp 2 pp 4 vp 9", "batch": "16"}, {"plan.order": "interleaved", "plan.chunks": 9}),
    ({"plan": "tp 2 pp 4 zbv", "batch": "16"}, {"plan.order": "zb-v", "plan.chunks": 2}),
    ({"plan": "tp 2 pp 4", "batch": "64", "notes": "schedule ZB-bubble (zbb)"}, {"plan.order": "zb-h1"}),
    ({"plan": "tp 2 pp 4", "batch": "64", "notes": "DualPipeV"}, {"plan.order": "dualpipev", "plan.chunks": 2}),
    ({"plan": "ZeRO++ (hpZ only)"}, {"plan.family": "zeropp", "plan.qwz": False, "plan.qgz": False}),
    ({"plan": "Gx 2 Gy 1 Gz 4", "system": "AxoNN"}, {"plan.family": "axonn", "plan.x": 2, "plan.z": 4}),
    (
        {"plan": "depth (z) 16, data 4", "system": "AxoNN nanoGPT", "machine": "frontier", "devices": "64"}
        | {"batch": "64", "micro_batch": "1"},
        {"plan.z": 16, "stack": "axonn-easy", "library.name": "rccl-one-core", "model.tied": False},
    ),
    *(({"plan": text}, {"plan.family": "ddp"}) for text in ("fsdp 0", "no FSDP", "ZeRO-3 off", "HSDP 0")),
    # the sequence on several ranks: Megatron-LM's ring, torchtitan's gathers, Ulysses
    ({"plan": "tp 4, pp 1, cp 2", "devices": "64"}, {"plan.tensor": 4, "plan.context": 2, "plan.context_by": None}),
    ({"plan": "FSDP2 CP 8", "system": "torchtitan"}, {"plan.context": 8, "plan.context_by": "gather"}),
    ({"plan": "ZeRO-3, Ulysses 4"}, {"plan.context": 4, "plan.context_by": "heads", "plan.data.family": "zero3"}),
    ({"plan": "tp 8, cp 1"}, {"plan.tensor": 8, "plan.context": None}),
    ({"plan": "tp 8 sequence_parallel 0"}, {"plan.tensor": 8, "plan.sequence_parallel": None}),
    # states of 70B in a node of 8: 16 · 70e9 / 8 = 140 GB a device, of 7B 14 GB
    ({"plan": "ZeRO-3 MiCS", "model_shape": "Llama-2-70B", "batch": "64"}, {"plan.family": "zero3"}),
    ({"plan": "ZeRO-3 MiCS", "model_shape": "Llama-2-7B", "batch": "64"}, {"plan.family": "hsdp"}),
    # NVIDIA's recipes: no recomputation, tensor parallelism in pieces, a layer in each run (96 / 8: 12)
    (
        {"system": "NVIDIA/dgxc-benchmarking", "model_shape": "Nemotron4 340b", "plan": "tp 8, pp 8, NeMo recipe"}
        | {"devices": "256", "batch": "64", "micro_batch": "1", "checkpointing": "not told (recipe in the repository)"},
        {"stack": "nemo", "model.hidden": 18432, "model.checkpointing": "none", "plan.product_pieces": 8}
        | {"plan.chunks": 12},
    ),
    # NeMo's FP8 has delayed scaling where nothing else is asked for; Megatron-Bridge's has not
    *(
        ({"system": system, "precision": precision, "machine": "DGX-H100"}, {"stack": stack})
        for system, precision, stack in (
            ("NVIDIA/NeMo@1 docs", "FP8", "nemo-delayed"),
            ("NVIDIA/dgxc-benchmarking@1 (v25.04.02)", "FP8", "nemo-delayed"),
            ("NVIDIA/NeMo@1 docs", "FP8-CS", "nemo"),
            ("NVIDIA/dgxc-benchmarking@1 (v26.02)", "FP8", "nemo"),
        )
    ),
    # packed sequences of 4,096 tokens are 16 documents of 256 each; half of attention counts
    (
        {
            "system": "NVIDIA-NeMo/Megatron-Bridge",
            "model_shape": "Llama-3-70B SFT",
            "seq": "4096",
            "unit": "TFLOP/s/GPU",
        }
        | {"checkpointing": "selective: mlp"},
        {"model.sequence": 256, "training.batch": 512, "training.micro_batch": 64, "rate.flops": "causal"}
        | {"model.checkpoint_every": 2},
    ),
    # the column FSDP of Megatron-Bridge's tables
    (
        {"system": "Megatron-Bridge", "notes": "FSDP 64", "plan": "tp 1, distributed optimizer (recipe)"},
        {"plan.family": "zero3", "stack": "nemo-fsdp"},
    ),
    # 126 layers, the embedding and the head on eight stages
    (
        {"system": "Megatron-Bridge", "model_shape": "LLAMA3.1_405B", "plan": "tp 4, pp 8, vp 4", "devices": "32"},
        {"model.num_layers": 126, "plan.layers": "even", "plan.chunks": 4},
    ),
    # 61 layers and one that predicts a further token, in 16 runs; kernels of experts by release: launched by the host,
    # or in a graph of all
    *(
        (
            {
                "system": "NVIDIA-NeMo",
                "model_shape": "DeepSeekV3",
                "plan": "tp 1, pp 2, ep 32, vp 8",
                "batch": "4096",
            }
            | {"machine": "DGX-GB300", "devices": "256", "micro_batch": "1", "precision": "MXFP8", "notes": release},
            {"stack": stack, "plan.dispatch": "hybridep", "plan.overlap_experts": overlap, "plan.chunks": 8}
            | {"model.mtp_layers": 1, "plan.layers": "even"},
        )
        for release, stack, overlap in (("26.04 NeMo", "nemo", None), ("26.06 NeMo", "nemo-full-graphs", True))
    ),
    (
        {"system": "NVIDIA-NeMo", "model_shape": "Qwen3_30B_a3B", "plan": "tp 1, ep 8", "notes": "25.09; tokendrop"}
        | {"machine": "DGX-GB200", "devices": "8"},
        {"stack": "nemo-full-graphs", "plan.dispatch": "all_to_all", "model.capacity": 1.0},
    ),
    # more ranks of experts than a stage has
    (
        {"system": "NVIDIA-NeMo", "model_shape": "DeepSeekV3", "plan": "tp 1, pp 8, ep 64, vp 2", "batch": "2048"}
        | {"machine": "DGX-GB200", "devices": "256", "micro_batch": "1", "notes": "25.09; tokendrop"},
        {"plan.expert": 32, "plan.dispatch": "all_to_all"},
    ),
    (
        {"system": "NVIDIA-NeMo", "model_shape": "GPT OSS 120B", "plan": "tp 1, ep 64", "devices": "64"}
        | {"machine": "DGX-GB200", "notes": "26.04 NeMo", "batch": "1280"},
        {"stack": "nemo-gpt-oss", "model.expert_clamp": True},
    ),
    # 32 sequences a rank in as many micro-batches as stages
    (
        {"system": "torchtitan", "plan": "FSDP 8 x TP 8 x PP 8", "devices": "512", "batch": "256", "micro_batch": "32"}
        | {"notes": "local batch 32; micro-batch size not told", "model_shape": "Llama-3.1-405B", "machine": "h100"},
        {"training.micro_batch": 4},
    ),
    # types and checkpointing
    ({"precision": "float8", "machine": "dgx-h100"}, {"model.linear_precision": "fp8", "model.precision": "bf16"}),
    (
        {"precision": "FP8", "system": "torchtitan", "notes": "compile false"},
        {"model.linear_precision": None, "model.precision": "bf16"},
    ),
    ({"precision": "FP8-MX", "machine": "dgx-b200"}, {"model.linear_precision": "mxfp8"}),
    ({"precision": "FP8 or NVFP4", "machine": "B300"}, {"model.linear_precision": "nvfp4", "model.precision": "bf16"}),
    ({"checkpointing": "off"}, {"model.checkpointing": "none"}),
    # other spellings of degrees, devices, batches, recomputation and units
    ({"plan": "TP/PP/DP = 4/2/2", "devices": "16"}, {"plan.tensor": 4, "plan.pipeline": 2}),
    ({"plan": "8-way TP, 2-way PP", "devices": "16"}, {"plan.tensor": 8, "plan.pipeline": 2}),
    ({"plan": "4TP 2PP"}, {"plan.tensor": 4, "plan.pipeline": 2}),
    ({"plan": "tensor model parallel size 4, pipeline-model-parallel-size 2"}, {"plan.tensor": 4, "plan.pipeline": 2}),
    ({"plan": "sharded data parallel"}, {"plan.family": "zero3"}),
    ({"plan": "zero_stage: 3"}, {"plan.family": "zero3"}),
    ({"plan": "FSDP2, tp 1, pp 1", "system": "torchtitan"}, {"plan.family": "zero3"}),  # one stage is no pipeline
    *(
        ({"devices": text, "machine": "h100"}, {"run.devices": [64]})
        for text in ("64 H100 SXM 80GB", "8 nodes of 8", "64 GPUs (8 nodes)", "8 nodes × 8 H100 = 64", "8 DGX H100")
    ),
    ({"devices": "16384", "machine": "h100", "batch": "65536"}, {"machine.overrides.num_nodes": 2048.0}),
    ({"batch": "gbs 64", "micro_batch": "mbs 2", "seq": "seq 4096"}, {"training.batch": 64, "training.micro_batch": 2}),
    (
        {"batch": "", "micro_batch": "", "seq": "", "plan": "tp 4, mbs 2, gbs 64, seq 4096"},
        {"training.batch": 64, "training.micro_batch": 2, "model.sequence": 4096},
    ),
    *(({"checkpointing": text}, {"model.checkpointing": "full"}) for text in ("AC: full", "recompute=full", "remat")),
    ({"checkpointing": "", "plan": "tp 4, no recompute"}, {"model.checkpointing": "none"}),
    ({"checkpointing": "core attention"}, {"model.checkpointing": "selective"}),
    ({"checkpointing": "minimal_flash", "model_shape": "Llama-2-70B"}, {"model.checkpointing": "none"}),
    ({"unit": "TGS"}, {"rate.measure": "tokens_per_s_per_device"}),
    ({"unit": "s"}, {"rate.measure": "step_s"}),
    ({"unit": "%", "metric": "MFU"}, {"rate.measure": "percent_of_peak", "rate.flops": "model"}),
    # sizes of memory and its rates are no networks; several NICs; nodes of four
    ({"machine": "A100-SXM4-80G"}, {"machine.name": "a100-node", NIC: None}),
    ({"machine": "H200 141GB, 4.8 TB/s, NVLink 900 GB/s"}, {"machine.name": "h200-node", NIC: None}),
    ({"machine": "ours", "machine_as_told": "4x GH200, 4x200 Gb/s"}, {"machine.name": "alps", NIC: 25e9}),
    (
        {"machine": "a100", "machine_as_told": "A100 80GB, 56 nodes of 4", "devices": "224", "batch": "448"},
        {PER_NODE: 4.0},
    ),
    # machines named in one column alone
    ({"machine": "A100 40GB"}, {"machine.name": "a100-40gb-node"}),
    ({"machine": "16x V100 32GB"}, {"machine.name": "dgx-2"}),
    ({"machine": "Intel Data Center GPU Max 1550", "devices": "12", "batch": "48"}, {"machine.name": "aurora"}),
    ({"machine": "MareNostrum 5"}, {"machine.name": "jupiter"}),
    # models by names with a space, without a number, by their size alone, and of other widths
    ({"model_shape": "OLMo 2 13B"}, {"model.hidden": 5120, "model.vocabulary": 100352}),
    ({"model_shape": "NEMOTRON-22B"}, {"model.num_layers": 40, "model.hidden": 6144}),
    ({"model_shape": "Qwen1.5-7B"}, {"model.num_layers": 32, "model.hidden": 4096}),
    ({"model_shape": "Apertus 8B"}, {"model.ffn_hidden": 21504, "model.gated": False}),
    ({"model_shape": "GPT-20B: 32 layers, 7168 hidden, 56 heads"}, {"model.num_layers": 32, "model.hidden": 7168}),
    ({"model_shape": "GPT 30B"}, {"model.num_layers": 56, "model.hidden": 6656}),  # 12 · 56 · 6656² = 29.8e9
    *(
        ({"model_shape": text}, {"model.ffn_hidden": 13824, "model.num_layers": 40})
        for text in ("Llama 2 (13B)", "Llama-2 13 B", "Llama 2 13 billion parameters")
    ),
    ({"model_shape": "Ours L=32 h=4096 a=32 kv=8 ffn=14336"}, {"model.gated": True}),
    # Megatron-LM on newer devices
    (
        {"machine": "h100", "model_shape": "GPT 175B L=96 h=12288 a=96", "checkpointing": ""},
        {"stack": "megatron-core", "model.attention": "fused", "model.checkpointing": "selective"},
    ),
    ({"system": "TRL", "plan": "DeepSpeed ZeRO-3"}, {"stack": "deepspeed", "plan.family": "zero3"}),
    ({"plan": "t 8 p 2", "devices": "16"}, {"plan.tensor": 8, "plan.pipeline": 2}),
    # H100 of two kinds in Grand Teton
    ({"machine": "H100 96GB"}, {"machine.name": "grand-teton"}),
    ({"machine": "grand-teton", "source": "arXiv 2407.21783"}, {"machine.name": "h100-node"}),
    # 8 sequences a rank; AxoNN divides words over x and y
    ({"plan": "ZeRO-3", "batch": "64", "micro_batch": ""}, {"training.micro_batch": 8}),
    ({"plan": "zero1", "batch": "64", "micro_batch": ""}, {"training.micro_batch": 1}),
    (
        {"plan": "Gx 2 Gy 2 Gz 2", "system": "AxoNN", "model_shape": "GPT L=32 h=4096 a=32 v=50257"},
        {"model.vocabulary": 50260},
    ),
    # experts: dispatchers by notes and recipes, heads of keys on several ranks, torchtitan's local batch
    (
        {"model_shape": "Qwen3-235B-A22B", "system": "Megatron-Core", "machine": "b300", "devices": "64"}
        | {
            "plan": "tp 8, pp 2, ep 32",
            "notes": "DeepEP; EP overlap off",
            "checkpointing": "selective: moe_act, layernorm",
        },
        {"plan.dispatch": "deepep", "plan.overlap_experts": False, "model.kv_heads": 8, "model.checkpointing": "none"},
    ),
    (
        {
            "model_shape": "Qwen3-30B-A3B",
            "system": "NeMo/Megatron-Bridge",
            "machine": "DGX-GB200",
            "plan": "tp 1, ep 8",
        },
        {"plan.dispatch": "hybridep", "plan.expert": 8},
    ),
    (
        {
            "model_shape": "Qwen3-30B-A3B",
            "system": "Megatron-Core",
            "plan": "ep 8",
            "notes": "NOT balanced, capacity factor 2",
        },
        {"model.capacity": 2.0, "model.expert_skew": 1.0},
    ),
    # rows on the most loaded rank: of 128 experts on 8, 1 + 2 · (8/128)^½ · 1.43 = 1.72; of trained ones 1.11; on one 1
    (
        {"model_shape": "Qwen3-30B-A3B", "system": "Megatron-Core", "plan": "ep 8", "notes": "dropless, unbalanced"},
        {"model.expert_skew": 1.75},
    ),
    (
        {"model_shape": "Qwen3-30B-A3B", "system": "Megatron-Core", "plan": "ep 8", "notes": "RL post-training"},
        {"model.expert_skew": 1.0},
    ),
    (
        {"model_shape": "Qwen3-30B-A3B", "system": "torchtitan", "plan": "FSDP2, ep 1", "notes": "torchtitan"},
        {"model.expert_skew": 1.0},
    ),
    # mlc-ai/pith-train: nothing recomputed, and 1,024 sequences, where a source tells nothing
    (
        {"model_shape": "Qwen3-30B-A3B", "system": "mlc-ai/pith-train", "machine": "8x B200", "devices": "8"}
        | {"plan": "pp 2, ep 4", "batch": "", "micro_batch": "", "checkpointing": "", "notes": "PithTrain, DualPipeV"},
        {"model.checkpointing": "none", "training.batch": 1024, "stack": "pith-train", "plan.order": "dualpipev"},
    ),
    # whitecircle/halo: README.md
    (
        {"model_shape": "GPT-OSS-20B", "system": "whitecircle/halo main", "machine": "8x B300", "devices": "8"}
        | {"plan": "tp 1, cp 8, ep 8", "notes": "grouped GEMM, FlashAttention 4"},
        {"stack": "fsdp2-compile", "plan.dispatch": "deepep", "plan.context_by": "heads", "plan.data.family": "zero3"},
    ),
    # awslabs/awsome-distributed-ai: bench_qwen3_pretrain.py
    (
        {"model_shape": "Qwen3-235B-A22B", "machine": "p6-b300 (8x B300, 16 EFA NICs, 6.4 Tb/s a node)"}
        | {"system": "awslabs/awsome-distributed-ai megatron-bridge/qwen3-235b", "devices": "64", "batch": "256"}
        | {"plan": "tp 8, pp 2, ep 32", "micro_batch": "4", "checkpointing": "selective", "notes": "EP overlap on"},
        {"model.num_layers": 96, "model.checkpointing": "none", "plan.order": "interleaved", "plan.chunks": 2}
        | {"plan.overlap_experts": True, "library.name": "nccl-efa-blackwell"},
    ),
    (
        {"model_shape": "Qwen3-30B-A3B", "system": "oellm-autoexp", "machine": "jupiter", "devices": "8"}
        | {"plan": "pp 2, ep 4, distributed optimizer", "notes": "Megatron-LM; BS column 4"},
        {"plan.dispatch": "all_gather", "stack": "megatron-core-unfused", "model.expert_skew": 1.25},
    ),
    (
        {"model_shape": "Qwen3-30B-A3B", "system": "oellm", "machine": "jupiter", "devices": "8", "batch": ""}
        | {"plan": "pp 2, ep 4, FSDP2", "micro_batch": "", "notes": "torchtitan; BS column 64 (titan: local batch)"},
        {"training.batch": 256, "training.micro_batch": 1},
    ),
]


@pytest.mark.parametrize(("cells", "expected"), READ)
def test_other_texts_are_read(cells: dict[str, str], expected: dict[str, Any]) -> None:
    made = keys(job(**cells))
    assert {key: made.get(key) for key in expected} == expected


def test_the_layers_of_a_cut_model_follow_from_both_rates() -> None:
    # Llama-2-7B: 6 · 6.6e9 + 12 · 32 · 4096 · 4096 = 46.1 GFLOP a token; 16 of its layers: 6 · 3.37e9 + 3.22e9 = 23.4
    cells = {"model_shape": "Llama-2-7B", "seq": "4096", "unit": "tokens/s/GPU", "value": "10057"}
    assert keys(job(**cells, notes="235.7 TFLOP/s"))["model.num_layers"] == 16
    assert keys(job(**cells, notes="464 TFLOP/s"))["model.num_layers"] == 32  # 46.1
    with pytest.raises(InputError, match=r"25\.6 GFLOP a token, the model's 46\.1"):  # between 17 and 18 layers
        job(**cells, notes="257.2 TFLOP/s")


def test_ranks_without_a_sequence_are_not_simulated() -> None:
    """4 sequences on tensor x context = 4 x 2 of 64 devices leave 32 without one; of no told plan, tensor parallelism
    leaves one to each rank, but of no more ranks than key heads."""
    cells = {"model_shape": "Llama-3-8B", "machine": "h100-node", "devices": "64", "seq": "8192", "system": "NeMo"}
    told = {**cells, "batch": "4", "plan": "tp 4, cp 2", "unit": "TFLOP/s/GPU"}
    assert keys(job(**told))["run.devices"] == [32]
    with pytest.raises(InputError, match="batch = 4 over 8 data-parallel ranks: less than a sequence each"):
        job(**{**told, "unit": "s/step"})  # of the whole job
    made = job(**{**cells, "batch": "16", "plan": "", "unit": "s/step"})
    assert keys(made)["plan.tensor"] == 4
    with pytest.raises(InputError, match="batch = 4 over 64 data-parallel ranks"):
        job(**{**cells, "batch": "4", "plan": "", "unit": "s/step"})


def test_adapters_are_read() -> None:
    """Ranks as told or of the recipes, modules of the recipes; weights of 4 bits are refused."""
    lora = {"model.lora_rank": 16, "model.lora_of": ["qkv", "proj"], "model.linear_precision": "fp8"}
    mlperf = {"system": "mlcommons/training_results_v5.1", "model_shape": "Llama-2-70B LoRA (packed 8192)"}
    made = keys(job(**mlperf, machine="AMD Instinct MI300X", precision="FP8/MXFP4 (see config)", batch="8"))
    assert {key: made[key] for key in lora} == lora and made["model.checkpoint_every"] == 4
    assert keys(job(model_shape="Llama-3-8B", plan="LoRA rank 32, ddp"))["model.lora_rank"] == 32
    assert keys(job(model_shape="Llama-3-8B", notes="LoRA adapters"))["model.lora_rank"] == 16
    with pytest.raises(InputError, match="weights of 4 bits"):
        job(model_shape="Llama-3-8B", plan="QLoRA")


def test_values_may_have_a_prefix_and_a_spread(tmp_path: Path) -> None:
    cells = {"value": "7.1k", "unit": "tok/s/gpu"}
    path = tmp_path / "rows.csv"
    for text, value in (("7.1k", 7100.0), ("1,660 ± 20", 1660.0), ("41.2 %", 41.2)):
        row = {**dict.fromkeys(COLUMNS, "x"), **cells, "value": text}
        path.write_text(f"{','.join(row)}\n" + ",".join(f'"{cell}"' for cell in row.values()) + "\n")
        assert read_runs(path)[0].value == pytest.approx(value)


def test_notes_that_begin_with_a_software_name_the_system(tmp_path: Path) -> None:
    cells = {"source": "pytorch/ao", "machine": "H100", "gpus": "8", "model": "Llama-3-8B", "global_batch": "8"}
    cells |= {"optimizer_sharding": "FSDP2", "recompute": "selective per op", "value": "1", "unit": "tokens/s/GPU"}
    path = tmp_path / "rows.csv"
    for notes, every in (("torchtitan, compile", 2), ("compile", 1)):  # of the layers, as torchtitan's policy by op
        row = {**dict.fromkeys(GRID_COLUMNS, ""), **cells, "notes": notes}
        path.write_text(f"{','.join(row)}\n" + ",".join(f'"{cell}"' for cell in row.values()) + "\n")
        assert keys(job_of(read_runs(path)[0])).get("model.checkpoint_every", 1) == every


@pytest.mark.parametrize("shape", ["Qwen3.5-27B", "Nemotron5-H-56B", "Nemotron_3_Super", "Qwen3-Next-80B-A3B"])
def test_other_kinds_of_models_are_no_gpts_of_their_size(shape: str) -> None:
    with pytest.raises(InputError, match=r"not modelled|not a decoder GPT"):
        job(model_shape=shape)
