"""Small configuration files of jobs: the facts of published ones, written in the formats of their programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from simfrontier.inputs.job_files import ImportedJob, Wanted, import_job

LLAMA_3_8B: Final = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
MIXTRAL: Final = {
    **LLAMA_3_8B,
    "model_type": "mixtral",
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "sliding_window": None,
    "router_aux_loss_coef": 0.02,
}
QWEN_3: Final = {
    "model_type": "qwen3_moe",
    "num_hidden_layers": 48,
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "sliding_window": None,
}
DEEPSEEK_V3: Final = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 61,
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "n_group": 8,
    "topk_group": 4,
    "scoring_func": "sigmoid",
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "tie_word_embeddings": False,
    "num_nextn_predict_layers": 1,
}
ZERO_3: Final = {
    "train_batch_size": 512,
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": "auto",
    "bf16": {"enabled": True},
    "gradient_clipping": 1.0,
    "zero_optimization": {"stage": 3, "overlap_comm": True, "reduce_bucket_size": 5e8},
}
MEGATRON: Final = """\
#!/bin/bash
#SBATCH --nodes=4
GPUS_PER_NODE=8
TP=${TP:-"2"}
export PP=4
GPT_ARGS="--num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 \\
    --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 \\
    --swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope \\
    --untie-embeddings-and-output-weights --hidden-dropout 0.0 --attention-dropout 0.1"
MODEL_PARALLEL=(
    --tensor-model-parallel-size ${TP}
    --pipeline-model-parallel-size $PP   # --pipeline-model-parallel-size 8
    --num-layers-per-virtual-pipeline-stage 4
    --sequence-parallel
    --use-distributed-optimizer
)
torchrun --nproc_per_node $GPUS_PER_NODE pretrain_gpt.py $GPT_ARGS ${MODEL_PARALLEL[@]} \\
    --micro-batch-size 1 --global-batch-size=256 --bf16 --lr 1e-4 --vocab-size 32000 \\
    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
"""
LOG: Final = """\
0: using world size: 32, data-parallel size: 4
0:   bf16 ............................................ True
0:   global_batch_size ............................... 256
0:   group_query_attention ........................... False
0:   hidden_dropout .................................. 0.0
0:   hidden_size ..................................... 4096
0:   micro_batch_size ................................ 1
0:   num_attention_heads ............................. 32
0:   num_layers ...................................... 32
0:   num_query_groups ................................ 1
0:   padded_vocab_size ............................... 32256
0:   pipeline_model_parallel_size .................... 4
0:   recompute_granularity ........................... None
0:   seq_length ...................................... 4096
0:   tensor_model_parallel_size ...................... 2
0:   world_size ...................................... 32
"""
NEOX: Final = """\
{
  # as it was trained on 96 GPUs
  "pipe-parallel-size": 4,
  "model-parallel-size": 2,
  "num-layers": 44, "hidden-size": 6144, "num-attention-heads": 64, "seq-length": 2048,
  "pos-emb": "rotary", "no-weight-tying": true, "gpt_j_residual": true,
  "zero_optimization": {"stage": 1, "reduce_bucket_size": 1260000000, "overlap_comm": True},
  "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 32,
  "checkpoint-activations": true, "synchronize-each-layer": true,
  "attention-dropout": 0.1,
  "fp16": {"enabled": true, "loss_scale": 0},
}
"""
TITAN: Final = """\
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 4
seq_len = 8192
[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "Interleaved1F1B"
[activation_checkpoint]
mode = "selective"
selective_ac_option = "2"
[compile]
enable = true
"""
NEMO: Final = """\
trainer: {devices: 8, num_nodes: 4, precision: bf16}
model:
  micro_batch_size: 1
  global_batch_size: 128
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 1
  encoder_seq_length: 4096
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 32
  hidden_size: 4096
  ffn_hidden_size: 11008
  num_attention_heads: 32
  num_query_groups: ${model.num_attention_heads}
  normalization: rmsnorm
  bias: false
  activation: fast-swiglu
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  hidden_dropout: 0.0
  sequence_parallel: true
  activations_checkpoint_granularity: selective
  fp8: false
  optim: {name: mcore_distributed_optim, lr: 2e-4}
"""


def written(folder: Path, name: str, content: str | Mapping[str, Any]) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def imported(*paths: Path, machine: str = "eos", **wanted: Any) -> ImportedJob:
    """The files as a scenario, on Eos and 32 devices unless `wanted` says more."""
    if "nodes" not in wanted:
        wanted.setdefault("devices", 32)
    return import_job(paths, Wanted(machine=machine, settings=wanted.pop("settings", {}), **wanted))
