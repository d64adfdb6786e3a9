"""Processes of a real run: launch, the world of ranks, and transports between them."""
