"""The errors that simfrontier raises on purpose, as a class hierarchy.

SimfrontierError    any error that simfrontier itself reports         exit 1
├── InputError      input from the user is invalid                    exit 2
└── StoppedError    a command was stopped; finished results are kept  exit 130 (Ctrl-C), 143 (SIGTERM)

A message is one line, `FILE: path.to.key: got X, allowed: Y; did you mean "Z"?`; the functions below make its parts.
Any other exception (AssertionError, ...) is a defect of simfrontier, not of its input.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from difflib import get_close_matches
from itertools import accumulate
from typing import Final, Self

MOST_CHARACTERS: Final = 100  # of a name that is looked at
_TECHNIQUES: Final = (  # patterns of lower-case names with "_" between their words; the first that is found holds
    (
        r"(^|_)e(t?)p(_(size|degree|rank))?$|(^|_)experts?_(\w+_)?parallel|(^|_)expert$",
        'expert parallelism is the key expert of family = "megatron"',
    ),
    (
        r"(^|_)cp(_(size|degree|comm_type))?$|(^|_)context_comm_type$|(^|_)context_parallel|(^|_)ring_(self_)?att(entio)?n(_|$)"
        r"|(^|_)ring_degree$|^context$|(^|_)ulysses(_|$)|(^|_)usp(_|$)",
        'context parallelism is the keys context and context_by of family = "megatron"',
    ),
    (
        r"(^|_)(moe|experts?|mixture_of_experts|top_?k|capacity_factor|router_(topk|aux_\w+))(_|$)",
        "mixtures of experts are the keys experts and experts_per_token of model, or models by name",
    ),
    (  # models: by name, or by the counts in it, as in 8x7b, 30b-a3b and 17b-16e
        r"mixtral|deepseek_?(v[2-9]|r1)|dbrx|(^|_)grok|snowflake_arctic|switch_(base|large|xxl|c|transformer)(_|$)"
        r"|(^|_)glam(_|$)|gshard|llama_?4|gpt_oss|kimi_k\d|moe(_|$)|(^|_)\d+x\d+(_\d+)?[bm](_|$)"
        r"|(^|_)\d+b_(a\d+(_\d+)?b|\d+e)(_|$)",
        "`simfrontier list models` has the mixtures of experts that are known by name; others are keys of model",
    ),
)
Key = tuple[str | int, ...]  # a path in a document: names of tables, positions in lists
LEAST_HELD = 3  # characters of a name that others may have in them
MAX_SHOWN = 60  # characters of a wrong value
MAX_LISTED = 12
MAX_MESSAGE = 500


def technique(name: str) -> str | None:
    """Return a note about how a known technique is written here, by a name that others give it; None for any other
    name."""
    plain = re.sub(r"[^a-z0-9]+", "_", name[:MOST_CHARACTERS].lower()).strip("_")
    return next((note for pattern, note in _TECHNIQUES if re.search(pattern, plain)), None)


class SimfrontierError(Exception):
    """Base of all errors that simfrontier raises on purpose; `exit_code` is the exit code of the command line."""

    exit_code = 1

    def __copy__(self) -> Self:
        """Return a copy of the error with its own attributes, even where Dask has registered how errors are pickled:
        copies made that way would share their attributes."""
        made = type(self).__new__(type(self), *self.args)
        made.__dict__.update(self.__dict__)
        return made


class InputError(SimfrontierError):
    """Error for a file, a name or a number from the user that cannot be used; the message is one line.

    `what` describes the fault, `where` is the file or option, `key` the key in the file, and `when` the case (`at 384
    devices`), each as far as known. Callers that know more of the location add it with `within`; no code parses the
    message.
    """

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", key: Key = (), when: str = "") -> None:
        super().__init__(what)
        self.what, self.where, self.key, self.when = what, where, key, when

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, dotted(self.key), self.when, self.what) if part)

    def within(self, where: str = "", key: Key = (), when: str = "") -> Self:
        """Return this error located below `key` of the file `where`. If the error already names another file, its whole
        message becomes the description of the fault at that key; an error that already names the file `where` is
        returned unchanged."""
        if self.where and self.where == where:
            return self
        outer = copy(self)
        if (self.where and (where or key)) or (self.when and when):
            outer.what, outer.where, outer.key, outer.when = str(self), where, key, when
        else:
            outer.where, outer.key, outer.when = where or self.where, (*key, *self.key), when or self.when
        outer.args = (outer.what,)
        return outer

    def below(self, key: Key) -> str:
        """Return the message without the file and without the leading `key`, for a reader who knows both."""
        rest = self.key[len(key) :] if self.key[: len(key)] == key else self.key
        return ": ".join(part for part in (dotted(rest), self.what) if part)

    def inside(self, where: str, key: Key) -> Self:
        """Return the error of a nested document located at `key` of the file `where`, even if the error already names
        that file."""
        return self.outside(where).within(where, key)

    def outside(self, where: str) -> Self:
        """Return the error without its file name if that is `where`."""
        inner = copy(self)
        if self.where == where:
            inner.where = ""
        return inner


@contextmanager
def located(where: str = "", key: Key = (), when: str = "") -> Iterator[None]:
    """Context manager: an InputError raised in the block is raised with its location added (see
    `InputError.within`)."""
    try:
        yield
    except InputError as error:
        raise error.within(where, key, when) from None


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM (scancel, a time limit): it stops a command as Ctrl-C does, but has its own exit code."""


