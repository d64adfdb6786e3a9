"""The entry point of the command line."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run a verb: whatever comes up ends in one line and an exit code, never in a traceback."""
    gc.disable()  # a verb makes few cycles and ends soon; collecting would take a tenth to a quarter of its time
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # or it reads the metadata of all that is installed
    from simfrontier.cli.typer_app import app_of
    from simfrontier.ending import run_to_end

    named = next((word for word in sys.argv[1:] if not word.startswith("-")), None)
    run_to_end("simfrontier", app_of(named))
