"""Mugs pre-training (arXiv 2203.14415) computed for real: its own ops, states and data, and the one-process model."""
