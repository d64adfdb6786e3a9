"""The line of `simfrontier doctor` on emulated fabrics."""

from __future__ import annotations

from simfrontier.base.extras import Check


def tried() -> tuple[str, bool, str]:
    """Return the result of trying to build a fabric; simfrontier-real tries it in temporary network namespaces."""
    import subprocess
    import sys

    command = [sys.executable, "-m", "simfrontier_real", "fabric-check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    missing = [line.removeprefix("missing: ") for line in done.stdout.splitlines()]
    if not done.returncode:
        return "emulated fabric", True, "can be built"
    why = "; ".join(missing) or "it cannot be tried"
    return "emulated fabric", True, f"not here (only for simfrontier emulate): {why}"


ADDS = (Check(run=tried),)
