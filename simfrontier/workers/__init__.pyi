from .lost import SchedulerLostError as SchedulerLostError, WorkerLostError as WorkerLostError
from .per_process import PerProcess as PerProcess
from .place import Local as Local, Place as Place
from .workers import Workers as Workers
