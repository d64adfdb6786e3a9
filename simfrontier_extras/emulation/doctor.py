"""What `simfrontier doctor` says of an emulated fabric."""

from __future__ import annotations

from simfrontier.extras import Check


def tried() -> tuple[str, bool, str]:
    """Whether a fabric can be laid out here; the real half tries it, in namespaces that end with the trial."""
    import subprocess
    import sys

    only = "only for simfrontier emulate"
    try:
        asked = [sys.executable, "-m", "simfrontier_real", "fabric-check"]
        tried = subprocess.run(asked, capture_output=True, text=True, timeout=60.0, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "emulated fabric", True, f"cannot be tried ({only}): {error}"
    lines = [line.removeprefix("missing: ") for line in tried.stdout.splitlines()]
    if tried.returncode and not lines:
        return "emulated fabric", True, f"cannot be tried ({only})"
    return "emulated fabric", True, f"not here ({only}): {'; '.join(lines)}" if lines else "can be laid out"


ADDS = (Check(run=tried),)
