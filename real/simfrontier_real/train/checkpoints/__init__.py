"""Checkpoints of training: one folder per checkpointed step, saved and resharded by torch.distributed.checkpoint."""
