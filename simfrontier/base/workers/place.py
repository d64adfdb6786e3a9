"""Where calls are worked on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from simfrontier.base.limits import Limit
from simfrontier.base.workers.slurm_settings import SlurmSettings

PROCESSES: Final = Limit(
    most=1024, what="processes"
)  # 45 MB of its own each, before its first call; nodes have up to some hundred cores


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """`jobs` processes of this machine, each for one call at a time. With one of them this process does all calls
    itself, and Dask is not imported; `apart`: calls are left to another process even then. `dashboard`: Dask's pages
    are served at 127.0.0.1."""

    jobs: int = 1
    apart: bool = False
    dashboard: bool = False

    @property
    def is_here(self) -> bool:
        """Whether this process does the calls."""
        return self.jobs == 1 and not self.apart and not self.dashboard


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningScheduler:
    """Workers that others started, at the scheduler that `dask scheduler` prints the address of."""

    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJobs:
    """Workers in jobs that Slurm is asked for, and that are cancelled at the end."""

    settings: SlurmSettings


Place = Local | RunningScheduler | SlurmJobs
HERE: Final = Local()  # this process


def for_calls(place: Place, number: int) -> Place:
    """The place for so many calls: no more processes of this machine than these, and this one for none."""
    if number == 0:
        return HERE
    return replace(place, jobs=min(place.jobs, number)) if isinstance(place, Local) else place
