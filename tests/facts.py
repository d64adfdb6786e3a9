"""What a sentence for people has to say, without the words between."""

from __future__ import annotations

import re


def says(text: str, *facts: object) -> bool:
    """Whether the facts (numbers with their units, names, words that decide) are in the text in this order, each as a
    whole: "1 s" is not in "21 s"."""
    at = 0
    for fact in facts:
        found = re.compile(rf"(?<![\w.]){re.escape(str(fact))}(?!\w|\.\d)").search(text, at)
        if found is None:
            return False
        at = found.end()
    return True
