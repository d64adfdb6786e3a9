"""Answers computed with the core: tables of steps, experiments, searches, explanations and accuracy."""
