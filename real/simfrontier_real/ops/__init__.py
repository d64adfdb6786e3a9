"""Execution of ops on real buffers: lanes, kernels, codecs, layouts."""
