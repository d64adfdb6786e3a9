"""Workloads: models as graphs of ops on logical tensors, and the catalog of named shapes."""

from simfrontier.workload.catalog import MODELS, GptShape, MlpShape, Shape, find_model
from simfrontier.workload.gpt import Attention, gpt
from simfrontier.workload.graph import (
    USUAL_WAY,
    CrossEntropy,
    LossMethod,
    MatmulLabels,
    Phase,
    State,
    Use,
    Value,
    Weight,
    Workload,
    WorkOp,
)
from simfrontier.workload.graph_builder import Softmax
from simfrontier.workload.metric import neox_flops, step_flops
from simfrontier.workload.mlp import mlp
from simfrontier.workload.model import workload_of
from simfrontier.workload.mugs import mugs
from simfrontier.workload.mugs_shape import MugsShape
from simfrontier.workload.precision import PRECISIONS, Precision, find_precision
from simfrontier.workload.sizes import sizes_of

__all__ = [
    "MODELS",
    "PRECISIONS",
    "USUAL_WAY",
    "Attention",
    "CrossEntropy",
    "GptShape",
    "LossMethod",
    "MatmulLabels",
    "MlpShape",
    "MugsShape",
    "Phase",
    "Precision",
    "Shape",
    "Softmax",
    "State",
    "Use",
    "Value",
    "Weight",
    "WorkOp",
    "Workload",
    "find_model",
    "find_precision",
    "gpt",
    "mlp",
    "mugs",
    "neox_flops",
    "sizes_of",
    "step_flops",
    "workload_of",
]
