"""Schedules with one stored fact changed: each is refused by `check`, or trains as the sound schedule does."""
