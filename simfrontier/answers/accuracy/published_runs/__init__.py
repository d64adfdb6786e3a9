"""Training runs that people published: read by rules as scenarios, predicted, and compared with what they took."""
