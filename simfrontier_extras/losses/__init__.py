"""Losses of training with compressed messages: trained for real under every policy, and compared with a plain run."""
