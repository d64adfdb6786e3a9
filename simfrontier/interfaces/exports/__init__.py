"""Export of simulated steps to file formats of other programs."""
