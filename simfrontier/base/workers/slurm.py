"""Workers in Slurm jobs, by dask-jobqueue."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Event, Thread
from typing import Any, Final

from simfrontier.base.errors import InputError
from simfrontier.base.workers.place import SlurmSettings
from simfrontier.base.workers.preload import ENVIRONMENT, PRELOAD
from simfrontier.base.workers.process import without_stops

LOOK_S: Final = 5.0  # between two looks at which jobs have workers
LOST_S: Final = 60.0  # a job whose workers have been away for so long is asked for anew
DEATH_S: Final = 60  # a worker that does not reach the scheduler for so long ends
OPTION: Final = "--slurm"
Say = Callable[[str], None]


@contextmanager
def slurm_cluster(settings: SlurmSettings, say: Say, give_up: Callable[[str], None]) -> Iterator[Any]:
    """Context manager: a Dask cluster of Slurm jobs, which are cancelled at the end; the scheduler is a thread of this
    process. A job that ends is replaced by a new one. `give_up` is called with the reason after `settings.wait_s`
    seconds without any worker. Raises InputError if `sbatch` refuses such jobs."""
    with without_stops():
        from dask_jobqueue.slurm import SLURMCluster
    with ExitStack() as opened:
        scratch = opened.enter_context(tempfile.TemporaryDirectory(prefix="simfrontier-"))
        with without_stops():
            cluster: Any = SLURMCluster(**_arguments(settings), shared_temp_directory=scratch)
            opened.callback(_close, cluster)
        _try(cluster.job_script(), settings)
        cluster.scale(jobs=settings.jobs)
        say(f"waiting for the first worker of {settings.jobs_words} ({settings.title}), up to {settings.wait_s:g} s")
        ended = Event()
        opened.callback(ended.set)
        with without_stops():
            Thread(target=_keep, args=(cluster, settings, say, give_up, ended), daemon=True).start()
        yield cluster


def _close(cluster: Any) -> None:
    with suppress(Exception):
        cluster.close(timeout=60)


def _arguments(settings: SlurmSettings) -> dict[str, Any]:
    """Return the arguments of dask-jobqueue's SLURMCluster."""
    options = {"--qos": settings.qos, "--constraint": settings.constraint}
    return {
        "job_name": "simfrontier",
        "queue": settings.partition or None,
        "account": settings.account,
        "walltime": settings.time_limit,
        "cores": settings.processes,  # one thread each
        "job_cpu": settings.cores,
        "processes": settings.processes,
        "memory": settings.memory,
        "interface": settings.interface or None,
        "scheduler_options": {"dashboard_address": ":0"},
        "job_extra_directives": [
            *(f"{option}={value}" for option, value in options.items() if value),
            "--output=/dev/null",
            *settings.directives,
        ],
        "job_directives_skip": list(settings.skip),
        "job_script_prologue": [*(f"export {name}={value}" for name, value in ENVIRONMENT.items()), *settings.prologue],
        "local_directory": settings.scratch or "/tmp",
        "log_directory": None,
        "python": sys.executable,
        "death_timeout": DEATH_S,
        "worker_extra_args": ["--no-dashboard", "--preload", PRELOAD],
        "silence_logs": False,
    }


def _try(script: str, settings: SlurmSettings) -> None:
    """Raise InputError with the message of `sbatch` if it refuses the script of a job."""
    try:
        tried = subprocess.run(["sbatch", "--test-only"], input=script, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        allowed = "on a machine with Slurm, or --scheduler, --jobs"
        raise InputError(f"there is no sbatch here; allowed: {allowed}", where=OPTION) from None
    if tried.returncode:
        said = "; ".join(tried.stderr.split("\n")).strip("; ")
        raise InputError(f"sbatch refuses the job ({settings.title}): {said}", where=OPTION)


def _keep(cluster: Any, settings: SlurmSettings, say: Say, give_up: Callable[[str], None], ended: Event) -> None:
    """Submit a replacement for each job that has lost its workers, and call `give_up` once there has been no worker for
    too long."""
    last = time.monotonic()
    seen: dict[str, float] = {}  # when each job was last seen to have workers
    lost = set[str]()
    while not ended.wait(LOOK_S):
        now = time.monotonic()
        there = {str(worker["name"]) for worker in cluster.scheduler_info["workers"].values()}
        for job in tuple(cluster.worker_spec):
            if any(name == str(job) or name.startswith(f"{job}-") for name in there):
                seen[job] = last = now
            elif job not in lost and now - seen.get(job, now) > LOST_S:
                lost.add(job)
                say("a job of Slurm has ended; another one is asked for")
                cluster.scale(jobs=settings.jobs + len(lost))
        if now - last > settings.wait_s:
            give_up(
                f"no worker of {settings.jobs_words} within {settings.wait_s:g} s; allowed: a larger wait_s, or fewer "
                "or shorter jobs (`squeue --me` says why they wait)"
            )
            return
