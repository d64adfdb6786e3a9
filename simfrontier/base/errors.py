"""The errors that simfrontier raises on purpose, drawn as a tree.

SimfrontierError    anything that simfrontier itself has to say       exit 1
├── InputError      what the user gave cannot be used as it stands    exit 2
└── StoppedError    a command was stopped, and keeps what is done     exit 130 (Ctrl-C), 143 (SIGTERM)

A message is one line, `FILE: path.to.key: got X, allowed: Y; did you mean "Z"?`; the functions below make its parts.
Anything else that comes up (AssertionError, ...) is a defect of simfrontier, not of its input.
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
_NOT_MODELLED: Final = (  # patterns of lower-case names with "_" between their words; the first that is found holds
    (r"(^|_)e(t?)p(_(size|degree|rank))?$|(^|_)experts?_(\w+_)?parallel|(^|_)expert$", "expert parallelism"),
    (
        r"(^|_)cp(_(size|degree|comm_type))?$|(^|_)context_comm_type$|(^|_)context_parallel|(^|_)ring_(self_)?att(entio)?n(_|$)"
        r"|(^|_)ring_degree$|(^|_)ulysses(_|$)|(^|_)usp(_|$)",
        "context parallelism",
    ),
    (
        r"(^|_)(moe|experts?|mixture_of_experts|top_?k|capacity_factor|router_(topk|aux_\w+))(_|$)",
        "mixtures of experts",
    ),
    (  # models: by name, or by the counts in it, as in 8x7b, 30b-a3b and 17b-16e
        r"mixtral|deepseek_?(v[2-9]|r1)|dbrx|(^|_)grok|snowflake_arctic|switch_(base|large|xxl|c|transformer)(_|$)"
        r"|(^|_)glam(_|$)|gshard|llama_?4|gpt_oss|kimi_k\d|moe(_|$)|(^|_)\d+x\d+(_\d+)?[bm](_|$)"
        r"|(^|_)\d+b_(a\d+(_\d+)?b|\d+e)(_|$)",
        "mixtures of experts",
    ),
)
Key = tuple[str | int, ...]  # a path in a document: names of tables, positions in lists
LEAST_HELD = 3  # characters of a name that others may have in them
MAX_SHOWN = 60  # characters of a wrong value
MAX_LISTED = 12
MAX_MESSAGE = 500


def not_modelled(name: str) -> str | None:
    """Return a note that what a name stands for is not modelled yet; None for any other name."""
    plain = re.sub(r"[^a-z0-9]+", "_", name[:MOST_CHARACTERS].lower()).strip("_")
    return next((f"not modelled yet: {words}" for pattern, words in _NOT_MODELLED if re.search(pattern, plain)), None)


class SimfrontierError(Exception):
    """Base of all errors that simfrontier raises on purpose; `exit_code` is the exit code of the command line."""

    exit_code = 1

    def __copy__(self) -> Self:
        """Return an error with fields of its own, also where Dask has registered how errors are pickled: such copies
        share their fields."""
        made = type(self).__new__(type(self), *self.args)
        made.__dict__.update(self.__dict__)
        return made


class InputError(SimfrontierError):
    """A file, a name or a number that the user gave cannot be used; the message is one line.

    `what` is wrong, `where` (a file, an option), at which `key` of it, and `when` (`at 384 devices`), as far as known.
    Whoever knows more of the place adds it by `within`; nobody takes the message apart.
    """

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", key: Key = (), when: str = "") -> None:
        super().__init__(what)
        self.what, self.where, self.key, self.when = what, where, key, when

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, dotted(self.key), self.when, self.what) if part)

    def within(self, where: str = "", key: Key = (), when: str = "") -> Self:
        """Return the same fault below `key` of the file `where`. A fault of another file becomes, as a whole, the
        message at that key; a fault that already names `where` is returned as it is."""
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
        """Return the message of the fault without its file and without `key`, for a reader who knows both."""
        rest = self.key[len(key) :] if self.key[: len(key)] == key else self.key
        return ": ".join(part for part in (dotted(rest), self.what) if part)

    def inside(self, where: str, key: Key) -> Self:
        """Return the same fault of a document that stands at `key` of the file `where`, which it may name itself."""
        return self.outside(where).within(where, key)

    def outside(self, where: str) -> Self:
        """Return the same fault without the name of the file, where that is known to be meant."""
        inner = copy(self)
        if self.where == where:
            inner.where = ""
        return inner


@contextmanager
def located(where: str = "", key: Key = (), when: str = "") -> Iterator[None]:
    """Raise an InputError of the block as the same fault in a place around it (`InputError.within`)."""
    try:
        yield
    except InputError as error:
        raise error.within(where, key, when) from None


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM (scancel, a time limit): it ends everything that Ctrl-C ends, with an exit code of its own."""


