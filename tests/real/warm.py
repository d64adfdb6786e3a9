"""Imported by the process from which ranks are forked (`ranks.run_ranks`): what every rank needs, imported and used."""

from __future__ import annotations

import gc
import os
import threading

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # torch reads it once: what a rank sets comes too late
import torch
import torch.distributed

import simfrontier_real.cli
import simfrontier_real.ranks.session
import simfrontier_real.replay.replay_session
import simfrontier_real.train.train_session  # noqa: F401
from simfrontier.core.program import check, from_json, to_json
from simfrontier_real.ops.arrays import torch_backend
from simfrontier_real.train.train import train_in_one_process
from tests.real.schedules import EXACT, schedule, training, unsharded

torch.set_num_threads(1)
made = from_json(to_json(schedule(EXACT["zero3"], (1, 1, 1), precision="fp32")), "file")
assert check(made).is_clean
train_in_one_process(made, training(1), torch_backend())
unsharded(made, training(1))
assert threading.active_count() == 1  # a process that forks must have no other

gc.collect()
gc.freeze()  # what all ranks share stays shared
