"""What all floors use: errors, units, files, workers."""
