"""Losses of training with compressed messages: a model is trained for real under every compression policy, and its
losses are compared with those of uncompressed training."""
