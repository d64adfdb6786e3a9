"""Real runs from a notebook: simfrontier-real commands in separate processes, and their results."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from simfrontier.base.errors import InputError, SimfrontierError


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedSchedule:
    """Result of training by a schedule: whether it agrees with the unsharded model as far as number types and codecs
    allow, the report as text, and all numbers (from `simfrontier-real train --json`)."""

    equal: bool
    words: str
    numbers: list[dict[str, Any]]

    def __repr__(self) -> str:
        return self.words


def train(schedule: str | Path, *, ranks: int, steps: int = 20, options: Sequence[str] = ()) -> TrainedSchedule:
    """Train a small real model by a schedule file on `ranks` gloo processes on this machine, and compare gradients,
    losses and weights of every step with the unsharded model. `options`: further command-line arguments of
    `simfrontier-real train`.

    Raises InputError or SimfrontierError with the one-line message of the command if training fails.
    """
    with TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, "-m", "simfrontier_real", "train", str(schedule), "--ranks", str(ranks)]
        command += ["--steps", str(steps), "--json", str(result), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not result.is_file():
            line = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[0]
            error = InputError if done.returncode == InputError.exit_code else SimfrontierError
            raise error(line.removeprefix("simfrontier-real: "))
        numbers = json.loads(result.read_text(encoding="utf-8"))
    return TrainedSchedule(equal=done.returncode == 0, words=done.stdout.strip(), numbers=numbers)
