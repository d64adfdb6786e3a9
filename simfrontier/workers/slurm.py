"""Workers in jobs of Slurm, by dask-jobqueue."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from simfrontier.errors import InputError
from simfrontier.workers.local_cluster import ENVIRONMENT, PRELOAD, ctrl_c_is_left_to_this_thread, scheduler_extensions
from simfrontier.workers.slurm_jobs import KeptJobs
from simfrontier.workers.slurm_settings import SlurmSettings

DEATH_S: Final = 60  # a worker that does not reach the scheduler that long ends its job


class SlurmWorkers:
    """Jobs asked for, and a scheduler in a thread of this process. A job that ends is asked for anew. Raises
    InputError where `sbatch` refuses the first, and JobsLostError where no worker comes in time."""

    def __init__(self, settings: SlurmSettings, say: Callable[[str], None]) -> None:
        import distributed

        try:
            with ctrl_c_is_left_to_this_thread():  # for which dask-jobqueue, imported, ends a process with exit code 0
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
        self._kept: Future[None] | None = None
        with tempfile.TemporaryDirectory(prefix="simfrontier-") as scratch:
            try:
                with ctrl_c_is_left_to_this_thread():
                    self.cluster = SLURMCluster(**arguments(settings, scratch))
                    self.jobs = KeptJobs(self.cluster, settings, say)
                    self.client = dask.Client(self.cluster, set_as_default=False)
                if refused := self.cluster.sync(self.jobs.ask):
                    raise InputError(
                        f"sbatch refused the first job ({settings.title}): {refused}; allowed: settings that this "
                        "Slurm takes",
                        where="--slurm",
                    )
                say(
                    f"waiting for the first worker of {settings.jobs_words} ({settings.title}), up to "
                    f"{settings.wait_s:g} s"
                )
                with ctrl_c_is_left_to_this_thread():
                    self._kept = asyncio.run_coroutine_threadsafe(self.jobs.keep(), self.client.loop.asyncio_loop)
                self._wait()
            except BaseException:
                self.close()
                raise

    @property
    def dashboard(self) -> str:
        return str(self.cluster.dashboard_link)

    def close(self) -> None:
        """Cancel all jobs."""
        if self.cluster is not None:
            self.jobs.close()
        if self._kept is not None:
            self._kept.cancel()
        with suppress(Exception):
            if self.client is not None:
                self.client.close(timeout=2)
        with suppress(Exception):
            if self.cluster is not None:
                self.cluster.close(timeout=60)

    def _wait(self) -> None:
        """Until the first worker is there. Raises JobsLostError."""
        while not self.client.nthreads():
            if self.jobs.error is not None:
                raise self.jobs.error
            time.sleep(0.2)


def arguments(settings: SlurmSettings, scratch: str) -> dict[str, Any]:
    """Of SLURMCluster."""
    options = {"--qos": settings.qos, "--constraint": settings.constraint, "--reservation": settings.reservation}
    directives = [f"{option}={value}" for option, value in options.items() if value]
    if not settings.logs:
        directives.append("--output=/dev/null")
    scheduler: dict[str, Any] = {
        "port": settings.port,
        "dashboard_address": ":0",
        "extensions": scheduler_extensions(),
    }
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
