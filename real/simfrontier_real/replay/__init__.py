"""Replay of schedules with messages of the scheduled sizes, and traces of the replay."""
