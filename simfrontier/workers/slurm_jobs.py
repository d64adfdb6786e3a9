"""Jobs of Slurm that are asked for, looked after, and asked for anew where they end."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any, Final

from simfrontier.workers.lost import JobsLostError, LostError
from simfrontier.workers.slurm_settings import SlurmSettings

LOOK_S: Final = 5.0  # between two looks at which jobs have workers
LOST_S: Final = 60.0  # a job that had workers and has had none for so long is given up: processes may start anew in it


class KeptJobs:
    """The jobs of a cluster of dask-jobqueue, which by itself replaces none that has several workers. Its methods run
    in the loop of that cluster. `fail` hears when there is no worker and none is to be expected."""

    def __init__(self, cluster: Any, settings: SlurmSettings, say: Callable[[str], None]) -> None:
        self.cluster, self._settings, self._say = cluster, settings, say
        self.error: LostError | None = None
        self.fail: Callable[[LostError], None] = lambda _: None
        self._wanted = settings.jobs
        self.seen: dict[str, float] = {}  # when each job that has had workers was last seen to have them
        self._last = time.monotonic()  # when any job was

    async def keep(self) -> None:
        """Ask for all jobs and replace those that end, until this is cancelled."""
        while True:
            await self._look()
            await asyncio.sleep(LOOK_S)

    async def ask(self) -> str:
        """Ask for one job more; what `sbatch` said, where it refused."""
        new = self.cluster.new_worker_spec()
        self.cluster.worker_spec.update(new)
        try:
            await self._correct()
        except (RuntimeError, ValueError, OSError) as error:
            for name in new:
                await self._drop(name)
            return said_by_sbatch(error)
        return ""

    async def _look(self) -> None:
        now, there = time.monotonic(), {str(each.name) for each in self.cluster.scheduler.workers.values()}
        for name, spec in tuple(self.cluster.worker_spec.items()):
            if there & {name + suffix for suffix in spec.get("group", ("",))}:
                self.seen[name] = self._last = now
            elif now - self.seen.get(name, now) > LOST_S:
                del self.seen[name]
                await self._drop(name)
                self._say("a job of Slurm has ended; another one is asked for")
        while len(self.cluster.worker_spec) < self._wanted:
            if refused := await self.ask():
                self._go_on_without(refused)
        if now - self._last > self._settings.wait_s:
            self.error = self.error or JobsLostError(
                f"no worker of {self._settings.jobs_words} within {self._settings.wait_s:g} s; allowed: a larger "
                "wait_s, or fewer or shorter jobs (`squeue --me` says why they wait)"
            )
        if self.error is not None:
            self.fail(self.error)

    def _go_on_without(self, refused: str) -> None:
        """Go on with the jobs that there are, as `sbatch` takes no more."""
        self._wanted = len(self.cluster.worker_spec)
        if self._wanted:
            self._say(f"sbatch refused a job: {refused}; the work goes on in {self._wanted}")
        else:
            self.error = JobsLostError(f"no job of Slurm is left, and sbatch refused another one: {refused}")

    async def _drop(self, name: str) -> None:
        """Cancel a job that is of no use any more."""
        job = self.cluster.workers.get(name)
        self.cluster.worker_spec.pop(name, None)
        await self._correct()
        _close(job)

    async def _correct(self) -> None:
        """Let `sbatch` and `scancel` make the jobs those of `worker_spec`. Whoever stops waiting for it does not stop
        it: a job would be there of which nobody knows the number."""
        await asyncio.shield(self.cluster._correct_state())

    def close(self) -> None:
        """Ask for no job any more. To be called before the cluster is closed, which cancels those that there are."""
        self._wanted = 0
        for job in list(self.cluster.workers.values()):
            _close(job)


def _close(job: Any) -> None:
    """Say of a job that it is closed, as dask-jobqueue does not, and Dask looks for at the end."""
    from distributed import Status

    if job is not None:
        job.status = Status.closed


def said_by_sbatch(error: Exception) -> str:
    """What `sbatch` printed, as one line, out of the error that dask-jobqueue raises."""
    printed = re.split(r"stdout:\n|output is:\n", str(error), maxsplit=1)[-1].replace("stderr:\n", "")
    return "; ".join(line.strip() for line in printed.splitlines() if line.strip()) or "it said nothing"
