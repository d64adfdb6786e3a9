"""Fitting: a library's free parameters by robust least squares on measured times, and how well they hold elsewhere."""
