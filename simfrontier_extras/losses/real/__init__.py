"""Training of schedules with different compression policies on real ranks, to record their loss curves."""
