"""Collectives as MSCCL algorithm files, which RCCL executes; and what says whether such a file does what it should."""
