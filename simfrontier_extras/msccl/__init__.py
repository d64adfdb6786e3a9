"""Collectives as MSCCL algorithm files, which RCCL executes; and the check that such a file computes its collective."""
