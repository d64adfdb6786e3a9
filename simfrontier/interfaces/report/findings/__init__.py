"""Findings as values: names, numbers and units, without sentences. Pages and JSON are made from them."""
