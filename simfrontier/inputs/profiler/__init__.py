"""Traces of PyTorch's profiler (Kineto): reading of traces, simulated or measured, as jobs that can be simulated
again."""

from simfrontier.inputs.profiler.changed_job import (
    Platform as Platform,
    difference as difference,
    on_ranks as on_ranks,
    otherwise as otherwise,
    platform_of as platform_of,
    with_gathers_in_nodes as with_gathers_in_nodes,
    with_kernels as with_kernels,
)
from simfrontier.inputs.profiler.job import Job as Job, read_job as read_job
