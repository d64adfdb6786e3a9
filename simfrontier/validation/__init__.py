"""Measured times held against the shipped models: what each row is predicted as, and how far the tables lie off."""
