"""Vocabulary of PyTorch's profiler traces: categories, keys, and the names of collectives and types.

Sources: pytorch/kineto, libkineto/src/output_json.cpp (events, and the keys of collectives) and
libkineto/src/CuptiActivity.cpp (waits of streams for events); pytorch/pytorch, torch/csrc/profiler/util.cpp
(saveNcclMeta), torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp (names of collectives), Ops.cpp and
ProcessGroupGloo.cpp there (ops of the host, and the events of gloo that carry them out). Times are in microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

MICROSECOND: Final = 1e-6
SCHEMA_VERSION: Final = 1

# ── categories ──

KERNEL: Final = "kernel"
ON_STREAMS: Final = frozenset({KERNEL, "gpu_memcpy", "gpu_memset"})
RUNTIME: Final = frozenset({"cuda_runtime", "cuda_driver"})  # HIP's calls, too
STREAM_SYNC: Final = "cuda_sync"
STREAM_WAIT: Final = "Stream Wait Event"
ANNOTATION: Final = "user_annotation"
GPU_ANNOTATION: Final = "gpu_user_annotation"
CPU_OP: Final = "cpu_op"
READ: Final = frozenset({*ON_STREAMS, *RUNTIME, STREAM_SYNC, ANNOTATION, GPU_ANNOTATION, CPU_OP})
STEP_PREFIX: Final = "ProfilerStep#"
BACKWARD_PREFIX: Final = "autograd::engine::evaluate_function"

# ── keys of events' args ──

COLLECTIVE: Final = "Collective name"
DTYPE: Final = "dtype"
IN_ELEMENTS: Final = "In msg nelems"
OUT_ELEMENTS: Final = "Out msg nelems"
GROUP_SIZE: Final = "Group size"
GROUP_NAME: Final = "Process Group Name"
GROUP_WHAT: Final = "Process Group Description"
GROUP_RANKS: Final = "Process Group Ranks"
SEQUENCE: Final = "Seq"
SOURCE_RANK: Final = "Src Rank"
TARGET_RANK: Final = "Dst Rank"
WAIT_STREAM: Final = "wait_on_stream"
WAIT_RECORD: Final = "wait_on_cuda_event_record_corr_id"
DIMS: Final = "Input Dims"
TYPES: Final = "Input type"
OWN: Final = "simfrontier"  # the only key that is not Kineto's: attributes of a simulated op

# ── names ──

Meaning = Literal["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "send", "recv"]

COLLECTIVES: Final[Mapping[str, Meaning]] = {
    **dict.fromkeys(("allreduce", "all_reduce", "allreduce_coalesced", "barrier"), "all_reduce"),
    **dict.fromkeys(
        ("_allgather_base", "allgather", "all_gather", "allgather_into_tensor_coalesced", "all_gather_into_tensor"),
        "all_gather",
    ),
    **dict.fromkeys(
        ("_reduce_scatter_base", "reduce_scatter", "reduce_scatter_tensor_coalesced", "reduce_scatter_tensor"),
        "reduce_scatter",
    ),
    **dict.fromkeys(("all_to_all", "all_to_allv", "alltoall", "alltoall_base"), "all_to_all"),
    **dict.fromkeys(("broadcast", "_broadcast_oop"), "all_gather"),
    **dict.fromkeys(("reduce", "_reduce_oop"), "reduce_scatter"),
    "send": "send",
    "recv": "recv",
}
BARRIER: Final = "barrier"
LIKE: Final = {  # calls that no schedule has, read as another call with equal bytes in a ring
    **dict.fromkeys(("broadcast", "_broadcast_oop"), "broadcast taken for an all-gather of its bytes"),
    **dict.fromkeys(("reduce", "_reduce_oop"), "reduce taken for a reduce-scatter of its bytes"),
    BARRIER: "barrier taken for an all-reduce of one number",
}
WRITTEN: Final[Mapping[Meaning, str]] = {
    "all_gather": "_allgather_base",
    "reduce_scatter": "_reduce_scatter_base",
    "all_reduce": "allreduce",
    "all_to_all": "all_to_all",
    "send": "send",
    "recv": "recv",
}
KERNELS: Final[Mapping[Meaning, str]] = {  # as NCCL calls them
    "all_gather": "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "reduce_scatter": "ncclDevKernel_ReduceScatter_Sum_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "all_reduce": "ncclDevKernel_AllReduce_Sum_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "all_to_all": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "send": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "recv": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
}
NCCL_KERNELS: Final = "nccl"  # prefix of the names of its kernels, and of RCCL's
NCCL_CALLS: Final = "nccl:"  # prefix of the host's annotations of calls, and of RCCL's
DEVICE_BACKENDS: Final = ("nccl", "rccl")  # of process groups whose tensors are in a device's memory
HOST_BACKENDS: Final = ("gloo", "mpi")  # of process groups whose tensors may be in the host's memory
GLOO: Final = "gloo:"  # prefix of the events of gloo's threads
HOST_CALL: Final = "c10d::"  # prefix of the ops of torch.distributed that make calls
HOST_WAIT: Final = "_c10d_functional::wait_tensor"
HOST_CALLS: Final[Mapping[str, tuple[str, str]]] = {  # op → the call as NCCL names it, the event of gloo's thread
    "c10d::allreduce_": ("allreduce", "gloo:all_reduce"),
    "c10d::allreduce_coalesced_": ("allreduce_coalesced", "gloo:all_reduce"),
    "c10d::allgather_": ("allgather", "gloo:all_gather"),
    "c10d::_allgather_base_": ("_allgather_base", "gloo:all_gather"),
    "c10d::allgather_into_tensor_coalesced_": ("allgather_into_tensor_coalesced", "gloo:all_gather"),
    "c10d::_reduce_scatter_base_": ("_reduce_scatter_base", "gloo:all_reduce"),
    "c10d::alltoall_": ("all_to_all", "gloo:all_to_all"),
    "c10d::alltoall_base_": ("alltoall_base", "gloo:all_to_all"),
    "c10d::broadcast_": ("broadcast", "gloo:broadcast"),
    "c10d::reduce_": ("reduce", "gloo:reduce"),
    "c10d::barrier": (BARRIER, "gloo:barrier"),
}
DTYPES: Final[Mapping[str, int]] = {  # c10::ScalarType → bytes
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e5m2", "Float8_e4m3fn", "Float8_e5m2fnuz", "Float8_e4m3fnuz"), 1),
    **dict.fromkeys(("Short", "Half", "BFloat16"), 2),
    **dict.fromkeys(("Int", "Float"), 4),
    **dict.fromkeys(("Long", "Double"), 8),
}
CPP_TYPES: Final[Mapping[str, str]] = {  # types of operands, as C++ names them → c10::ScalarType
    **{"unsigned char": "Byte", "signed char": "Char", "bool": "Bool", "short": "Short", "int": "Int"},
    **{"long int": "Long", "long": "Long", "float": "Float", "double": "Double"},
    **{"c10::Half": "Half", "c10::BFloat16": "BFloat16"},
}
WRITTEN_DTYPES: Final[Mapping[str, str]] = {  # of plain numbers, by their names here
    **{"fp64": "Double", "fp32": "Float", "fp16": "Half", "bf16": "BFloat16", "int64": "Long", "uint8": "Byte"},
}
