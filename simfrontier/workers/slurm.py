"""Workers in jobs of Slurm, by dask-jobqueue."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from simfrontier.errors import InputError, SimfrontierError
from simfrontier.workers.local_cluster import ENVIRONMENT, PRELOAD, ctrl_c_is_left_to_this_thread
from simfrontier.workers.slurm_settings import SlurmSettings

REPLACED_S: Final = "5s"  # how often jobs that have ended are looked for, and how long a lost worker may be away
DEATH_S: Final = 60  # a worker that does not reach the scheduler that long ends its job


class SlurmJobsError(SimfrontierError):
    """Slurm gave no workers."""


class SlurmWorkers:
    """Jobs asked for, and a scheduler in a thread of this process. A job that ends is asked for anew."""

    def __init__(self, settings: SlurmSettings, say: Callable[[str], None]) -> None:
        import distributed

        try:
            from dask_jobqueue.slurm import SLURMCluster
        except ImportError:
            raise InputError(
                "needs the package dask-jobqueue; allowed: pip install 'simfrontier[sweep]'", where="--slurm"
            ) from None
        if shutil.which("sbatch") is None:
            raise InputError(
                "there is no sbatch here; allowed: on a machine with Slurm, or --scheduler, --jobs", where="--slurm"
            )
        dask: Any = distributed
        self.cluster: Any = None
        self.client: Any = None
        self._settings = settings
        with tempfile.TemporaryDirectory(prefix="simfrontier-") as scratch:
            try:
                with ctrl_c_is_left_to_this_thread():
                    self.cluster = SLURMCluster(**arguments(settings, scratch))
                    self.client = dask.Client(self.cluster, set_as_default=False)
                self.cluster.adapt(
                    minimum_jobs=settings.jobs, maximum_jobs=settings.jobs, interval=REPLACED_S, wait_count=10**9
                )
                self._wait(say)
            except BaseException:
                self.close()
                raise

    @property
    def dashboard(self) -> str:
        return str(self.cluster.dashboard_link)

    def close(self) -> None:
        """Cancel all jobs."""
        with suppress(Exception):
            if self.client is not None:
                self.client.close(timeout=2)
        with suppress(Exception):
            if self.cluster is not None:
                self.cluster.close(timeout=60)

    def _wait(self, say: Callable[[str], None]) -> None:
        """Until the first worker is there. Raises SlurmJobsError."""
        settings = self._settings
        jobs = f"{settings.jobs} job{'s' if settings.jobs > 1 else ''} of Slurm"
        say(f"waiting for the first worker of {jobs} ({settings.title}), up to {settings.wait_s:g} s")
        deadline = time.monotonic() + settings.wait_s
        while not self.client.nthreads():
            failed = self._failure()
            if failed:
                raise SlurmJobsError(f"Slurm took no job: {failed}")
            if time.monotonic() > deadline:
                raise SlurmJobsError(
                    f"no worker of {jobs} within {settings.wait_s:g} s; allowed: a larger wait_s, or fewer or shorter "
                    "jobs (`squeue --me` says why they wait)"
                )
            time.sleep(0.2)

    def _failure(self) -> str:
        """What `sbatch` said, where it refused."""
        task = self.cluster._correct_state_waiting
        error = task.exception() if task is not None and task.done() and not task.cancelled() else None
        return "" if error is None else str(error)


def arguments(settings: SlurmSettings, scratch: str) -> dict[str, Any]:
    """Of SLURMCluster."""
    options = {"--qos": settings.qos, "--constraint": settings.constraint, "--reservation": settings.reservation}
    directives = [f"{option}={value}" for option, value in options.items() if value]
    if not settings.logs:
        directives.append("--output=/dev/null")
    scheduler: dict[str, Any] = {"port": settings.port, "dashboard_address": ":0"}
    if settings.host:
        scheduler["host"] = settings.host
    elif settings.interface:
        scheduler["interface"] = settings.interface
    exports = [f"export {name}={value}" for name, value in ENVIRONMENT.items()]
    return {
        "name": "simfrontier",
        "job_name": "simfrontier",
        "queue": settings.partition or None,
        "account": settings.account,
        "walltime": settings.time_limit,
        "cores": settings.processes,  # one thread each
        "job_cpu": settings.cores,
        "processes": settings.processes,
        "memory": settings.memory,
        "interface": settings.interface or None,
        "scheduler_options": scheduler,
        "job_extra_directives": [*directives, *settings.directives],
        "job_directives_skip": list(settings.skip),
        "job_script_prologue": [*exports, *settings.prologue],
        "local_directory": settings.scratch or "/tmp",
        "log_directory": settings.logs or None,
        "python": settings.python or sys.executable,
        "death_timeout": DEATH_S,
        "worker_extra_args": ["--no-dashboard", *(word for each in PRELOAD for word in ("--preload", each))],
        "silence_logs": False,
        "shared_temp_directory": scratch,
    }