def exit_code_of_stop(stop: KeyboardInterrupt) -> int:
    """Return 128 plus the number of the signal: 130 after Ctrl-C, 143 after SIGTERM."""
    return 143 if isinstance(stop, Terminated) else 130


class StoppedError(SimfrontierError):
    """A command was stopped by Ctrl-C or SIGTERM; the message says what is kept."""

    def __init__(self, what: str, stop: KeyboardInterrupt) -> None:
        super().__init__(what)
        self.exit_code = exit_code_of_stop(stop)


def one_line(text: str) -> str:
    """Return a message as one line that fits a terminal; a long message is shortened in the middle, because its end
    says what is allowed."""
    plain = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    if len(plain) <= MAX_MESSAGE:
        return plain
    return f"{plain[: MAX_MESSAGE * 2 // 3]} ... {plain[-MAX_MESSAGE // 4 :]}"


def dotted(key: Key) -> str:
    """Return a key in dotted form: `("node", "rings", 0)` becomes `node.rings[0]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).removeprefix(".")


def shown(value: object) -> str:
    """Return a value for an error message, as it would stand in a file, truncated if it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode()
    except (TypeError, RecursionError, ValueError):  # no value of a file, too deep, or thousands of digits
        return f"a {type(value).__name__}"
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def wrong(got: object, allowed: str) -> str:
    """Return the error message for a value that is not allowed."""
    return f"got {shown(got)}, allowed: {allowed}"


def unknown(got: object, allowed: Iterable[str]) -> str:
    """Return the error message for a name that is not allowed, with a suggestion."""
    return f"got {shown(got)}; {meant(str(got), allowed)}"


def unknown_key(name: str, allowed: Iterable[str]) -> str:
    """Return the error message for an unknown key of a table; the error's location names the table."""
    return f"unknown key; {meant(name, allowed)}"


def meant(name: str, allowed: Iterable[str]) -> str:
    """Return a suggestion for a name that is not allowed in a scenario: how it is written here, if it is a known
    technique, or else the nearest allowed name. An allowed name and one extra letter counts as a typing error."""
    names = tuple(allowed)
    is_slip = _squeezed(name)[:-1] in map(_squeezed, names)
    return (None if is_slip else technique(name)) or nearest(name, names)


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return a suggestion for a name that is not allowed: `did you mean "x"?`, or else the list of allowed names."""
    names = sorted(set(allowed))
    close = near(name, names)
    if close is not None:
        return f'did you mean "{close}"?'
    if not names:
        return "nothing is allowed here"
    more = f", and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"allowed: {', '.join(names[:MAX_LISTED])}{more}"


def near(name: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed name that is most similar to a name, None if there is none: in this order, a name that differs
    only in case, in separators (hyphens, underscores, dots, blanks) or in "p" for "+" (zero++), a name that begins with
    the given words, a name of similar spelling, or the shortest name that contains the given one."""
    known: dict[str, str] = {}
    for candidate in sorted(set(allowed), key=lambda each: (len(each), each)):
        known.setdefault(_squeezed(candidate), candidate)
    wanted = _squeezed(name)
    if wanted in known:
        return known[wanted]
    begins = (each for each in known.values() if wanted in accumulate(re.split(r"[-_. ]", each.lower())))
    return next(begins, None) or _of_like_letters(name, known.values()) or _that_holds(wanted, known)


def _of_like_letters(name: str, allowed: Iterable[str]) -> str | None:
    lowered = {candidate.lower(): candidate for candidate in sorted(allowed, reverse=True)}
    close = get_close_matches(name.lower(), sorted(lowered), n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def _that_holds(wanted: str, known: Mapping[str, str]) -> str | None:
    """Return the shortest allowed name that contains the letters `wanted`; None if there is none, or two are equally
    short."""
    holds = [each for key, each in known.items() if len(wanted) >= LEAST_HELD and wanted in key]
    return holds[0] if len(holds) == 1 or (holds and len(holds[0]) < len(holds[1])) else None


def _squeezed(name: str) -> str:
    """Return a name in lower case without separators and with "p" for "+", so that spelling variants become equal."""
    return re.sub(r"[-_. ]", "", name.lower().replace("+", "p"))
