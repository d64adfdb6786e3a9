"""Text that a terminal shows as it stands: control characters are refused in files, and taken out of what is said.

A terminal takes escape sequences in a name as commands: to move the cursor, to recolour, to retitle its window.
"""

from __future__ import annotations

import re

from simfrontier.limits import MESSAGE

# C0 but tab and ends of lines, DEL, C1, and the signs that change the direction of what follows
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_SEQUENCE = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\-_])")
_JSON_ESCAPE = re.compile(
    r"(?<!\\)(?:\\\\)*(\\(?:[bf]|u00(?:0[0-8bcef]|1[0-9a-f]|7f|[89][0-9a-f])|u20(?:2[a-e]|6[6-9])))", re.IGNORECASE
)


def control_in(text: str) -> str | None:
    """What is wrong with a text that holds a control character, if it does: which, and where it stands."""
    match = _CONTROL.search(text)
    if match is None:
        return None
    line = text.count("\n", 0, match.start()) + 1
    return f"line {line}: control character U+{ord(match[0]):04X}; allowed: text that can be shown"


def escape_in(text: str) -> str | None:
    """The same of a JSON text, in which control characters stand as escapes."""
    match = _JSON_ESCAPE.search(text)
    if match is None:
        return control_in(text)
    line = text.count("\n", 0, match.start()) + 1
    return f"line {line}: control character {match[1]}; allowed: text that can be shown"


def without_controls(text: str) -> str:
    """A text without escape sequences and control characters; ends of lines and tabs stay."""
    return _CONTROL.sub("", _SEQUENCE.sub("", text))


def one_line(text: str) -> str:
    """A message as one line of at most `limits.MESSAGE` characters, without escape sequences and what cannot be seen;
    of a longer one the middle is left out, because the end says what is allowed."""
    words = " ".join(without_controls(text).split())
    plain = "".join(filter(str.isprintable, words))
    if len(plain) <= MESSAGE.most:
        return plain
    end = MESSAGE.most // 3
    return f"{plain[: MESSAGE.most - end - 5]} ... {plain[-end:]}"
