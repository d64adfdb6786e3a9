"""How a cluster's Slurm is asked for workers: a TOML file of the user's, or one of the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

from annotated_types import Ge, Gt, Le, MaxLen

from simfrontier.errors import InputError, nearest
from simfrontier.io import Line, read_toml, typed
from simfrontier.records import dataclass

CATALOG: Final = Path(__file__).parent / "catalog"
MOST_JOBS: Final = 10_000  # more than there are nodes on Frontier
MOST_LINES: Final = 100
USERS_OWN: Final = ("account",)  # of files of the catalog: what nobody else can know


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """What each job is, and how many of them: `jobs` jobs of one node each, with `processes` workers that share `cores`
    and `memory`. Empty texts are left to Slurm's own default.

    `time_limit`: of a job, as `sbatch --time` has it; `wait_s`: until the first worker is there. `interface`: the
    network by which workers and scheduler reach each other; `host` and `port`: where the scheduler listens, on the
    machine that the command runs on. `directives`: further `#SBATCH` lines, without that word; `skip`: words by which
    lines of dask-jobqueue are left out; `prologue`: commands before the workers start; `scratch`: a folder on the
    node's own disk; `logs`: a folder for what jobs print, nowhere if it is empty."""

    title: Line
    source: Line
    account: str = ""
    partition: str = ""
    qos: str = ""
    constraint: str = ""
    reservation: str = ""
    time_limit: Line
    wait_s: Annotated[float, Gt(0), Le(1e7)] = 3600.0
    jobs: Annotated[int, Ge(1), Le(MOST_JOBS)] = 1
    processes: Annotated[int, Ge(1), Le(1024)]
    cores: Annotated[int, Ge(1), Le(1024)]
    memory: Line
    interface: str = ""
    host: str = ""
    port: Annotated[int, Ge(0), Le(65_535)] = 0
    directives: Annotated[tuple[Line, ...], MaxLen(MOST_LINES)] = ()
    skip: Annotated[tuple[Line, ...], MaxLen(MOST_LINES)] = ()
    prologue: Annotated[tuple[Line, ...], MaxLen(MOST_LINES)] = ()
    scratch: str = ""
    logs: str = ""
    python: str = ""

    @property
    def num_workers(self) -> int:
        """Of all jobs together."""
        return self.jobs * self.processes

    @property
    def jobs_words(self) -> str:
        """How many jobs, in words."""
        return f"{self.jobs} job{'s' if self.jobs > 1 else ''} of Slurm"


def names_of_clusters() -> tuple[str, ...]:
    """Names of the catalog."""
    return tuple(sorted(path.stem for path in CATALOG.glob("*.toml")))


def load_slurm(name_or_path: str) -> SlurmSettings:
    """The settings of that name in the catalog, or of the TOML file at that path (anything with a "/" or ".toml"). A
    file may begin with `base = "NAME"`: its keys are set over those of that file of the catalog. Raises InputError."""
    if "/" in name_or_path or name_or_path.endswith(".toml"):
        where = name_or_path
        document = read_toml(Path(name_or_path), "file of Slurm settings")
    else:
        document, where = _of_catalog(name_or_path, "--slurm")
    base = document.pop("base", None)
    if base is not None:
        if not isinstance(base, str):
            raise InputError(f"got {base!r}, allowed: a name of the catalog", where=where, key=("base",))
        document = _of_catalog(base, where)[0] | document
    settings = typed(document, SlurmSettings, where)
    _check(settings, where)
    return settings


def _of_catalog(name: str, where: str) -> tuple[dict[str, Any], str]:
    names = names_of_clusters()
    if name not in names:
        raise InputError(
            f'cluster "{name}" is not in the catalog; {nearest(name, names)} (a file of your own: give its path, '
            "ending in .toml)",
            where=where,
        )
    path = CATALOG / f"{name}.toml"
    return read_toml(path, "file of Slurm settings"), path.name


def _check(settings: SlurmSettings, where: str) -> None:
    from simfrontier.units import bytes_of

    for key in USERS_OWN:
        if not getattr(settings, key):
            raise InputError(
                f'missing; allowed: the project to charge, in a file of your own with base = "frontier" (or another '
                f'of the catalog) and {key} = "..."',
                where=where,
                key=(key,),
            )
    try:
        bytes_of(settings.memory)
    except ValueError:
        raise InputError(
            f"got {settings.memory!r}, allowed: a number of bytes, e.g. 200GiB", where=where, key=("memory",)
        ) from None
    if settings.processes > settings.cores:
        raise InputError(
            f"got {settings.processes}, allowed: up to {settings.cores}, the job's cores",
            where=where,
            key=("processes",),
        )
