"""The first process inside the private namespaces: lays the fabric out and runs the ranks; all ends with it.

Started by launch.py as `python -m simfrontier_extras.emulation.real.inside PIPE WIRING COMMAND...`; PIPE is the number
of an open file whose other end the launcher holds.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from simfrontier.errors import SimfrontierError
from simfrontier_extras.emulation.real.build import build
from simfrontier_extras.emulation.real.counters import serve
from simfrontier_extras.emulation.real.layout import lay_out, load_layable
from simfrontier_extras.emulation.real.ranks import start
from simfrontier_real.rank_process import watch

STOPPED = 143


def end_with_launcher(pipe: int) -> None:
    """Leave as soon as the launcher lets go of the pipe, however it ended: the kernel then ends what is left inside."""

    def wait() -> None:
        os.read(pipe, 1)
        os._exit(STOPPED)

    threading.Thread(target=wait, daemon=True).start()


def main(arguments: list[str]) -> int:
    """Run; the exit code of the ranks."""
    pipe, path, *command = arguments
    os.set_inheritable(int(pipe), False)
    end_with_launcher(int(pipe))
    try:
        wiring = load_layable(Path(path))
        fabric = build(lay_out(wiring))
        serve(fabric, tuple(cable.name for cable in wiring.cables))
        return watch(start(fabric, Path(path), command))
    except SimfrontierError as error:
        sys.stderr.write(f"simfrontier-real: {error}\n")
        return error.exit_code


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads still wait
