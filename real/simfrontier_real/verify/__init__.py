"""Verification of training: comparisons with the unsharded model, and their tolerances."""
