from .per_process import PerProcess as PerProcess
from .place import (
    HERE as HERE,
    PROCESSES as PROCESSES,
    Local as Local,
    Place as Place,
    RunningScheduler as RunningScheduler,
    SlurmJobs as SlurmJobs,
    for_calls as for_calls,
)
from .slurm_settings import load_slurm as load_slurm
from .workers import LostError as LostError, Workers as Workers
