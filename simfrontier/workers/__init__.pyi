from .lost import SchedulerLostError as SchedulerLostError, WorkerLostError as WorkerLostError
from .place import Local as Local, Place as Place
from .workers import Workers as Workers
