"""How long searches of AxoNN's grids take (`make bench`)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.bench import line, measure, median

SCENARIOS = Path(__file__).resolve().parents[1] / "scenarios"
GRIDS = str(SCENARIOS / "axonn-perlmutter-80b.toml")
WEAK = str(SCENARIOS / "axonn-frontier-weak-scaling.toml")


def _run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        rest = ["--no-sensitivity", "--no-page", "--out", folder]
        for plan, count in (("megatron", 24), ("axonn", 8)):
            what = f"80B, 1,024 A100: {plan}, best of {count} candidates"
            line(what, median(["run", GRIDS, *rest, "--plans", plan], runs=3), "")
        line("tune: 230 grids by AxoNN's model", median(["tune", GRIDS, "--fidelity", "axonn-a"], runs=3), "")
        searched = measure(["tune", GRIDS, "--jobs", "1", "--fresh", "--out", folder])
        line("weak scaling to 32,768 GCDs with its variations", measure(["run", WEAK, "--out", folder]), "90 s")
        line("tune: 80B, 1,024 A100, one process", searched, "120 s of wall time on two cores")
    sys.stdout.write("\n")


ADDS = (_run,)
