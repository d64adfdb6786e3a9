"""The first process inside the private namespaces: builds the fabric and runs the ranks; all ends with it.

Started by launch.py as `python -m simfrontier_extras.emulation.real.inside WIRING COMMAND...`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from simfrontier.base.errors import SimfrontierError
from simfrontier_extras.emulation.real.layout import lay_out
from simfrontier_extras.emulation.real.namespaces import build
from simfrontier_extras.emulation.real.ranks import start
from simfrontier_extras.emulation.wiring import load_wiring
from simfrontier_real.ranks.launch import watch


def main(path: Path, command: list[str]) -> int:
    """Run the command as every rank; return the exit code of the ranks."""
    try:
        layout = lay_out(load_wiring(path))
        build(layout)
        return watch(start(layout, path, command))
    except SimfrontierError as error:
        sys.stderr.write(f"simfrontier-real: {error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
