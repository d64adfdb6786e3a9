"""What a replayed row says: its columns, its fidelity, and the measured error; all else takes a simulated step."""

from typing import Final

KEPT: Final = (
    *("scenario", "plan", "devices", "nodes", "micro_batch", "grad_accum", "fits", "schedule_digest", "mesh", "stack"),
)
REPLAY: Final = "replay"  # the fidelity of a row that was not simulated
REPLAY_ERROR: Final = "replay_error"  # column: relative, the largest that was measured beside; none of simulated rows
STEP: Final = "step_time_s"
PER_STEP: Final = ("tflops_per_device", "tokens_per_s", "tokens_per_s_per_device")
REPLAYED: Final = (*KEPT, STEP, *PER_STEP)
