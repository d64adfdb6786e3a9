from .per_process import PerProcess as PerProcess
from .place import Local as Local, Place as Place
from .workers import WorkerLostError as WorkerLostError, Workers as Workers