def exit_code_of_stop(stop: KeyboardInterrupt) -> int:
    """Return 128 plus the number of the signal: 130 after Ctrl-C, 143 after SIGTERM."""
    return 143 if isinstance(stop, Terminated) else 130


class StoppedError(SimfrontierError):
    """A command was stopped by Ctrl-C or SIGTERM; the message says what is kept."""

    def __init__(self, what: str, stop: KeyboardInterrupt) -> None:
        super().__init__(what)
        self.exit_code = exit_code_of_stop(stop)


def one_line(text: str) -> str:
    """Return a message as one line that a terminal shows; of a long one the middle is left out, because the end says
    what is allowed."""
    plain = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    if len(plain) <= MAX_MESSAGE:
        return plain
    return f"{plain[: MAX_MESSAGE * 2 // 3]} ... {plain[-MAX_MESSAGE // 4 :]}"


def dotted(key: Key) -> str:
    """Return a key in dotted form: `("node", "rings", 0)` is `node.rings[0]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).removeprefix(".")


def shown(value: object) -> str:
    """Return a wrong value as a file would write it, cut where it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode()
    except (TypeError, RecursionError, ValueError):  # no value of a file, too deep, or thousands of digits
        return f"a {type(value).__name__}"
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def wrong(got: object, allowed: str) -> str:
    """Return the message for a value that is not allowed."""
    return f"got {shown(got)}, allowed: {allowed}"


def unknown(got: object, allowed: Iterable[str]) -> str:
    """Return the message for a name that is not allowed, with the nearest one that is."""
    return f"got {shown(got)}; {meant(str(got), allowed)}"


def unknown_key(name: str, allowed: Iterable[str]) -> str:
    """Return the message for an unknown key of a table; the place of the error names the table."""
    return f"unknown key; {meant(name, allowed)}"


def meant(name: str, allowed: Iterable[str]) -> str:
    """Return the message for a name of a scenario's vocabulary that is not allowed: that it is not modelled yet, or the
    nearest name. An allowed name with one letter more counts as a typing error."""
    names = tuple(allowed)
    is_slip = _squeezed(name)[:-1] in map(_squeezed, names)
    return (None if is_slip else not_modelled(name)) or nearest(name, names)


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return the message for a name that is not allowed: `did you mean "x"?`, or else the allowed names."""
    names = sorted(set(allowed))
    close = near(name, names)
    if close is not None:
        return f'did you mean "{close}"?'
    if not names:
        return "nothing is allowed here"
    more = f", and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"allowed: {', '.join(names[:MAX_LISTED])}{more}"


def near(name: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed name that is most like a name, if any: the same but for case, hyphens and + for p (zero++),
    one whose first words they are, one of nearly the same letters, or the shortest that has the name in it."""
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
    """Return the shortest name that has these letters in it; None where two are as short."""
    holds = [each for key, each in known.items() if len(wanted) >= LEAST_HELD and wanted in key]
    return holds[0] if len(holds) == 1 or (holds and len(holds[0]) < len(holds[1])) else None


def _squeezed(name: str) -> str:
    """Return a name without what people write one way or the other."""
    return re.sub(r"[-_. ]", "", name.lower().replace("+", "p"))
