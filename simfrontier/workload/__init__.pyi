from .catalog import (
    MODELS as MODELS,
    GptShape as GptShape,
    MlpShape as MlpShape,
    Shape as Shape,
    find_model as find_model,
)
from .gpt_model import Attention as Attention, gpt as gpt
from .graph import (
    USUAL_CROSS_ENTROPY as USUAL_CROSS_ENTROPY,
    CrossEntropy as CrossEntropy,
    LossMethod as LossMethod,
    MatmulLabels as MatmulLabels,
    State as State,
    Use as Use,
    Value as Value,
    Weight as Weight,
    Workload as Workload,
    WorkOp as WorkOp,
)
from .graph_builder import Softmax as Softmax
from .metric import neox_flops as neox_flops, step_flops as step_flops
from .mlp_model import mlp as mlp
from .model import workload_of as workload_of
from .mugs_model import mugs as mugs
from .mugs_shape import MugsShape as MugsShape
from .precision import PRECISIONS as PRECISIONS, Precision as Precision, find_precision as find_precision
from .sizes import sizes_of as sizes_of
