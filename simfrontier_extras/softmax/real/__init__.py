"""The compiled kernels (numba) and their timing."""
