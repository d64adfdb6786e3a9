"""What a replayed row says: its columns, its fidelity, and how far replays are off; all else takes a simulated step."""

from typing import Final

from simfrontier.simulation import REPLAY_LARGEST_ERROR, REPLAY_MEAN_ERROR

KEPT: Final = (
    *("scenario", "plan", "devices", "nodes", "micro_batch", "grad_accum", "fits", "schedule_digest", "mesh", "stack"),
)
REPLAY: Final = "replay"  # the fidelity of a row that was not simulated
OFF_BY: Final = (
    f"off by {100 * REPLAY_MEAN_ERROR:.1f} % on average and {100 * REPLAY_LARGEST_ERROR:.0f} % at most "
    "where that was measured"
)
STEP: Final = "step_time_s"
PER_STEP: Final = ("tflops_per_device", "tokens_per_s", "tokens_per_s_per_device")
REPLAYED: Final = (*KEPT, STEP, *PER_STEP)
