"""Errors of work that cannot go on because a process of it is gone."""

from __future__ import annotations

from simfrontier.errors import SimfrontierError


class WorkerLostError(SimfrontierError):
    """A worker process was ended from outside, and so were those that did its call after it."""


class SchedulerLostError(SimfrontierError):
    """The scheduler that handed calls to workers is gone."""
