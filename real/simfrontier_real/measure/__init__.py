"""Measurements of this machine: collectives, kernels, and what runs on its devices."""
