"""Changed files for every reader, by the hundred thousand: `python -m tests.fuzz` (make fuzz)."""
