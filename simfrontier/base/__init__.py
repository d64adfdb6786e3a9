"""Base of all other layers: errors, units, files, workers."""
