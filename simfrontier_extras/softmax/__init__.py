"""Softmax by two passes over memory against three, timed on one thread of a CPU: kernels, table and page."""
