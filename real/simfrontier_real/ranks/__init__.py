"""Processes of a real run: launching ranks, connecting them, and the transports between them."""
