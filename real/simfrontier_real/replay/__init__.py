"""Replay of schedules with messages of the right sizes, and the traces of it."""
