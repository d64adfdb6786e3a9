"""A command of `simfrontier-real` ends with its exit code, whatever threads still do inside torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

AT_THE_STORE = """
import threading
from datetime import timedelta
from simfrontier_real import cli

def command():
    from torch._C._distributed_c10d import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=20))

    def count():
        while True:
            store.add("alive", 1)

    for _ in range(4):
        threading.Thread(target=count, daemon=True).start()
    print("said")
    raise SystemExit({code})

cli.app = command
cli.main()
"""


@pytest.mark.parametrize("code", [0, pytest.param(2, marks=pytest.mark.long)])
def test_threads_at_the_store_do_not_change_the_exit_code(code: int) -> None:
    """The interpreter ends threads that come back from C++ by unwinding it, which aborts the process."""
    done = subprocess.run(
        [sys.executable, "-c", AT_THE_STORE.format(code=code)], capture_output=True, text=True, timeout=60.0
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "said\n", "")
