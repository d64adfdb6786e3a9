"""Workloads: models as graphs of ops on logical (undistributed) tensors, and the catalog of named model shapes."""

from simfrontier.core.workload.adapters import LoraPart as LoraPart
from simfrontier.core.workload.attention_architecture import Norm as Norm, Positions as Positions
from simfrontier.core.workload.catalog import (
    MODELS as MODELS,
    find_model as find_model,
    known_model as known_model,
    known_models as known_models,
)
from simfrontier.core.workload.experts import Experts as Experts
from simfrontier.core.workload.gpt_architecture import Router as Router
from simfrontier.core.workload.gpt_model import gpt as gpt
from simfrontier.core.workload.gpt_shape import GptShape as GptShape, neox_flops as neox_flops
from simfrontier.core.workload.graph import (
    EXPERTS as EXPERTS,
    PRECISIONS as PRECISIONS,
    USUAL_CROSS_ENTROPY as USUAL_CROSS_ENTROPY,
    Attention as Attention,
    Checkpointing as Checkpointing,
    CrossEntropy as CrossEntropy,
    LossMethod as LossMethod,
    MatmulLabels as MatmulLabels,
    Optimizer as Optimizer,
    Phase as Phase,
    Precision as Precision,
    State as State,
    Use as Use,
    Value as Value,
    Weight as Weight,
    Workload as Workload,
    WorkOp as WorkOp,
    find_precision as find_precision,
)
from simfrontier.core.workload.graph_builder import (
    NEXT as NEXT,
    GraphBuilder as GraphBuilder,
    Softmax as Softmax,
    Stream as Stream,
    in_stream as in_stream,
    uses as uses,
    without_cuts as without_cuts,
)
from simfrontier.core.workload.mlp_model import MlpShape as MlpShape, mlp as mlp
from simfrontier.core.workload.shape import (
    Shape as Shape,
    num_blocks as num_blocks,
    sizes_of as sizes_of,
    workload_of as workload_of,
)
