"""Fits of free parameters of library models and measuring programs to measured calls."""
