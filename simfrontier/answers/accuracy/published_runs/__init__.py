"""Published training runs: converted to scenarios by rules, predicted, and compared with the published values."""
