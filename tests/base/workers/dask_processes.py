"""A scheduler of Dask and its workers, as people start them: `dask scheduler` and `dask worker`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.invoke import ROOT

LIMIT_S = 120.0


def free_port() -> int:
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return int(each.getsockname()[1])


def scheduler_at(address: str) -> subprocess.Popen[bytes]:
    """A scheduler that answers."""
    port = address.rpartition(":")[2]
    options = ["--no-dashboard", "--dashboard-address", ":0", "--host", "127.0.0.1", "--port", port]
    process = _started("distributed.cli.dask_scheduler", *options)
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", int(port))).close()
            return process
        except OSError:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.1)


def worker_at(address: str, folder: Path) -> subprocess.Popen[bytes]:
    """A worker of one thread, which need not be there yet."""
    options = ["--nthreads", "1", "--no-dashboard", "--no-nanny", "--memory-limit", "0"]
    return _started("distributed.cli.dask_worker", address, *options, "--local-directory", str(folder))


def until_there(address: str, number: int) -> None:
    """Until a scheduler has so many workers."""
    program = f"import distributed; distributed.Client({address!r}).wait_for_workers({number}, timeout={LIMIT_S})"
    subprocess.run([sys.executable, "-c", program], check=True)


def _started(module: str, *arguments: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'real'}"}
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
