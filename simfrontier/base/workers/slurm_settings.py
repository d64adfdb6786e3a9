"""How a cluster's Slurm is asked for workers: a TOML file of the user's, or one of the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from annotated_types import Ge, Gt, Le

from simfrontier.base.errors import InputError
from simfrontier.base.io import Line, on_base, read_toml, typed
from simfrontier.base.units import counted

CATALOG: Final = Path(__file__).parent / "catalog"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """What each job is, and how many of them: `jobs` jobs of one node each, with `processes` workers that share `cores`
    and `memory`. Empty texts are left to Slurm's own default.

    `account`: the project to charge. `time_limit`: of a job, as `sbatch --time` has it; `wait_s`: until the first
    worker is there. `interface`: the network by which workers and scheduler reach each other. `directives`: further
    `#SBATCH` lines, without that word; `skip`: words by which lines of dask-jobqueue are left out; `prologue`: commands
    before the workers start; `scratch`: a folder on the node's own disk."""

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
        """Of all jobs together."""
        return self.jobs * self.processes

    @property
    def jobs_words(self) -> str:
        """How many jobs, in words."""
        return counted(self.jobs, "job of Slurm", "jobs of Slurm")


def load_slurm(name_or_path: str) -> SlurmSettings:
    """Return the settings of that name in the catalog, or of the TOML file at that path (anything with a "/" or
    ".toml"), which may have a file of the catalog as its `base`. Raises InputError."""
    names = sorted(path.stem for path in CATALOG.glob("*.toml"))
    if "/" in name_or_path or name_or_path.endswith(".toml"):
        document, where = read_toml(Path(name_or_path), "file of Slurm settings"), name_or_path
    else:
        document, where = {"base": name_or_path}, "--slurm"
    try:
        return typed(on_base(document, CATALOG, names, "cluster"), SlurmSettings)
    except InputError as error:
        raise error.within(where) from None
