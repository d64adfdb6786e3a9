"""Utilities that all other packages use: errors, units, files, worker processes."""
