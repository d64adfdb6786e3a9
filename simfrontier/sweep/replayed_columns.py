"""The columns that a replayed row has; what else a row says takes a simulated step."""

from typing import Final

KEPT: Final = ("scenario", "plan", "devices", "nodes", "micro_batch", "grad_accum", "fits", "schedule_digest", "mesh")
STEP: Final = "step_time_s"
PER_STEP: Final = ("tflops_per_device", "tokens_per_s")
REPLAYED: Final = (*KEPT, STEP, *PER_STEP)
