"""Workloads: models as graphs of ops on logical tensors, and the catalog of named shapes."""

from simfrontier.workload.catalog import MODELS, GptShape, find_model
from simfrontier.workload.gpt import gpt
from simfrontier.workload.graph import Phase, Use, Value, Weight, Workload, WorkOp
from simfrontier.workload.metric import neox_flops

__all__ = [
    "MODELS",
    "GptShape",
    "Phase",
    "Use",
    "Value",
    "Weight",
    "WorkOp",
    "Workload",
    "find_model",
    "gpt",
    "neox_flops",
]
