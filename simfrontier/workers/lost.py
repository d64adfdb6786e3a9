"""Errors of work that cannot go on because a process of it is gone."""

from __future__ import annotations

from simfrontier.errors import SimfrontierError


class LostError(SimfrontierError):
    """Whoever did calls, or handed them out, is gone; what was done by then stays."""


class WorkerLostError(LostError):
    """A worker process was ended from outside, and so were those that did its call after it."""


class SchedulerLostError(LostError):
    """The scheduler that handed calls to workers is gone."""


class JobsLostError(LostError):
    """There is no worker in a job of Slurm, and none is to be expected."""
