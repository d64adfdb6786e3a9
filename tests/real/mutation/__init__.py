"""Faults put into the executor at its seams, held against the verdict of `simfrontier-real train`."""
