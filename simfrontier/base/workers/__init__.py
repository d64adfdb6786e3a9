"""Parallel function calls on worker processes, on this machine or, by Dask, on others."""

from simfrontier.base.workers.local import LostError as LostError
from simfrontier.base.workers.place import (
    HERE as HERE,
    PROCESSES as PROCESSES,
    Local as Local,
    Place as Place,
    RunningScheduler as RunningScheduler,
    SlurmJobs as SlurmJobs,
    for_calls as for_calls,
    load_slurm as load_slurm,
)
from simfrontier.base.workers.workers import PerProcess as PerProcess, Workers as Workers
