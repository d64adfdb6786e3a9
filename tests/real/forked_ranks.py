"""Many ranks out of one process: `python -m tests.real.forked_ranks N ARGUMENT…` forks N ranks once torch is imported,
which sixteen processes of their own would do one by one for half a minute. Ends with 0 if all do."""

from __future__ import annotations

import os
import sys
from importlib import import_module


def main(size: int, arguments: list[str]) -> int:
    """Run `simfrontier-real ARGUMENTS` as so many ranks; environment but RANK as it is."""
    import_module("torch.distributed")

    children = []
    for rank in range(size):
        child = os.fork()
        if child == 0:
            _run(rank, size, arguments)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return next((abs(code) for code in codes if code), 0)


def _run(rank: int, size: int, arguments: list[str]) -> None:
    """Be one rank, to the end."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size))
    sys.argv = ["simfrontier-real", *arguments]
    from simfrontier_real.cli import main as run

    code = 1
    try:
        run()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
