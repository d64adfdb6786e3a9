from .lost import SchedulerLostError as SchedulerLostError, WorkerLostError as WorkerLostError
from .per_process import PerProcess as PerProcess
from .place import Local as Local, Place as Place, RunningScheduler as RunningScheduler, SlurmJobs as SlurmJobs
from .slurm_settings import load_slurm as load_slurm
from .workers import Workers as Workers
