"""Schedules: the programs of all ranks for one training step, without durations, and code to check, store and print
them."""

from simfrontier.core.program.as_text import render as render
from simfrontier.core.program.checker import check as check, check_calls as check_calls, check_sizes as check_sizes
from simfrontier.core.program.cost import (
    KERNELS as KERNELS,
    NEWTON_SCHULZ_STEPS as NEWTON_SCHULZ_STEPS,
    MemoryPasses as MemoryPasses,
    is_grouped as is_grouped,
    matmul_dtype as matmul_dtype,
    matmul_form as matmul_form,
    matmul_shape as matmul_shape,
    newton_schulz_flops as newton_schulz_flops,
)
from simfrontier.core.program.expansion import ExpandedProgram as ExpandedProgram, expand as expand
from simfrontier.core.program.finding import Finding as Finding, title_of as title_of
from simfrontier.core.program.interpreter import (
    UNKNOWN as UNKNOWN,
    ChunkSum as ChunkSum,
    Clash as Clash,
    Form as Form,
    Interpreter as Interpreter,
)
from simfrontier.core.program.ir import (
    GRADIENT_ROLES as GRADIENT_ROLES,
    HOST as HOST,
    Call as Call,
    Collective as Collective,
    CollectiveKind as CollectiveKind,
    Compute as Compute,
    Exchange as Exchange,
    Op as Op,
    Piece as Piece,
    Ref as Ref,
    Role as Role,
    Schedule as Schedule,
    Tensor as Tensor,
    TensorRole as TensorRole,
)
from simfrontier.core.program.issuer import Issuer as Issuer
from simfrontier.core.program.kinds import (
    ATTENTION as ATTENTION,
    KINDS as KINDS,
    LOSS as LOSS,
    MATMUL as MATMUL,
    MEASURED as MEASURED,
    PAUSE as PAUSE,
    Phase as Phase,
    has_products as has_products,
    is_product as is_product,
    is_wait as is_wait,
    is_work as is_work,
    kind_of as kind_of,
    model_kind as model_kind,
    phase_of as phase_of,
    traffic_bytes as traffic_bytes,
)
from simfrontier.core.program.lifetime import (
    Lifetimes as Lifetimes,
    Peak as Peak,
    lifetimes as lifetimes,
    peak_bytes as peak_bytes,
)
from simfrontier.core.program.mesh import Mesh as Mesh
from simfrontier.core.program.names import (
    ALGORITHMS as ALGORITHMS,
    DEEPEP as DEEPEP,
    DIRECT as DIRECT,
    DISPATCHERS as DISPATCHERS,
    HALVING as HALVING,
    HYBRIDEP as HYBRIDEP,
    LIBRARY as LIBRARY,
    NO_MODULE as NO_MODULE,
    NVLS as NVLS,
    RBD as RBD,
    RING as RING,
    RING_TWICE as RING_TWICE,
    SHIFT as SHIFT,
    TREE as TREE,
    TWO_LEVEL as TWO_LEVEL,
    VIAS as VIAS,
    OpName as OpName,
    Part as Part,
    Stage as Stage,
    buffer_name as buffer_name,
    gathered_name as gathered_name,
    in_streams as in_streams,
    value_name as value_name,
)
from simfrontier.core.program.op_kind import (
    CopyKind as CopyKind,
    MeasuredKind as MeasuredKind,
    ModelFacts as ModelFacts,
    ModelKind as ModelKind,
    OrthogonalKind as OrthogonalKind,
    WaitKind as WaitKind,
)
from simfrontier.core.program.pieces import cut_label as cut_label, in_pieces as in_pieces
from simfrontier.core.program.placement import (
    REPLICATE as REPLICATE,
    PartialOp as PartialOp,
    Placement as Placement,
    block_shape as block_shape,
    by_dimension as by_dimension,
    partial as partial,
    placements_of as placements_of,
)
from simfrontier.core.program.roles import (
    CallSequence as CallSequence,
    Communicator as Communicator,
    CommunicatorGroups as CommunicatorGroups,
    axis_of_roles as axis_of_roles,
    members_of as members_of,
    sequence_of as sequence_of,
)
from simfrontier.core.program.routing import Routing as Routing
from simfrontier.core.program.saved import (
    SavedBytes as SavedBytes,
    SavedState as SavedState,
    saved_bytes as saved_bytes,
    saved_states as saved_states,
)
from simfrontier.core.program.segments import (
    Segment as Segment,
    SegmentedProgram as SegmentedProgram,
    segmented_roles as segmented_roles,
)
from simfrontier.core.program.store import (
    digest as digest,
    from_json as from_json,
    load as load,
    save as save,
    to_json as to_json,
)
from simfrontier.core.program.sweep_calls import SweepCall as SweepCall, sweep as sweep
