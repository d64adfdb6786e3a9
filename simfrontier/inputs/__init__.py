"""Input files: scenarios, measured tables and traces."""
