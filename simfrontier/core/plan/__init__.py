"""Plans: placements of a model's states on the mesh, and the schedules that follow from them."""

from simfrontier.core.plan.compression import (
    DIMENSIONS as DIMENSIONS,
    OF_PURPOSE as OF_PURPOSE,
    compression_of as compression_of,
)
from simfrontier.core.plan.families import (
    FAMILIES as FAMILIES,
    make_plan as make_plan,
    own_families as own_families,
    plan_family as plan_family,
    read_options as read_options,
    table_of as table_of,
)
from simfrontier.core.plan.grid import DATA_AXES as DATA_AXES, listed as listed
from simfrontier.core.plan.hops import VALUES as VALUES
from simfrontier.core.plan.options import (
    MOST_MICRO_BATCHES as MOST_MICRO_BATCHES,
    PLAIN as PLAIN,
    HopOptions as HopOptions,
    Options as Options,
)
from simfrontier.core.plan.plan import (
    CHUNKED_ORDERS as CHUNKED_ORDERS,
    Engine as Engine,
    PipelineOrder as PipelineOrder,
    Plan as Plan,
)
from simfrontier.core.plan.stages import STREAM as STREAM, refuse_periods as refuse_periods
from simfrontier.core.plan.tensor import (
    TENSOR as TENSOR,
    AxonnOptions as AxonnOptions,
    MegatronOptions as MegatronOptions,
    TensorOptions as TensorOptions,
    batch_axes as batch_axes,
    engine_of as engine_of,
)
from simfrontier.core.plan.to_schedule import (
    build as build,
    rebound as rebound,
    rebound_program as rebound_program,
    structure_of as structure_of,
    tensors_of as tensors_of,
)
from simfrontier.core.plan.zero import (
    ZERO as ZERO,
    BucketOptions as BucketOptions,
    DdpOptions as DdpOptions,
    LatticeOptions as LatticeOptions,
    TopoOptions as TopoOptions,
    ZeroppOptions as ZeroppOptions,
)
