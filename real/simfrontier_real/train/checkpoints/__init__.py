"""Checkpoints of training: one folder a step, saved and resharded by torch.distributed.checkpoint."""
