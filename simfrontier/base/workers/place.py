"""Where function calls run: processes on this machine, a running scheduler, or Slurm jobs with the settings of a TOML
file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

from annotated_types import Ge, Gt, Le

from simfrontier.base.errors import InputError, located, wrong
from simfrontier.base.io import Line, on_base, read_toml, typed
from simfrontier.base.limits import Limit
from simfrontier.base.units import counted

CATALOG: Final = Path(__file__).parent / "catalog"
PROCESSES: Final = Limit(
    most=1024, what="processes"
)  # 45 MB of its own each, before its first call; nodes have up to some hundred cores


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """Settings of Slurm jobs: `jobs` jobs of one node each, with `processes` workers that share `cores` and `memory`.
    Empty settings mean Slurm's own defaults.

    `account`: the project to charge. `time_limit`: time limit of a job, as for `sbatch --time`; `wait_s`: seconds to
    wait for the first worker. `interface`: network interface between workers and scheduler. `directives`: further
    `#SBATCH` lines, without that word; `skip`: dask-jobqueue's directive lines that contain one of these words are
    omitted; `prologue`: commands before the workers start; `scratch`: a folder on the node's own disk.
    """

    title: Line
    source: Line
    account: Line
    partition: str = ""
    qos: str = ""
    constraint: str = ""
    time_limit: Line
    wait_s: Annotated[float, Gt(0), Le(1e7)] = 3600.0
    jobs: Annotated[int, Ge(1), Le(10_000)] = 1
    processes: Annotated[int, Ge(1), Le(1024)]
    cores: Annotated[int, Ge(1), Le(1024)]
    memory: Line
    interface: str = ""
    directives: tuple[Line, ...] = ()
    skip: tuple[Line, ...] = ()
    prologue: tuple[Line, ...] = ()
    scratch: str = ""

    @property
    def num_workers(self) -> int:
        """Total number of workers of all jobs."""
        return self.jobs * self.processes

    @property
    def jobs_words(self) -> str:
        """Number of jobs, as text."""
        return counted(self.jobs, "job of Slurm", "jobs of Slurm")


def load_slurm(path: str) -> SlurmSettings:
    """Return the Slurm settings of a TOML file, which may have a file of the catalog as its `base`. Raises InputError,
    also for the name of a file of the catalog, which has no account."""
    names = sorted(file.stem for file in CATALOG.glob("*.toml"))
    if "/" not in path and not path.endswith(".toml"):
        allowed = f'a TOML file with your account, and base = "{names[0]}" (or {", ".join(names[1:])})'
        raise InputError(wrong(path, allowed), where="--slurm")
    document = read_toml(Path(path), "file of Slurm settings")
    with located(path):
        return typed(on_base(document, CATALOG, names, "cluster"), SlurmSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """`jobs` worker processes on this machine, each running one call at a time. With one job, this process runs all
    calls itself, unless `apart` requires a separate process. `dashboard`: start them by Dask and serve its dashboard
    (127.0.0.1)."""

    jobs: int = 1
    apart: bool = False
    dashboard: bool = False

    @property
    def is_here(self) -> bool:
        """True if this process runs the calls itself."""
        return self.jobs == 1 and not self.apart and not self.dashboard


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningScheduler:
    """Workers of a scheduler that is already running, at the address that `dask scheduler` prints."""

    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJobs:
    """Workers in Slurm jobs, which are submitted when the workers start and cancelled at the end."""

    settings: SlurmSettings


Place = Local | RunningScheduler | SlurmJobs
HERE: Final = Local()  # this process


def for_calls(place: Place, number: int) -> Place:
    """Return the place for a given number of calls: at most as many local processes as calls, and only this process if
    there are no calls."""
    if number == 0:
        return HERE
    return replace(place, jobs=min(place.jobs, number)) if isinstance(place, Local) else place
