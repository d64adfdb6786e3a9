"""Trains schedules that compress in different ways, on real ranks, for their loss curves."""
