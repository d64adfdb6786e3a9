"""Training of small real models by schedules, their unsharded reference, and checkpoints."""
