"""A small GPT in plain PyTorch over gloo, under FSDP2 or DDP, with PyTorch's profiler in its loop.

torchrun --nproc-per-node 2 train.py fsdp2 traces
"""

import sys
import time
from statistics import median

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

LAYERS, HIDDEN, HEADS, VOCABULARY, SEQUENCE, BATCH = 4, 512, 8, 1024, 128, 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.proj = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        heads = self.qkv(self.norm1(x)).view(BATCH, SEQUENCE, 3, HEADS, HIDDEN // HEADS)
        q, k, v = heads.transpose(1, 3).unbind(2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(BATCH, SEQUENCE, HIDDEN))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, HIDDEN), nn.Embedding(SEQUENCE, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def wrapped(model, wrap):
    if wrap == "ddp":
        return DistributedDataParallel(model)
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def step(model, optimizer):
    text = torch.randint(VOCABULARY, (BATCH, SEQUENCE + 1))
    loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


wrap, folder = sys.argv[1:]
dist.init_process_group("gloo")
model = wrapped(GPT(), wrap)
optimizer = torch.optim.AdamW(model.parameters(), fused=True)

with profile(
    activities=[ProfilerActivity.CPU],
    record_shapes=True,  # gloo's calls do not say their sizes otherwise
    schedule=schedule(wait=8, warmup=1, active=1),
    on_trace_ready=tensorboard_trace_handler(folder, f"rank{dist.get_rank()}", use_gzip=True),
) as profiler:
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        step(model, optimizer)
        times.append(time.perf_counter() - begin)
        profiler.step()

if dist.get_rank() == 0:
    print(f"{wrap}: {median(times[1:8]):.3f} s per step without the profiler, {times[9]:.3f} s with it")
dist.destroy_process_group()
