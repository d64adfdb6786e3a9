"""Checkpoints of training: a folder per step, with a file of each rank that writes, whole by its manifest."""
