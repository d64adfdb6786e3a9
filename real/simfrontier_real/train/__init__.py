"""Training of small real models by schedules, the unsharded reference training, and checkpoints."""
