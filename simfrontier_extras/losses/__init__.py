"""Losses of training with compressed messages: trained for real under every policy, and held against a plain run."""
