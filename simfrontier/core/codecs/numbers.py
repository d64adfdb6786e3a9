"""Plain decimal numbers in the text of a codec."""

import re


def decimal(text: str) -> float | None:
    """A number without sign or exponent, of at most 30 digits; None for anything else."""
    return float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,20})?", text) else None
