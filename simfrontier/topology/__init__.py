"""Topologies in and out: a node's XML, as NCCL and RCCL write and read it, as a machine file, and of a machine; what
Slurm's files of switches say."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
